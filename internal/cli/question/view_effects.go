package question

import (
	"cmp"
	"fmt"
	"strings"

	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// effectLines is how many lines of the short view list changes; with the rest it has twelve.
const effectLines = 5

// effectsShort prints the question whether the changes of a run are kept: the changes come first,
// and how to see all of them.
func (v *View) effectsShort() {
	a := v.Approval
	v.head()
	v.put("Keep?", screen.SafeMiddle(strings.TrimPrefix(a.Prompt.Summary, "keep what it changed: "), 4*screen.CellWidth))
	for i, note := range a.Prompt.Notes {
		if i == effectLines-1 && len(a.Prompt.Notes) > effectLines {
			v.put("", fmt.Sprintf("and %d more lines, in the list", len(a.Prompt.Notes)-i))
			break
		}
		v.put("", screen.SafeMiddle(note, 2*screen.CellWidth))
	}
	v.put("See it", cmp.Or(v.Own, "palyra")+" changes "+show.Arg(string(a.Call)))
	v.put("It ran", screen.SafeMiddle(show.Argv(a.Plan.Argv), 2*screen.CellWidth)+" for "+show.Arg(string(a.Principal)))
	why, _, _ := strings.Cut(v.reasons(), "\n")
	v.put("Why asked", screen.SafeMiddle(why, 2*screen.CellWidth))
	for _, note := range v.warnings() {
		v.shout("", "WARNING: "+note)
	}
	text := show.Arg(a.Plan.Workspace.Path)
	if !a.Plan.Workspace.Known {
		text += " NEW"
	}
	v.put("Workspace", text)
}

// effects prints the counts and the digest that a question about changes is bound to.
func (v *View) effects() {
	e := v.Approval.Plan.Effects
	if e == nil {
		return
	}
	v.put("Changes", fmt.Sprintf("%d created, %d changed, %d removed, %d mode, %d link; %d bytes before and %d now",
		e.Created, e.Changed, e.Removed, e.Mode, e.Link, e.BytesWas, e.BytesNow))
	if e.Omitted > 0 {
		v.shout("", fmt.Sprintf("%d of them are counted and not listed", e.Omitted))
	}
	v.digest("List", e.Digest)
	v.line("", string(e.List))
}
