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
	left       []string
	apart      bool // the diff is too long for the question: it is shown on demand
}

// Plan prints the view of a plan alone.
func (v *View) Plan() {
	v.printTool()
	v.process()
	v.reach()
}

// labelWidth is the width of a label and the space after it.
const labelWidth = 15

// mostLines is how many lines a question has in the short view, and smallDiff those of a diff that is shown anyway.
const (
	mostLines = 12
	smallDiff = 6
)

// Print writes the view.
func (v *View) Print() {
	if a := v.Approval; v.Short && a.Pending() && strings.Count(a.Prompt.Diff, "\n") > smallDiff {
		var text strings.Builder
		whole := *v
		whole.W = &text
		whole.print()
		v.apart = strings.Count(text.String(), "\n") > mostLines
	}
	v.print()
}

func (v *View) print() {
	if v.Short && v.Approval.Plan.Effects != nil {
		v.effectsShort()
		v.votes()
		v.answers()
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
		frame := show.Frame{Prefix: strings.Repeat(" ", labelWidth-2), Width: v.Width}
		io.WriteString(v.W, frame.Block(rest))
	}
}

// put prints a labelled line of text that is already escaped.
func (v *View) put(label, safe string) {
	v.paint(label, safe, func(s string) string { return s })
}

// shout prints a line in the colour of a warning.
func (v *View) shout(label, safe string) { v.paint(label, safe, v.Style.Alarm) }

// paint prints a labelled line. It wraps before it colours, so that no colour is cut in half.
func (v *View) paint(label, safe string, colour func(string) string) {
	if len(label) >= labelWidth {
		io.WriteString(v.W, v.Style.Strong(label)+"\n")
		label = ""
	}
	margin := strings.Repeat(" ", labelWidth)
	frame := show.Frame{Prefix: margin[2:], Width: v.Width}
	text := strings.TrimSuffix(frame.Text(margin, safe), "\n")
	first, rest, broken := strings.Cut(strings.TrimPrefix(text, margin), "\n")
	io.WriteString(v.W, v.Style.Strong(label)+margin[len(label):]+colour(first)+"\n")
	if broken {
		io.WriteString(v.W, colour(rest)+"\n")
	}
}

// digest prints a digest on one line, below its label where both do not fit: people copy it.
func (v *View) digest(label string, d palyra.Digest) {
	if !d.Valid() || v.Width < len(d)+2 || labelWidth+len(d) <= v.Width {
		v.line(label, string(d))
		return
	}
	if label == "Plan digest" && len("Digest ")+len(d) <= v.Width {
		io.WriteString(v.W, v.Style.Strong("Digest")+" "+string(d)+"\n")
		return
	}
	if label != "" {
		v.put(label, "")
	}
	io.WriteString(v.W, "  "+string(d)+"\n")
}

// list prints one labelled line per entry.
func (v *View) list(label string, entries []string) {
	for _, e := range entries {
		v.put(label, show.Arg(e)+Readable(e))
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
		v.shout("NOT SHOWN", "what it would write is not all in this view; "+v.showAllHint()+" shows all of it")
	}
	state := "pending"
	switch {
	case !a.Pending():
		state = Ending(a)
	case !a.ExpiresAt.IsZero():
		state = "pending, expires in " + screen.Left(a.ExpiresAt, v.Now)
	}
	v.put("Approval", fmt.Sprintf("%s (%s)", show.Line(string(a.ID)), show.Line(state)))
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

// summaryBlock is the block above the question: what is asked, how risky it is, and
// where.
func (v *View) summaryBlock() {
	a := v.Approval
	named := v.Short && spoken(a.Plan) && len(a.Plan.Argv) > 0 // the command says it
	if !named && !v.Short {
		v.line("Title", a.Prompt.Title) // the short view names principal, tool and place anyway
	}
	if a.Prompt.Summary != "" && !named {
		v.put("Summary", screen.SafeLine(a.Prompt.Summary))
	}
	if v.apart {
		v.put("See it", v.changesHint())
	}
	if v.Short && !(v.apart && a.Plan.Tier == palyra.TierBuiltin) {
		v.printPlace() // right above the question, because a long diff may come before
	}
	v.risk()
	for _, note := range v.warnings() {
		v.shout("", "WARNING: "+note)
	}
	if ws := a.Plan.Workspace; ws.Path != "" {
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
	if words, rest := factors(list); v.Short && len(words) > 0 {
		level, list = level+": "+strings.Join(words, ", "), rest
	}
	if len(list) == 1 && v.Short { // what is out of the ordinary
		level, list = level+", "+show.Line(list[0]), nil
	}
	switch r.Level {
	case palyra.RiskLow, palyra.RiskMedium:
		v.put("Risk", level)
	default:
		v.shout("Risk", level)
	}
	for _, f := range list {
		v.line("", f)
	}
	if fresh {
		v.shout("", "NEW workspace: no operator registered it")
	}
}

// newWorkspace and unsandboxedFactor are risk factors that the view words itself.
const (
	newWorkspace      = "new_workspace"
	unsandboxedFactor = "no_sandbox: the agent runs it itself"
)

// warnings names misleading characters in the text.
func (v *View) warnings() []string {
	a := v.Approval
	texts := slices.Concat([]string{a.Prompt.Title, a.Prompt.Summary, string(a.Plan.Arguments), a.Plan.Executable.Path, a.Plan.Cwd, a.Plan.Workspace.Path},
		a.Plan.Argv, a.Plan.Reads, a.Plan.Writes, a.Plan.Egress, a.Plan.Bindings, []string{a.Prompt.Diff}, environment(a.Plan), inputs(a.Plan), roomTexts(a.Plan))
	var out []string
	if err := Seen(a); err != nil {
		out = append(out, err.Error())
	}
	if unshown(a) {
		out = append(out, "the diff does not show all that it would write; "+v.showAllHint()+" does: an answer is for this call only")
	}
	if a.Plan.Stdin == palyra.StdinLive {
		out = append(out, "its input is LIVE: you approve what it is, not what it will be told")
	}
	for _, text := range texts {
		for _, note := range show.Notes(text) {
			if note = "there are " + note; !slices.Contains(out, note) {
				out = append(out, note)
			}
		}
	}
	return out
}

// Seen makes sure that the digest in an answer is that of the plan on the screen.
func Seen(a palyra.Approval) error {
	if a.LeftOut != nil && !a.Pending() { // the view says so
		return nil
	}
	d, err := a.Plan.Digest()
	if err != nil || d != a.PlanDigest {
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
	if v.Short && p.Source == palyra.SourceBuiltin && (spoken(p) || v.apart && v.written()) {
		return
	}
	if !v.apart || p.Source != palyra.SourceBuiltin { // else the summary says what it does
		v.put("Tool", show.Arg(string(p.Tool))+Readable(string(p.Tool))+" ("+show.Line(source)+capabilities(p.Capabilities)+")")
	}
	if v.Short && (spoken(p) || v.written()) {
		return
	}
	if l := v.Approval.LeftOut; l != nil {
		v.put("Arguments", fmt.Sprintf("%s, %s: not kept, because nobody allowed it", screen.Size(l.ArgumentsBytes), show.Line(string(l.Arguments))))
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
		v.paint("", "--json has them whole", v.Style.Calm)
	case unshown(v.Approval):
		v.shout("", "what they write is not all shown; "+v.showAllHint()+" shows it")
	default:
		v.paint("", "the diff below shows what they do; "+v.showAllHint()+" has them whole", v.Style.Calm)
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

// cut reports whether long arguments lose their middle: where nothing is decided, and in the short
// view of a call whose diff has the same in full or whose first line says that it is not shown. The
// full view cuts nothing.
func (v *View) cut() bool {
	return v.Brief || v.Short && (v.Approval.Prompt.Diff != "" || unshown(v.Approval))
}

// changesHint names the command that shows the diff.
func (v *View) changesHint() string {
	return cmp.Or(v.Own, "palyra") + " changes " + show.Arg(string(v.Approval.Call)) + " --diff[=FILE]"
}

// showAllHint names the command that shows everything.
func (v *View) showAllHint() string {
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
			v.shout(label, what+": "+screen.Count(int64(len(m.Data)), "byte")+" that are not text are not shown; "+v.showAllHint()+" shows them")
			continue
		}
		v.block(label, what+", "+screen.Count(int64(len(m.Data)), "byte")+":", string(m.Data))
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
