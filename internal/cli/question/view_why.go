package question

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// answerIt begins every remedy of a question: the reader is about to do that.
const answerIt = "have an operator answer the approval"

// why prints policy's reasons and, while they can be chosen, what a wider answer would also cover.
func (v *View) why() {
	p := v.Approval.Prompt
	v.text("Why asked", v.reasons())
	if !v.Short {
		v.line("Policies", screen.Joined(v.Approval.Policies))
	}
	need := v.Approval.Need
	if v.Short && v.Approval.Pending() {
		need.Fresh = false // the answers say so
	}
	if needs := Need(need); !v.Short || needs != Need(palyra.Need{}) {
		v.put("Needs", needs)
	}
	if more := strings.TrimPrefix(strings.TrimPrefix(p.Remedy, answerIt), "; "); more != "" && v.Approval.Pending() &&
		!(v.Short && slices.Contains(usualRemedies, more)) {
		v.text("Remedy", more)
	}
	if v.Approval.Pending() && !v.Once && !v.Short { // otherwise the answers are named elsewhere
		v.text("Wider scopes", wider(p.Covers))
		v.widenings()
	}
	label := "Notes"
	for _, n := range p.Notes {
		if n == newWorkspaceNote && !v.Approval.Plan.Workspace.Known {
			continue // printed above the question
		}
		if v.Short && v.repeatsShort(n) {
			continue
		}
		if screen.Escaped(n) {
			v.put(label, n)
		} else {
			v.text(label, n)
		}
		label = ""
	}
}

// The usual reasons of the shipped policies, which a person knows after the first question.
const (
	usualReason = "the call can write, run a program, connect or use a secret, which needs an approval"
	usualHead   = "needs the approval of one operator"
	aboutIt     = "about this command: "
)

// usualRemedies are remedies that only repeat the offered answers.
var usualRemedies = []string{
	"a permit for such calls in the policy bundle would make an approval unnecessary", "the answer must be for this call only (scope once)",
}

// reasons is why the question is asked; the short view leaves out the usual reasons, if there are others.
func (v *View) reasons() string {
	all := reasons(v.Approval.Prompt.Explanation, v.Approval.Policies)
	if !v.Short {
		return all
	}
	lines := strings.Split(all, "\n")
	lines[0] = strings.TrimPrefix(strings.TrimPrefix(lines[0], usualHead), ", for this call only") // the needs say that
	lines[0] = strings.TrimPrefix(strings.TrimPrefix(lines[0], ": "), aboutIt)
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" || line == usualReason })
	return strings.Join(lines, "\n")
}

// newWorkspaceNote is the note that the view words itself.
const newWorkspaceNote = "the workspace is NEW: no operator registered it"

// widenings prints the generalisations, except that to exactly this plan.
func (v *View) widenings() {
	label := "Widen to"
	for _, o := range v.Approval.Prompt.Options {
		if o.Name == "exact" {
			continue
		}
		v.put(label, show.Arg(o.Name)+": "+show.Line(o.Label))
		label = ""
	}
}

// reasons removes the repetitions of an explanation: each reason is on a line of its own, once.
// Lines of another form stay unchanged.
func reasons(explanation string, policies []string) string {
	first, rest, _ := strings.Cut(explanation, "\n")
	var lines []string
	for line := range strings.SplitSeq(rest, "\n") {
		id, reason, _ := strings.Cut(line, ": ")
		id, _, _ = strings.Cut(strings.TrimPrefix(id, "policy "), " (")
		switch {
		case line == "":
		case !strings.HasPrefix(line, "policy ") || !slices.Contains(policies, id):
			lines = append(lines, line)
		case reason != "" && !slices.Contains(lines, reason):
			lines = append(lines, reason)
			first = withoutClause(first, reason)
		}
	}
	if first != "" {
		lines = append([]string{first}, lines...)
	}
	return strings.Join(lines, "\n")
}

// withoutClause removes a clause from a sentence of the form "head: clause; clause".
func withoutClause(sentence, clause string) string {
	if sentence == clause {
		return ""
	}
	for _, sep := range []string{": ", "; "} {
		if rest, ok := strings.CutSuffix(sentence, sep+clause); ok {
			return rest
		}
		if before, after, ok := strings.Cut(sentence, sep+clause+"; "); ok {
			return before + sep + after
		}
	}
	return sentence
}

// wider removes from the covered scopes the one that is no wider.
func wider(covers string) string {
	if rest, ok := strings.CutPrefix(covers, "once: "); ok {
		_, after, _ := strings.Cut(rest, ". ")
		return after
	}
	return covers
}

// Need says what an allow requires.
func Need(n palyra.Need) string {
	votes := max(n.Votes, 1)
	out := []string{fmt.Sprintf("%d person", votes)}
	if votes > 1 {
		out[0] = fmt.Sprintf("%d different people", votes)
	}
	if n.OtherPerson {
		out = append(out, "not the agent's owner")
	}
	if n.Device {
		out = append(out, "signed by a paired device")
	}
	if n.Separation != "" && n.Separation != palyra.SeparationNone {
		out = append(out, "separation "+show.Line(string(n.Separation))+" or better")
	}
	if n.Fresh {
		out = append(out, "for this call only")
	}
	return strings.Join(out, ", ")
}

// diff prints the whole change. In the short view the lines of one hunk need no head: the summary names the file.
func (v *View) diff() {
	text := v.Approval.Prompt.Diff
	if lines := strings.SplitN(text, "\n", 4); v.Short && v.written() && len(lines) == 4 && strings.HasPrefix(lines[2], "@@ ") &&
		strings.HasPrefix(lines[0], "--- ") && strings.HasPrefix(lines[1], "+++ ") && !strings.Contains(lines[3], "\n@@ ") {
		text = lines[3]
	}
	if text == "" || v.apart {
		return
	}
	v.emit(part{label: "Diff", block: strings.TrimSuffix(text, "\n"), inset: true})
}

// printRequester prints the requester and all ids and digests, among them the digest that a decision echoes.
func (v *View) printRequester() {
	a := v.Approval
	by := show.Arg(string(a.Principal))
	if a.Owner != "" {
		by += " of " + show.Arg(string(a.Owner))
	}
	from := "from another machine"
	if a.PeerUID >= 0 {
		from = fmt.Sprintf("uid %d", a.PeerUID)
	}
	when := " at " + screen.Stamp(a.RequestedAt)
	if v.Short && a.Pending() {
		when = ", " + screen.Span(max(v.Now.Sub(a.RequestedAt), 0)) + " ago"
	}
	v.put("Asked by", fmt.Sprintf("%s (%s) through %s%s", by, from, show.Arg(string(a.Surface)), when))
	if !v.Short {
		v.line("Session", string(a.Session))
		v.line("Run", string(a.Run))
		v.line("Call", string(a.Call))
	}
	if a.Waiting > 1 {
		v.put("Waiting", strconv.FormatInt(a.Waiting, 10)+" calls wait for this answer")
	}
	if a.SubjectID != "tool:"+string(a.Plan.Tool)+"#"+string(a.PlanDigest) &&
		(!v.Short || a.SubjectID != "tool:"+a.Plan.Executable.Path+"#"+string(a.PlanDigest)) { // else it says nothing that does not stand here
		v.line("Subject", a.SubjectID)
	}
	if !v.apart { // who answers without a terminal is told it there
		v.digest("Plan digest", a.PlanDigest)
	}
}

// separationText says how far the approver's key is out of the agent's reach.
func separationText(s palyra.Separation) string {
	switch s {
	case palyra.SeparationNone:
		return "separation none: programs of yours can use it (operator protect)"
	case palyra.SeparationPassphrase:
		return "separation passphrase"
	case palyra.SeparationDevice:
		return "separation device"
	case palyra.SeparationOtherUID:
		return "separation other_uid"
	}
	return "separation " + show.Arg(string(s))
}

// votes prints the answers so far and the decision.
func (v *View) votes() {
	a := v.Approval
	label := "Answers"
	for _, vote := range a.Votes {
		text := fmt.Sprintf("%s by %s (%s, separation %s) at %s", show.Arg(string(vote.Answer)), show.Arg(string(vote.By)),
			show.Arg(string(vote.Method)), show.Arg(string(vote.Separation)), screen.Stamp(vote.At))
		if vote.Reason != "" {
			text += ": " + show.Line(vote.Reason)
		}
		v.put(label, text)
		label = ""
	}
	d := a.Decision
	if a.Pending() {
		return
	}
	text := show.Line(Ending(a))
	if d.Scope != "" {
		text += ", scope " + show.Arg(string(d.Scope))
	}
	if d.By != "" {
		text += ", by " + show.Arg(string(d.By))
	}
	v.put("Decided", text+" at "+screen.Stamp(d.At))
	if d.Reason != Ending(a) {
		v.line("Reason", d.Reason)
	}
	v.line("Grant", string(d.Lease))
}
