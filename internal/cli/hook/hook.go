// Package hook is `palyra hook`: it answers the hook of an agent that keeps its own tools, and writes that hook
// into the agent's settings. Every failure counts as a no: the agent would go on after anything else.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// exitBlocked is the exit code that means no to an agent: Claude Code blocks the call on 2 and goes
// on after any other failure, so every failure of a hook ends with it.
const exitBlocked = exit.Usage

// hookOptions holds the options of a hook.
type hookOptions struct {
	agent            hook.AgentProgram
	mode, shell, own string
	wait             screen.SpanFlag
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
	cmd.AddCommand(append(more, claudeCommand(inv), codexCommand(inv))...)
	return cmd
}

func claudeCommand(inv *invocation.Invocation) *cobra.Command {
	o := hookOptions{wait: screen.SpanFlag(45 * time.Second)}
	o.agent, _ = hook.Find("claude-code")
	cmd := &cobra.Command{
		Use: "claude-code", Short: "Answer Claude Code's PreToolUse hook", Args: syntax.Takes(),
		Long: "Reads the hook's input from stdin and prints its answer. A shell command is rewritten\n" +
			"so that it runs through 'palyra exec', in the sandbox; with --mode check it is judged\n" +
			"as it is and runs outside. Reading, writing, searching and fetching are judged as the\n" +
			"calls of Palyra's own tools that they come to, every other tool as hook.NAME.\n\n" +
			"Where policy asks, the answer is waited for; after --wait the tool is denied and the\n" +
			"question stays open: once it is allowed, the same call passes when it comes again. Where\n" +
			"policy wants an answer for the very call, the question goes with the call.\n" +
			"Whatever fails is a no: exit code 2, which blocks the tool, with the reason on stderr.\n" +
			"Rewriting needs Claude Code 2.0.10 or newer: older ones ignore it and would run the\n" +
			"command as it was. Give --mode check there.",
		Example: "  palyra hook claude-code < hook.json\n  palyra hook claude-code --mode check --wait 30s < hook.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return blocking(cmd.Context(), inv, o) },
	}
	o.flags(cmd)
	return cmd
}

func codexCommand(inv *invocation.Invocation) *cobra.Command {
	o := hookOptions{wait: screen.SpanFlag(45 * time.Second)}
	o.agent, _ = hook.Find(hook.Codex)
	cmd := &cobra.Command{
		Use: "codex", Short: "Answer Codex's PreToolUse hook", Args: syntax.Takes(),
		Long: "As 'palyra hook claude-code', for Codex: a shell command is rewritten so that it runs\n" +
			"through 'palyra exec', a patch of one file is judged as the palyra.fs.write that it\n" +
			"comes to, other patches and tools as hook.NAME. Codex must be able to reach the\n" +
			"daemon from its own sandbox, and must have been told to trust the hook: see\n" +
			"'palyra help hook install'.",
		Example: "  palyra hook codex < hook.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return blocking(cmd.Context(), inv, o) },
	}
	o.flags(cmd)
	return cmd
}

// blocking answers a hook; every failure is a no.
func blocking(ctx context.Context, inv *invocation.Invocation, o hookOptions) error {
	if err := inTime(ctx, inv, o); err != nil {
		inv.JSON = false // the agent reads the output
		if errors.Is(ctx.Err(), context.Canceled) {
			err = exit.Failedf(palyra.ReasonCancelled, "the hook was ended before there was an answer, so the tool is blocked").
				WithRemedy("try the same call again; a question that is open stays open")
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
	f.Var(&o.wait, "wait", "how long an answer is waited for; less than the hook's own timeout")
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{hook.Rewrite, hook.Check}, cobra.ShellCompDirectiveNoFileComp))
}

// hookAnswer is the answer that Claude Code reads. The message is for the person at the agent's
// window; the model gets the reason.
type hookAnswer struct {
	Specific hookDecision `json:"hookSpecificOutput"`
	Message  string       `json:"systemMessage,omitempty"`
}

type hookDecision struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision"`
	Reason   string `json:"permissionDecisionReason"`
	Input    object `json:"updatedInput,omitempty"`

	message string // for the person
}

// lastWord is how long an answer may take that is being made when the wait is over and the question was left.
const lastWord = 2 * time.Second

// inTime prints the answer, or fails before the agent's own timeout: an agent whose hook takes too
// long goes on as if it had said yes.
func inTime(ctx context.Context, inv *invocation.Invocation, o hookOptions) error {
	if o.mode != hook.Rewrite && o.mode != hook.Check {
		return exit.Failedf(palyra.ReasonMalformedInput, "--mode %q is neither rewrite nor check", o.mode).
			WithRemedy("see 'palyra hook claude-code --help'")
	}
	if o.wait <= 0 {
		return exit.Failedf(palyra.ReasonMalformedInput, "--wait must be more than nothing").WithRemedy("give a time such as 45s")
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
	project, _ := inv.Variable("CLAUDE_PROJECT_DIR")
	h, err := readHook(o.agent, raw, project)
	if err != nil {
		return nil, err
	}
	h.own.Temp, _ = inv.Variable("CLAUDE_CODE_TMPDIR")
	if h.agent.Talks(h.tool, h.input) || h.goesToPalyra(o.own) || h.readsItsOwn() {
		return struct{}{}, nil // no decision of ours: the agent's own rules hold
	}
	paths, err := inv.Paths()
	if err != nil {
		return nil, err
	}
	h.sealed = []string{filepath.Dir(paths.State), paths.Keys, paths.OperatorKey, paths.Remotes, paths.Run}
	h.masked = maskedBy(ctx, inv)
	d, err := decision(ctx, inv, h, o)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, exit.Failedf(palyra.ReasonTimedOut, "there is no answer within %s, and no question is open yet", time.Duration(o.wait)).
			WithRemedy("try the same call again")
	}
	if err != nil {
		return nil, err
	}
	if d.Decision == "allow" && d.Input == nil && h.agent.Name == hook.Codex {
		return struct{}{}, nil // Codex has no answer for a plain yes
	}
	d.Event = "PreToolUse"
	return hookAnswer{d, d.message}, nil
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
func decision(ctx context.Context, inv *invocation.Invocation, h *hookCall, o hookOptions) (hookDecision, error) {
	if h.agent.Shell(h.tool) && o.mode == hook.Rewrite {
		return rewrite(inv, h, o)
	}
	r, err := h.request(o)
	if err != nil {
		return hookDecision{}, err
	}
	c, err := inv.Agent()
	if err != nil {
		return hookDecision{}, err
	}
	defer c.Close()
	out, err := patient(ctx, c, r)
	if err != nil {
		return hookDecision{}, err
	}
	if out.ReasonCode == palyra.ReasonPathOutside {
		out.Remedy = "name a path inside " + h.root
	}
	return decided(inv, out), nil
}

// rewrite lets a shell command pass as one that runs through the gate. Nothing is judged here: the
// gate judges when the command runs.
func rewrite(inv *invocation.Invocation, h *hookCall, o hookOptions) (hookDecision, error) {
	got, err := h.input.texts("command")
	if err != nil {
		return hookDecision{}, err
	}
	self, err := quick.Self()
	if err != nil {
		return hookDecision{}, exit.Failedf(palyra.ReasonInternal, "cannot tell where palyra is: %v", err)
	}
	line, err := h.rewritten(o, self, inv.Home, got["command"])
	if err != nil {
		return hookDecision{}, err
	}
	quoted, err := screen.EncodePlain(line)
	if err != nil {
		return hookDecision{}, err
	}
	input := object{}
	for k, v := range h.input {
		input[k] = v
	}
	input["command"] = json.RawMessage(quoted)
	return hookDecision{Decision: "allow", Reason: "it runs through palyra exec, in the sandbox", Input: input}, nil
}

// decided turns an outcome into the agent's answer. Only "allowed" is a yes. A question without an
// answer stays open: the agent can tell its person.
func decided(inv *invocation.Invocation, o palyra.Outcome) hookDecision {
	if o.Outcome == palyra.OutcomeAllowed {
		return hookDecision{Decision: "allow", Reason: "palyra: " + o.Reason + " (call " + string(o.CallID) + ")"}
	}
	if o.ReasonCode == palyra.ReasonApprovalNotAwaited && o.ApprovalID != "" {
		return hookDecision{
			Decision: "deny", Reason: fmt.Sprintf("palyra: nobody has answered yet: approval %s is open (%s, call %s). "+
				"Tell the person at this session that Palyra waits for an answer; try the same call again when they say that it is given, and "+
				"not before",
				o.ApprovalID, o.ReasonCode, o.CallID),
			message: fmt.Sprintf("Palyra waits for your answer to approval %s: %s approvals watch, in another terminal", o.ApprovalID, inv.Own()),
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
	return hookDecision{Decision: "deny", Reason: text, message: text}
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
