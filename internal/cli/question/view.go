// Package question shows an approval to the person who decides it: everything that decides what
// will happen, in full, with outside text escaped behind a gutter, and the possible answers.
package question

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// View shows an approval to the person who decides. Everything that decides what will happen is in
// it, in full; outside text is escaped behind a gutter, so that it cannot look like a line of the
// view itself. The most important lines come last: they are still on the screen, right above the
// question, when the plan or the diff was longer than the screen.
type View struct {
	W          io.Writer
	Approval   palyra.Approval
	Separation palyra.Separation // of the key that would decide; "" when unknown
	Now        time.Time
	Style      screen.Style
	Width      int    // columns; 0: no terminal
	Brief      bool   // long arguments lose their middle, because nothing is decided here
	Short      bool   // long lists of usual things are counted
	Once       bool   // no wider answer can be given here
	Own        string // how command lines about the approval begin
	Pane       int    // lines that a pane of the terminal UI has for it, whose keys are named then; 0: there is no pane
	left       []string
	apart      bool   // the diff is too long for the question: it is shown on demand
	laid       bool   // parts are kept until all of them are laid out
	parts      []part // those kept
	notes      int    // lines of changes that a pane is tried with
}

// Plan prints the view of a plan alone.
func (v *View) Plan() {
	v.printTool()
	v.process()
	v.reach()
}

// labelWidth is the width of a label and the space after it.
const labelWidth = 15

// mostLines is how many lines a question has in the short view, and asking how many of them the command has that asks in place.
const (
	mostLines = 12
	asking    = 2
)

// Print writes the view. A question in short has twelve lines at most, whatever it is about; a diff that does not fit is shown on demand.
func (v *View) Print() {
	if !v.Short || !v.Approval.Pending() {
		v.print()
		return
	}
	most := mostLines
	if v.Once {
		most -= asking
	}
	most = max(most, v.Pane)
	if v.Approval.Plan.Effects != nil && v.Pane > 0 {
		v.notes = sort.Search(v.Pane, func(n int) bool { // as many changes as there is room for
			v.notes = n + 1
			_, whole := v.laidOut(most)
			return !whole
		})
	}
	parts, whole := v.laidOut(most)
	if !whole && v.Approval.Prompt.Diff != "" && !has(parts, "Diff") {
		v.apart = true
		parts, _ = v.laidOut(most)
	}
	if v.low() {
		parts = v.graveFirst(parts)
	}
	for _, p := range parts {
		io.WriteString(v.W, v.shown(p))
	}
}

// laidOut is the question in at most so many lines, and whether that is all of it.
func (v *View) laidOut(most int) ([]part, bool) {
	v.laid, v.parts, v.left = true, nil, nil
	v.print()
	v.laid = false
	return v.fitted(v.parts, most)
}

func (v *View) print() {
	if v.Short && v.Approval.Plan.Effects != nil {
		v.effectsShort()
		v.votes()
		v.answers()
		return
	}
	if v.Short && v.Pane > 0 {
		v.effectFirst()
		return
	}
	v.head()
	v.effects()
	v.printRequester()
	v.printTool()
	v.process()
	v.reach()
	v.why()
	v.diff()
	v.details()
	v.summaryBlock()
	v.votes()
	v.answers()
}

// line prints a labelled line of outside text; nothing when it is empty.
func (v *View) line(label, text string) {
	if text != "" {
		v.put(label, show.Line(text))
	}
}

// text prints labelled outside text that may have several lines; those after the first are behind the gutter.
func (v *View) text(label, s string) {
	first, rest, more := strings.Cut(strings.TrimSuffix(s, "\n"), "\n")
	if first != "" {
		v.put(label, screen.SafeLine(first))
	}
	if more {
		v.emit(part{block: rest})
	}
}

// put prints a labelled line of text that is already escaped.
func (v *View) put(label, safe string) { v.emit(part{label: label, texts: []string{safe}}) }

// shout prints a line in the colour of a warning; short is what stands for it where there is no room.
func (v *View) shout(label, safe, short string) {
	v.emit(part{label: label, texts: []string{safe}, briefs: []string{short}, tone: alarm})
}

// aside prints a line that nothing depends on.
func (v *View) aside(safe string) { v.emit(part{texts: []string{safe}, tone: calm}) }

// digest prints a digest on one line, below its label where both do not fit: people copy it.
func (v *View) digest(label string, d palyra.Digest) {
	if !d.Valid() || v.Width < len(d)+2 || labelWidth+len(d) <= v.Width {
		v.line(label, string(d))
		return
	}
	if label == "Plan digest" && len("Digest ")+len(d) <= v.Width {
		v.emit(part{label: "Digest", raw: " " + string(d)})
		return
	}
	if label != "" {
		v.put(label, "")
	}
	v.emit(part{raw: "  " + string(d)})
}

// list prints one labelled line per entry.
func (v *View) list(label string, entries []string) {
	for _, e := range entries {
		v.emit(part{label: label, texts: []string{show.Arg(e) + Readable(e)}, briefs: []string{briefPath(e)}})
		label = ""
	}
}

// Readable adds the letters of a text whose exact form is all escapes.
func Readable(s string) string {
	line := show.Line(s)
	if exact := show.Arg(s); exact == line || exact == `"`+line+`"` || !strings.Contains(exact, `\u{`) {
		return ""
	}
	return "  reads: " + line
}

func (v *View) head() {
	a := v.Approval
	if unshown(a) && v.Short {
		v.shout("NOT SHOWN", "what it would write is not all in this view; "+v.showAllHint()+" shows all of it", contentUnseen)
	}
	state := "pending"
	switch {
	case !a.Pending():
		state = Ending(a)
	case !a.ExpiresAt.IsZero():
		state = "pending, expires in " + screen.Left(a.ExpiresAt, v.Now)
	}
	id := show.Line(string(a.ID))
	text := id + " (" + show.Line(state) + ")"
	if narrow := v.Short && v.Width > 0; narrow && labelWidth+len(text) > v.Width { // people copy the id
		text = id + strings.Replace(text[len(id):], "pending, expires in ", "", 1)
		switch {
		case labelWidth+len(text) <= v.Width:
		case labelWidth+len(id) <= v.Width:
			text = id
		case len("Approval ")+len(id) <= v.Width:
			v.emit(part{label: "Approval", raw: " " + id})
			return
		}
	}
	v.put("Approval", text)
}

// Ending is how a settled question ended, in a word or two.
func Ending(a palyra.Approval) string {
	if a.Decision.Overtaken() {
		return "covered"
	}
	if a.Decision.Answer == palyra.AnswerError && slices.Contains([]string{"withdrawn", "session closed"}, a.Decision.Reason) {
		return a.Decision.Reason
	}
	return string(a.Decision.Answer)
}

// summaryBlock is the block above the question: what is asked, how risky it is, and where.
func (v *View) summaryBlock() {
	v.summary()
	v.grounds()
}

// summary is what is asked.
func (v *View) summary() {
	a := v.Approval
	named := v.Short && spoken(a.Plan) && len(a.Plan.Argv) > 0 // the command says it
	if !named && !v.Short {
		v.line("Title", a.Prompt.Title) // the short view names principal, tool and place anyway
	}
	if a.Prompt.Summary != "" && !named {
		v.put("Summary", screen.SafeLine(a.Prompt.Summary))
	}
	if v.apart {
		v.put(seeIt, v.changesHint())
	}
}

// grounds is how risky it is, and where.
func (v *View) grounds() {
	a := v.Approval
	if v.Short && a.Plan.Tier != palyra.TierBuiltin {
		v.printPlace() // right above the question, because a long diff may come before
	}
	v.risk()
	for _, n := range v.warnings() {
		v.shout("", "WARNING: "+n.text, n.short)
	}
	if ws := a.Plan.Workspace; ws.Path != "" && (ws.Known || !v.Short) {
		text := fmt.Sprintf("%s%s (as uid %d)", show.Arg(ws.Path), Readable(ws.Path), ws.Owner)
		if !ws.Known {
			text += " NEW"
		}
		v.put("Workspace", text)
	}
	if v.Separation != "" && !(v.Short && a.Plan.Staging.Staged()) && !v.apart {
		v.put("Your key", separationText(v.Separation))
	}
	if a.Pending() && !v.Short {
		v.line("Expires", screen.Stamp(a.ExpiresAt))
	}
}

// risk prints the level and its factors.
func (v *View) risk() {
	r, ws := v.Approval.Prompt.Risk, v.Approval.Plan.Workspace
	level := show.Line(cmp.Or(strings.ToUpper(string(r.Level)), "UNKNOWN"))
	fresh := ws.Path != "" && !ws.Known
	list := slices.DeleteFunc(slices.Clone(r.Factors), func(f string) bool {
		return fresh && (f == newWorkspace || f == newWorkspace+": "+ws.Path) || v.Short && f == unsandboxedFactor
	})
	how := alarm
	if r.Level == palyra.RiskLow || r.Level == palyra.RiskMedium {
		how = plain
	}
	if v.Short {
		v.emit(riskPart(level, list, how))
		list = nil
	} else {
		v.emit(part{label: riskLabel, texts: []string{level}, tone: how})
	}
	for _, f := range list {
		v.line("", f)
	}
	if fresh && v.Short {
		v.shout("", newWorkspaceText(ws), newPlace)
	} else if fresh {
		v.shout("", "NEW workspace: no operator registered it", newPlace)
	}
}

// newWorkspaceText warns of a workspace that nobody registered.
func newWorkspaceText(ws palyra.WorkspaceRef) string {
	return "NEW workspace: no operator registered " + show.Arg(ws.Path) + Readable(ws.Path)
}

// newWorkspace and unsandboxedFactor are risk factors that the view words itself.
const (
	newWorkspace      = "new_workspace"
	unsandboxedFactor = "no_sandbox: the agent runs it itself"
)

// notice is a warning and the words that stand for it where there is no room.
type notice struct{ text, short string }

// warnings names what is not as it seems, and misleading characters in the text.
func (v *View) warnings() []notice {
	a := v.Approval
	texts := slices.Concat([]string{
		a.Prompt.Title, a.Prompt.Summary, string(a.Plan.Arguments), a.Plan.Executable.Path, a.Plan.Cwd,
		a.Plan.Workspace.Path,
	},
		a.Plan.Argv, a.Plan.Reads, a.Plan.Writes, a.Plan.Egress, a.Plan.Bindings, a.Plan.Signers, []string{a.Prompt.Diff},
		environment(a.Plan), inputs(a.Plan),
		roomTexts(a.Plan))
	var out []notice
	if err := Seen(a); err != nil {
		out = append(out, notice{err.Error(), wrongDigest})
	}
	if unshown(a) {
		hint := "the diff does not show all that it would write; " + v.showAllHint() + " does: an answer is for this call only"
		out = append(out, notice{hint, contentUnseen})
	}
	if a.Plan.Stdin == palyra.StdinLive {
		out = append(out, notice{"its input is LIVE: you approve what it is, not what it will be told", liveInput})
	}
	for _, text := range texts {
		for _, note := range show.Notes(text) {
			if n := (notice{"there are " + note, misleading}); !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// Seen makes sure that the digest in an answer is that of the plan on the screen. Of one with masked values nobody can
// tell: a note says so.
func Seen(a palyra.Approval) error {
	if a.LeftOut != nil && !a.Pending() { // the view says so
		return nil
	}
	if d, err := a.Plan.Digest(); err != nil || d != a.PlanDigest && !a.Plan.Masked {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonStaleDigest, "the plan digest does not belong to this plan").
			WithRemedy("do not answer; check the daemon")
	}
	return nil
}

// printTool prints the tool and its arguments.
func (v *View) printTool() {
	p := v.Approval.Plan
	source := string(p.Source)
	source = cmp.Or(source, "unknown source")
	if v.Short && p.Source == palyra.SourceBuiltin && (spoken(p) || v.written()) {
		return
	}
	if !v.apart || p.Source != palyra.SourceBuiltin { // else the summary says what it does
		v.put("Tool", show.Arg(string(p.Tool))+Readable(string(p.Tool))+" ("+show.Line(source)+capabilities(p.Capabilities)+")")
	}
	if v.Short && (spoken(p) || v.written() || p.Tool == palyra.ToolSign) { // the notes say in words what is signed
		return
	}
	if l := v.Approval.LeftOut; l != nil {
		v.put("Arguments", fmt.Sprintf("%s, %s: not kept, because nobody allowed it", screen.Size(l.ArgumentsBytes),
			show.Line(string(l.Arguments))))
		return
	}
	args, most := Arguments(p.Arguments), shownArguments
	if v.apart {
		most = 2 * screen.CellWidth
	}
	if !v.cut() || len(args) <= most {
		v.put("Arguments", args)
		v.decoded()
		return
	}
	v.put("Arguments", show.MiddleOf(args, most))
	switch {
	case v.apart:
	case v.Brief:
		v.aside("--json has them whole")
	case unshown(v.Approval):
		v.shout("", "what they write is not all shown; "+v.showAllHint()+" shows it", contentUnseen)
	default:
		v.aside("the diff shows what they do; " + v.showAllHint() + " has them whole")
	}
}

// Arguments is a JSON document on one line in JSON's own escapes, without a second layer of ours: one backslash
// always, whatever else the document holds. Text that is not JSON is shown in our escapes.
func Arguments(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || !utf8.Valid(raw) {
		return show.Line(string(raw))
	}
	return show.Blanks(string(show.JSON(screen.PlainJSON(b.Bytes()))))
}

// shownArguments is how much of the arguments is shown when the diff has the same in full.
const shownArguments = 2000

// cut reports whether long arguments lose their middle: where nothing is decided, and in the short view of a call
// whose diff has the same in full or whose first line says that it is not shown. The full view cuts nothing.
func (v *View) cut() bool {
	return v.Brief || v.Short && (v.Approval.Prompt.Diff != "" || unshown(v.Approval))
}

// changesHint names the command that shows the diff.
func (v *View) changesHint() string {
	if v.Pane > 0 {
		return "d shows the diff"
	}
	return cmp.Or(v.Own, "palyra") + " changes " + show.Arg(string(v.Approval.Call)) + " --diff[=FILE]"
}

// showAllHint names the command that shows everything.
func (v *View) showAllHint() string {
	if v.Pane > 0 {
		return "f"
	}
	return cmp.Or(v.Own, "palyra") + " approvals show " + show.Arg(string(v.Approval.ID)) + " --full"
}

// decoded prints arguments that are not readable in the JSON document, byte for byte in our
// escapes, unless the diff shows them.
func (v *View) decoded() {
	a := v.Approval
	if v.Brief || a.Prompt.Diff != "" && !unshown(a) {
		return
	}
	for _, m := range show.Members(a.Plan.Arguments, !v.Short && unshown(a), shownArguments) {
		label, what := "Argument", show.Arg(m.Name)
		if m.Encoded {
			what += ", decoded"
		}
		if v.Short && show.Opaque(m.Data) {
			text := what + ": " + screen.Count(int64(len(m.Data)), "byte") + " that are not text are not shown; " + v.showAllHint() + " shows them"
			v.shout(label, text, argumentUnseen)
			continue
		}
		what += ", " + screen.Count(int64(len(m.Data)), "byte") + ":"
		if string(m.Data) == "\n" {
			what += " an empty line"
		}
		v.block(label, what, string(m.Data))
	}
}

// unshown reports whether a call writes content that the diff does not show. Earlier daemons said
// so in the diff, on a line that no line of content can be.
func unshown(a palyra.Approval) bool {
	return a.Plan.Unshown || strings.Contains("\n"+a.Prompt.Diff, "\n(not shown line by line: ")
}

func capabilities(list []palyra.Capability) string {
	out := ""
	for _, c := range list {
		out += ", " + show.Line(string(c))
	}
	return out
}
