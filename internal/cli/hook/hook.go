// Package hook is `palyra hook`: it answers the hook of an agent that keeps its own tools, and writes that hook
// into the agent's settings. Every failure counts as a no: the agent would go on after anything else.
package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/hook"
)

// exitBlocked is the exit code that means no to most agents: Claude Code blocks the call on 2 and goes
// on after any other failure, so every failure of a hook ends with it.
const exitBlocked = exit.Usage

// hookOptions holds the options of a hook.
type hookOptions struct {
	agent            hook.AgentProgram
	mode, shell, own string
	probe            string // the doctor's directory
	wait             screen.SpanFlag
	observe, park    bool
}

// Command is `palyra hook`.
func Command(inv *invocation.Invocation, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: "hook", Short: "Stand between an agent and its own tools",
		Long: "For agents that keep their own tools and ask a program before each use. Where a tool\n" +
			"cannot be taken into the sandbox Palyra only says yes or no: what the agent then does\n" +
			"is not held by anything, and the journal has it as judged, not as run.",
		Example: "  palyra hook install claude-code",
	}
	cmd.AddCommand(more...)
	for _, name := range hook.Names() {
		if agent, ok := hook.Find(name); ok && agent.AnsweredBy == "" {
			cmd.AddCommand(answers(inv, agent))
		}
	}
	return cmd
}

// answers is the command that answers an agent's hook.
func answers(inv *invocation.Invocation, agent hook.AgentProgram) *cobra.Command {
	o := hookOptions{agent: agent, wait: screen.SpanFlag(45 * time.Second)}
	cmd := &cobra.Command{
		Use: agent.Name, Short: "Answer the hook of " + agent.Title, Args: syntax.Takes(), Long: agentHelp(agent),
		Example: "  palyra hook " + agent.Name + " < hook.json\n  palyra hook " + agent.Name + " --mode check --wait 30s < hook.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return blocking(cmd.Context(), inv, o) },
	}
	o.flags(cmd)
	return cmd
}

// agentHelp is the help of such a command.
func agentHelp(agent hook.AgentProgram) string {
	text := "Reads the hook's input from stdin and prints its answer. A shell command is rewritten\n" +
		"so that it runs through 'palyra exec', in the sandbox; with --mode check it is judged\n" +
		"as it is and runs outside. Reading, writing, searching and fetching are judged as the\n" +
		"calls of Palyra's own tools that they come to, every other tool as hook.NAME.\n\n" +
		"Where policy asks, the answer is waited for; after --wait the tool is denied and the\n" +
		"question stays open: once it is allowed, the same call passes when it comes again. Where\n" +
		"policy wants an answer for the very call, the question goes with the call.\n" +
		"Whatever fails is a no, in the words of " + agent.Title + ".\n\n" +
		"Its tools are known from " + cmp.Or(strings.TrimSpace("version "+agent.Version), "its documentation") + " (" + agent.Source + ", " +
		agent.ReadOn + ")."
	switch agent.Name {
	case hook.ClaudeCode:
		text += "\nRewriting needs Claude Code 2.0.10 or newer: older ones ignore it and would run the\n" +
			"command as it was. Give --mode check there."
	case hook.Codex:
		text += "\nCodex must be able to reach the daemon from its own sandbox, and must have been told\n" +
			"to trust the hook: see 'palyra help hook install'."
	}
	return text
}

// blocking answers a hook; every failure is a no.
func blocking(ctx context.Context, inv *invocation.Invocation, o hookOptions) error {
	if err := inTime(ctx, inv, o); err != nil {
		inv.JSON = false // the agent reads the output
		if errors.Is(ctx.Err(), context.Canceled) {
			err = exit.Failedf(palyra.ReasonCancelled, "the hook was ended before there was an answer, so the tool is blocked").
				WithRemedy("try the same call again; a question that is open stays open")
		}
		if errors.Is(err, errSaid) {
			return err
		}
		if o.agent.SaysNo { // an exit code would let the tool pass
			why := "palyra: " + err.Error()
			return inv.PrintJSON(o.agent.Words(hook.Answer{Decision: hook.Deny, Reason: why, Message: why}))
		}
		return exit.Error{Code: exitBlocked, Err: err}
	}
	return nil
}

// flags adds the flags of a hook.
func (o *hookOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.mode, "mode", hook.Rewrite, "what becomes of a shell command: rewrite (into the sandbox) or check (and run outside)")
	f.StringVar(&o.shell, "shell", "", "shell that takes the command (default: /bin/bash where there is one, else /bin/sh)")
	f.StringVar(&o.own, "own-server", "",
		"the name that the agent's settings have for 'palyra mcp serve': its tools are left to the gate they go through anyway")
	f.StringVar(&o.probe, "probe", "", "the directory of 'palyra hook doctor': answer its probes, and judge nothing")
	_ = f.MarkHidden("probe")
	f.Var(&o.wait, "wait", "how long an answer is waited for; less than the hook's own timeout")
	f.BoolVar(&o.observe, "observe", false, "while an operator has calls observed ('palyra observe'), hold nothing: the call is\n"+
		"judged and recorded, and what cannot be recorded is blocked; at other times decide as usual")
	if o.agent.Name == hook.ClaudeCode {
		f.BoolVar(&o.park, "park", false, "in a run without a window (claude -p), where nobody answers within 10s, have the run park:\n"+
			"it ends, and 'claude -p --resume SESSION' goes on once the answer is given")
	}
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{hook.Rewrite, hook.Check}, cobra.ShellCompDirectiveNoFileComp))
}

// lastWord is how long an answer may take that is being made when the wait is over and the question was left.
const lastWord = 2 * time.Second

// inTime prints the answer, or fails before the agent's own timeout: an agent whose hook takes too
// long goes on as if it had said yes.
func inTime(ctx context.Context, inv *invocation.Invocation, o hookOptions) error {
	if o.mode != hook.Rewrite && o.mode != hook.Check {
		return exit.Failedf(palyra.ReasonMalformedInput, "--mode %q is neither rewrite nor check", o.mode).
			WithRemedy("see 'palyra hook %s --help'", o.agent.Name)
	}
	if o.wait <= 0 {
		return exit.Failedf(palyra.ReasonMalformedInput, "--wait must be more than nothing").WithRemedy("give a time such as 45s")
	}
	if o.park = o.park && unattended(inv); o.park {
		o.wait = min(o.wait, parkAfter)
	}
	type got struct {
		doc any
		err error
	}
	ch := make(chan got, 1)
	go func() {
		doc, err := answer(ctx, inv, o)
		ch <- got{doc, err}
	}()
	late := time.NewTimer(time.Duration(o.wait) + leaveFor + lastWord)
	defer late.Stop()
	select {
	case g := <-ch:
		if g.err != nil {
			return g.err
		}
		return inv.PrintJSON(g.doc)
	case <-late.C:
		return exit.Failedf(palyra.ReasonTimedOut, "there is no answer in time").WithRemedy("ask for less at once")
	}
}

// answer reads the hook's input and returns the answer to print.
func answer(ctx context.Context, inv *invocation.Invocation, o hookOptions) (any, error) {
	if o.shell == "" {
		o.shell = bashOr("/bin/bash", "/bin/sh")
	}
	ctx, done := context.WithTimeout(ctx, time.Duration(o.wait))
	defer done()
	raw, err := readAll(ctx, inv, maxHook)
	if err != nil {
		return nil, err
	}
	project := ""
	if o.agent.Project != "" {
		project, _ = inv.Variable(o.agent.Project)
	}
	if o.probe != "" {
		return probed(o, raw)
	}
	if s, over := ended(o.agent, raw); over && o.observe {
		return nil, sayEnd(ctx, inv, s)
	}
	h, err := readHook(o.agent, raw, project)
	if err != nil {
		return nil, err
	}
	h.own.Temp, _ = inv.Variable("CLAUDE_CODE_TMPDIR")
	if h.Elsewhere || h.agent.Talks(h.Tool, h.Input) || h.goesToPalyra(o.own) || h.readsItsOwn() {
		return o.agent.Words(hook.Answer{}), nil // no decision of ours: the agent's own rules hold
	}
	paths, err := inv.Paths()
	if err != nil {
		return nil, err
	}
	h.sealed = []string{filepath.Dir(paths.State), paths.Keys, paths.OperatorKey, paths.Remotes, paths.Run}
	h.masked = maskedBy(ctx, inv)
	if o.observe {
		if held, err := observed(ctx, inv, h, o); err != nil || !held {
			return o.agent.Words(hook.Answer{}), err
		}
	}
	d, err := decision(ctx, inv, h, o)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, exit.Failedf(palyra.ReasonTimedOut, "there is no answer within %s, and no question is open yet", time.Duration(o.wait)).
			WithRemedy("try the same call again")
	}
	if err != nil {
		return nil, err
	}
	return o.agent.Words(d), nil
}

func bashOr(bash, sh string) string {
	if fi, err := os.Stat(bash); err == nil && fi.Mode().IsRegular() {
		return bash
	}
	return sh
}

// readAll reads stdin within bounds of size and time: an agent that never closes it must get its
// answer all the same.
func readAll(ctx context.Context, inv *invocation.Invocation, most int64) ([]byte, error) {
	type got struct {
		raw []byte
		err error
	}
	ch := make(chan got, 1)
	go func() {
		raw, err := io.ReadAll(io.LimitReader(inv.Stdin, most+1))
		ch <- got{raw, err}
	}()
	select {
	case <-ctx.Done():
		return nil, badHook("it did not end in time")
	case g := <-ch:
		switch {
		case g.err != nil:
			return nil, badHook("it cannot be read: %v", g.err)
		case int64(len(g.raw)) > most:
			return nil, badHook("it is larger than %s", screen.Size(most))
		}
		return g.raw, nil
	}
}

// decision answers one call.
func decision(ctx context.Context, inv *invocation.Invocation, h *hookCall, o hookOptions) (hook.Answer, error) {
	switch {
	case h.Line: // too late to rewrite it
		if h.isRewritten(inv, o) {
			return hook.Answer{Decision: hook.Allow, Reason: "it runs through palyra exec, in the sandbox"}, nil
		}
	case h.like == hook.LikeShell && o.mode == hook.Rewrite:
		return rewrite(inv, h, o)
	}
	r, err := h.request(o)
	if err != nil {
		return hook.Answer{}, err
	}
	c, err := inv.Agent()
	if err != nil {
		return hook.Answer{}, err
	}
	defer c.Close()
	out, err := patient(ctx, c, r)
	if err != nil {
		return hook.Answer{}, err
	}
	if out.ReasonCode == palyra.ReasonPathOutside {
		out.Remedy = "name a path inside " + h.root
	}
	a := decided(inv, out)
	if o.park && out.ReasonCode == palyra.ReasonApprovalNotAwaited && out.ApprovalID != "" && h.own.Parks(h.Use) {
		a.Decision = hook.Defer
		a.Message = fmt.Sprintf("Palyra waits for the answer to approval %s; once it is given: claude -p --resume %s", out.ApprovalID, h.own.ID)
	}
	return a, nil
}

// parkAfter is how long the hook of a run without a window waits before the run parks.
const parkAfter = screen.SpanFlag(10 * time.Second)

// unattended reports whether Claude Code itself says that nobody is at a window. It sets the variable anew for each of its
// children; a session in the background has no window either, and would not take the word that it parks.
func unattended(inv *invocation.Invocation) bool {
	attended, _ := inv.Variable("CLAUDE_CODE_SESSION_ATTENDED")
	kind, _ := inv.Variable("CLAUDE_CODE_SESSION_KIND")
	return attended == "0" && kind == ""
}

// rewrite lets a shell command pass as one that runs through the gate. Nothing is judged here: the
// gate judges when the command runs.
func rewrite(inv *invocation.Invocation, h *hookCall, o hookOptions) (hook.Answer, error) {
	got, err := h.fields.texts("command")
	if err != nil {
		return hook.Answer{}, err
	}
	self, err := quick.Self()
	if err != nil {
		return hook.Answer{}, exit.Failedf(palyra.ReasonInternal, "cannot tell where palyra is: %v", err)
	}
	line, err := h.rewritten(o, self, inv.Home, got["command"])
	if err != nil {
		return hook.Answer{}, err
	}
	quoted, err := screen.EncodePlain(line)
	if err != nil {
		return hook.Answer{}, err
	}
	input := maps.Clone(h.Input)
	input[h.agent.Field(h.Tool, "command")] = json.RawMessage(quoted)
	return hook.Answer{Decision: hook.Allow, Reason: "it runs through palyra exec, in the sandbox", Input: input}, nil
}

// decided turns an outcome into the agent's answer. Only "allowed" is a yes. A question without an
// answer stays open: the agent can tell its person.
func decided(inv *invocation.Invocation, o palyra.Outcome) hook.Answer {
	if o.Outcome == palyra.OutcomeAllowed {
		return hook.Answer{Decision: hook.Allow, Reason: "palyra: " + o.Reason + " (call " + string(o.CallID) + ")"}
	}
	if o.ReasonCode == palyra.ReasonApprovalNotAwaited && o.ApprovalID != "" {
		return hook.Answer{
			Decision: hook.Deny, Reason: fmt.Sprintf("palyra: nobody has answered yet: approval %s is open (%s, call %s). "+
				"Tell the person at this session that Palyra waits for an answer; try the same call again when they say that it is given, and "+
				"not before",
				o.ApprovalID, o.ReasonCode, o.CallID),
			Message: fmt.Sprintf("Palyra waits for your answer to approval %s: %s approvals watch, in another terminal", o.ApprovalID, inv.Own()),
		}
	}
	text := "palyra: " + string(o.Outcome)
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	text += " (" + string(o.ReasonCode) + ", call " + string(o.CallID) + ")"
	if o.Remedy != "" {
		text += "; " + o.Remedy
	}
	return hook.Answer{Decision: hook.Deny, Reason: text, Message: text}
}

// checks is what a hook needs of the client.
type checks interface {
	// Check asks about a call.
	Check(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error)
	// CancelCall ends it.
	CancelCall(ctx context.Context, id palyra.CallID) error
	// WatchCall returns its outcome.
	WatchCall(ctx context.Context, id palyra.CallID, watch func(client.CallEvent)) (palyra.Outcome, error)
}

// leaveFor is how long leaving a question may take.
const leaveFor = 5 * time.Second

// patient asks and waits until ctx ends. Then the call is cancelled, but its question stays: a
// second check joins it without waiting before the first one is cancelled, so that a later answer
// covers the call when it is tried again. Where policy wants an answer for this very call, a later
// one would be useless, and the question ends with the call.
func patient(ctx context.Context, c checks, r client.CallRequest) (palyra.Outcome, error) {
	var id palyra.CallID
	// The daemon gets no deadline: it would end the call at it, and the question with the call.
	waiting, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	defer context.AfterFunc(ctx, hangUp)()
	out, err := c.Check(waiting, r, func(e client.CallEvent) {
		if e.Accepted != nil {
			id = e.Accepted.CallID
		}
	})
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) || id == "" {
		return out, err
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), leaveFor)
	defer done()
	r.NoWait = true
	out, err = c.Check(ctx, r, nil)
	if err == nil && out.ReasonCode == palyra.ReasonApprovalNotAwaited && out.ApprovalID == "" {
		out.Reason = "nobody answered while the hook waited, and policy wants an answer for this very call"
		out.Remedy = "try the same call again when somebody is there to answer ('palyra approvals watch' shows the question); 'palyra " +
			"hook' waits longer with --wait"
	}
	switch late := c.CancelCall(ctx, id); {
	case late == nil || err != nil:
		return out, err
	case palyra.CodeOf(late) == palyra.Conflict: // answered while we left
		return c.WatchCall(ctx, id, nil)
	default:
		return palyra.Outcome{}, late
	}
}
