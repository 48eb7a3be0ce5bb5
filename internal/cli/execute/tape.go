package execute

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// tapePrinter prints a run for a person, or for a program with --json, entry by entry. Text of the model and of
// tools is printed behind a gutter, so that it cannot look like a line of ours. While a question is on the
// terminal nothing else is printed there; it follows when the question is settled.
type tapePrinter struct {
	inv   *invocation.Invocation
	asker *Asker
	runs  client.RunCaller
	run   palyra.Run
	marks [2]string // for success, and for failure
	frame show.Frame

	tools  map[palyra.CallID]string   // descriptions of the calls under way
	lines  map[string]*bytes.Buffer   // incomplete lines, by printer
	open   []client.ApprovalRequested // unanswered questions, oldest first
	asked  palyra.ApprovalID          // the question on the terminal
	held   bytes.Buffer               // output to be printed after the question
	seen   int64                      // the last entry
	missed int64                      // one more than the entry after which a lost connection was reported
	end    *palyra.TapeRunFinished    // the last entry
}

// newTape makes the printer of a run. Questions up to the run's last entry are asked only when they
// turn out to be open.
func newTape(inv *invocation.Invocation, c client.RunCaller, run palyra.Run) *tapePrinter {
	return &tapePrinter{
		inv: inv, asker: &Asker{inv: inv}, runs: c, run: run, marks: marks(inv, inv.Stdout), frame: show.Frame{Width: screen.Width(inv.Stdout)},
		tools: map[palyra.CallID]string{}, lines: map[string]*bytes.Buffer{},
	}
}

// marks are a tick and a cross where the terminal can show them, else words.
func marks(inv *invocation.Invocation, w io.Writer) [2]string {
	if inv.Colours(w) && utf8Locale(inv.Env) {
		s := screen.Style(true)
		return [2]string{"✓", s.Alarm("✗")}
	}
	return [2]string{"ok", "FAILED"}
}

// utf8Locale reports whether the environment says that the terminal understands UTF-8. The first
// variable that is set decides, as in the C library.
func utf8Locale(env []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		for _, pair := range env {
			if value, ok := strings.CutPrefix(pair, name+"="); ok && value != "" {
				value = strings.ToLower(value)
				return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
			}
		}
	}
	return false
}

// entry handles one entry.
func (t *tapePrinter) entry(ctx context.Context, e palyra.TapeEntry) error {
	t.seen = e.Seq
	if e.RunFinished != nil {
		t.end = e.RunFinished
	}
	if t.inv.JSON {
		return t.inv.PrintJSON(e)
	}
	t.tell(e)
	t.question(ctx, e)
	return t.release()
}

// tell prints an entry.
func (t *tapePrinter) tell(e palyra.TapeEntry) {
	switch {
	case e.RunAccepted != nil:
		t.put("run %s%s\n", show.Line(string(t.run.ID)), dashed(e.RunAccepted.Title))
	case e.ModelText != nil && e.ModelText.Again:
		t.spoken("", "", "", true)
		t.put("  the answer broke off; it begins anew\n")
	case e.ModelText != nil:
		t.spoken("", "", e.ModelText.Text, e.ModelText.Done)
	case e.ToolProposed != nil:
		t.proposed(*e.ToolProposed)
	case e.ToolOutput != nil:
		t.spoken(string(e.ToolOutput.Call)+e.ToolOutput.Stream, "  ", string(e.ToolOutput.Data), false)
	case e.ToolAttested != nil:
		for _, f := range e.ToolAttested.Egress {
			t.put("  network %s %s:%d, %s in, %d out\n", show.Line(string(f.Verdict)), show.Line(f.Host), f.Port, screen.Count(f.In, "byte"), f.Out)
		}
	case e.ToolFinished != nil:
		t.finished(*e.ToolFinished)
	case e.RunFinished != nil:
		t.closed(*e.RunFinished)
	}
}

func dashed(title string) string {
	if title == "" {
		return ""
	}
	return ": " + show.Line(title)
}

// put prints a line that is already safe.
func (t *tapePrinter) put(format string, args ...any) { fmt.Fprintf(&t.held, format, args...) }

// maxOpen is the longest line that waits for its end.
const maxOpen = 4096

// spoken prints outside text behind the gutter, line by line as they end.
func (t *tapePrinter) spoken(who, prefix, text string, done bool) {
	line := t.lines[who]
	if line == nil {
		line = &bytes.Buffer{}
		t.lines[who] = line
	}
	line.WriteString(text)
	end := bytes.LastIndexByte(line.Bytes(), '\n') + 1
	if done {
		end = line.Len()
	} else if line.Len()-end > maxOpen {
		end = line.Len() - unfinished(line.Bytes())
	}
	if end > 0 {
		frame := show.Frame{Prefix: prefix, Width: t.frame.Width}
		t.put("%s", frame.Block(strings.TrimSuffix(string(line.Next(end)), "\n")))
	}
	if done {
		delete(t.lines, who)
	}
}

// shownProposal is how much of a call's arguments a line shows; `palyra calls show` shows all.
const shownProposal = 300

// proposed prints a proposal of the run.
func (t *tapePrinter) proposed(p palyra.TapeProposed) {
	t.tools[p.Call] = string(p.Tool)
	args := "(large arguments)"
	if len(p.Arguments) > 0 {
		args = show.MiddleOf(question.Arguments(p.Arguments), shownProposal)
	}
	t.put("%s", t.frame.Text("> ", show.Arg(string(p.Tool))+" "+args))
}

// finished prints how a call ended, and what to do about it.
func (t *tapePrinter) finished(f palyra.TapeFinished) {
	for _, stream := range []string{"stdout", "stderr"} {
		if who := string(f.Call) + stream; t.lines[who] != nil {
			t.spoken(who, "  ", "", true)
		}
	}
	tool := t.tools[f.Call]
	delete(t.tools, f.Call)
	mark := t.marks[1]
	if wentWell(f) {
		mark = t.marks[0]
	}
	t.put("%s %s%s (call %s)\n", mark, show.Arg(tool), howEnded(f), show.Line(string(f.Call)))
	if f.Truncated {
		t.put("  its output was longer than the limit and is not whole\n")
	}
	if f.Remedy != "" {
		t.put("  remedy: %s\n", show.Line(f.Remedy))
	}
}

func wentWell(f palyra.TapeFinished) bool {
	return f.Outcome == palyra.OutcomeFinished && f.ExitCode == 0 && f.Signal == "" && f.ReasonCode == ""
}

// howEnded describes the end of a call; "" for a plain success.
func howEnded(f palyra.TapeFinished) string {
	var out []string
	if f.Outcome != palyra.OutcomeFinished {
		out = append(out, show.Line(string(f.Outcome)))
	}
	switch {
	case f.Signal != "":
		out = append(out, "ended by "+show.Line(f.Signal))
	case f.Outcome == palyra.OutcomeFinished && f.ExitCode != 0:
		out = append(out, fmt.Sprintf("exit code %d", f.ExitCode))
	}
	if f.Reason != "" {
		out = append(out, show.Line(f.Reason))
	}
	text := strings.Join(out, ": ")
	if text != "" {
		text = " " + text
	}
	if f.ReasonCode != "" {
		text += " (" + show.Line(string(f.ReasonCode)) + ")"
	}
	return text
}

// closed prints how the run ended.
func (t *tapePrinter) closed(f palyra.TapeRunFinished) {
	text := show.Line(string(f.State))
	if f.Reason != "" {
		text += ": " + show.Line(f.Reason)
	}
	if f.ReasonCode != "" {
		text += " (" + show.Line(string(f.ReasonCode)) + ")"
	}
	cost := screen.Count(f.Calls, "call")
	if used := tokens(f.Tokens); used != "" {
		cost += ", " + used
	}
	t.put("run %s %s, %s\n", show.Line(string(t.run.ID)), text, cost)
	if f.Remedy != "" {
		t.put("  remedy: %s\n", show.Line(f.Remedy))
	}
}

// release prints the held output, unless a question is on the terminal.
func (t *tapePrinter) release() error {
	if t.asked != "" && t.end == nil || t.held.Len() == 0 {
		return nil
	}
	_, err := t.held.WriteTo(t.inv.Stdout)
	return err
}

// question keeps the list of open questions and asks the person the oldest one, once the existing
// tape has been printed.
func (t *tapePrinter) question(ctx context.Context, e palyra.TapeEntry) {
	if r := e.ApprovalRequested; r != nil && !t.isOpen(r.Approval) {
		t.open = append(t.open, client.ApprovalRequested{
			ApprovalID: r.Approval, PlanDigest: r.Plan, ExpiresAt: r.ExpiresAt, Summary: r.Summary, Joined: r.Joined,
		})
	}
	if r := e.ApprovalResolved; r != nil {
		t.resolved(*r)
	}
	if e.RunFinished != nil {
		t.open = nil
	}
	if e.Seq >= t.run.LastSeq && t.asked == "" && len(t.open) > 0 {
		_ = t.release() // so that the events before the question are above it
		t.asked = t.open[0].ApprovalID
		t.asker.requested(ctx, t.open[0])
		if !t.inv.Interactive() || t.asker.noWait {
			t.asked, t.open = "", t.open[1:]
		}
	}
}

func (t *tapePrinter) isOpen(id palyra.ApprovalID) bool {
	return slices.ContainsFunc(t.open, func(r client.ApprovalRequested) bool { return r.ApprovalID == id })
}

// resolved removes a settled question from the screen and the list.
func (t *tapePrinter) resolved(r palyra.TapeResolved) {
	if t.asked == r.Approval {
		t.asker.stopAsking()
		t.asked = ""
	}
	t.open = slices.DeleteFunc(t.open, func(o client.ApprovalRequested) bool { return o.ApprovalID == r.Approval })
	t.put("  %s: %s%s\n", show.Line(string(r.Approval)), show.Line(string(r.Answer)), byText(r.By))
}
