package question

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// effectLines is how many lines of the short view list changes; with the rest it has twelve.
const effectLines = 4

// effectsShort prints the question whether the changes of a run are kept: the changes come first,
// and how to see all of them.
func (v *View) effectsShort() {
	a := v.Approval
	v.head()
	counts, _, _ := strings.Cut(a.Prompt.Summary, "; ") // the notes have the rest
	v.row(keepLabel, strings.TrimPrefix(counts, "keep what it changed: "))
	whys := v.keepReasons()
	most := max(effectLines+1-len(whys)-min(len(v.warnings()), 1), 2) // the gravest note comes first, and stays
	rest := "see below, without --diff"
	if v.Pane > 0 {
		most, rest = max(v.notes, most), "d shows what is in them"
	}
	for i, note := range a.Prompt.Notes {
		if i == most-1 && len(a.Prompt.Notes) > most {
			v.put("", fmt.Sprintf("and more, %s in all: %s", screen.Count(a.Plan.Effects.Total(), "path"), rest))
			break
		}
		v.row("", note)
	}
	v.put(seeIt, v.changesHint())
	v.risk()
	for i, why := range whys {
		v.row([]string{"Why asked", ""}[min(i, 1)], why)
	}
	v.row("It ran", show.Argv(a.Plan.Argv)+" for "+string(a.Principal)+" in "+a.Plan.Workspace.Path)
	for _, n := range v.warnings() {
		v.shout("", "WARNING: "+n.text, n.short)
	}
}

// mostWhys is how many reasons of a question about changes are shown.
const mostWhys = 3

// keepReasons are the reasons why changes are asked about, without what would have kept them unasked.
func (v *View) keepReasons() []string {
	all := slices.DeleteFunc(strings.Split(v.reasons(), "\n"), func(line string) bool { return line == ordinaryWork })
	if n := len(all); n > mostWhys {
		all = append(all[:mostWhys-1], fmt.Sprintf("and %d more reasons (%s)", n-mostWhys+1, v.byKey("--full", "f")))
	}
	return all
}

// ordinaryWork is the reason of the rule that keeps changes.
const ordinaryWork = "ordinary work in the workspace is kept"

// row prints outside text on one line, without its middle where it is longer.
func (v *View) row(label, text string) {
	if v.Pane > 0 {
		v.put(label, screen.SafeLine(text))
		return
	}
	most := 2 * screen.CellWidth
	if room := v.Width - labelWidth; room >= leastRow && len(screen.SafeLine(text)) > room {
		most = room - len("⋯ 1234567 bytes left out ⋯")
	} else if room >= leastRow {
		most = room
	}
	v.put(label, screen.SafeMiddle(text, most))
}

// leastRow is the room below which a line is rather broken than shortened.
const leastRow = 40

// effects prints the counts and the digest that a question about changes is bound to.
func (v *View) effects() {
	e := v.Approval.Plan.Effects
	if e == nil {
		return
	}
	v.put("Changes", fmt.Sprintf("%d created, %d changed, %d removed, %d mode, %d link; %d bytes before and %d now",
		e.Created, e.Changed, e.Removed, e.Mode, e.Link, e.BytesWas, e.BytesNow))
	if e.Omitted > 0 {
		v.shout("", fmt.Sprintf("%d of them are counted and not listed", e.Omitted), "")
	}
	v.digest("List", e.Digest)
	v.line("", string(e.List))
}
