package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

func toolsCallCommand(inv *invocation.Invocation) *cobra.Command {
	var r client.CallRequest
	var input string
	var limit screen.SpanFlag
	cmd := &cobra.Command{
		Use: "call NAME", Short: "Call a tool, as an agent would", Args: syntax.Takes("NAME"), ValidArgsFunction: inv.CompleteTools,
		Long: "Proposes the call on the agent's door and waits for its outcome. Where policy asks,\n" +
			"the call waits for an answer; on a terminal you can give it in place with your\n" +
			"operator key. Ctrl-C cancels the call.",
		Example: "  palyra tools call palyra.echo --input '{\"text\":\"hello\"}'\n" +
			"  palyra tools call palyra.fs.write --input @args.json --workspace ~/project --json\n" +
			"  jq -n '{path:\"a.txt\"}' | palyra tools call palyra.fs.read --input -",
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := inv.ReadInput(input, proposal.MaxInput)
			if err != nil {
				return err
			}
			r.Tool, r.Arguments, r.Timeout, r.Surface = args[0], raw, time.Duration(limit), palyra.SurfaceCLI
			if r.Workspace, err = inv.WorkspaceOf(r.Workspace); err != nil {
				return err
			}
			return call(cmd.Context(), inv, r)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&input, "input", "i", "{}", "the arguments: JSON, @FILE, or - for stdin")
	f.StringVarP(&r.Workspace, "workspace", "w", "", "directory to work in (default: the current one; with --remote it must be given)")
	f.StringVar(&r.Session, "session", "", "a session's id, or a name of your own (default: the one of this workspace)")
	f.StringVar(&r.Key, "key", "", "idempotency key: a repeat returns the first outcome")
	f.BoolVar(&r.NoWait, "no-wait", false, "where policy asks, leave the question open and be refused at once")
	f.Var(&limit, "timeout", "how long the tool may run, at most tool_call.execution_timeout_ms")
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	return cmd
}

// call proposes a call and prints what became of it.
func call(ctx context.Context, inv *invocation.Invocation, r client.CallRequest) error {
	c, err := inv.ByHand()
	if err != nil {
		return err
	}
	defer c.Close()
	w := &waiter{inv: inv, client: c, noWait: r.NoWait}
	outcome, err := w.wait(ctx, r)
	if err != nil {
		return err
	}
	if err := printOutcome(inv, outcome); err != nil {
		return err
	}
	w.ruled(ctx, outcome)
	return exit.Error{Code: exit.OfOutcome(outcome)}
}

// waiter follows one call from its proposal to its outcome.
type waiter struct {
	inv       *invocation.Invocation
	client    caller
	noWait    bool
	watch     func(client.CallEvent) // hears every event: a question before it is put, an answer when it is off the screen
	elsewhere func() bool            // the terminal is the command's now; nil: it never is
	what      string                 // what Ctrl-C does at a question; "": cancels the call

	mu     sync.Mutex         // guards the fields below
	asking context.CancelFunc // ends the question on the terminal
	silent chan struct{}      // closed when the question is off the screen; nil: there was none
	typed  bool               // a question was put to the person at the terminal
	asked  sync.WaitGroup
}

// wait returns the outcome. When ctx ends the call is cancelled, not left
// behind: its outcome then says so.
func (w *waiter) wait(ctx context.Context, r client.CallRequest) (palyra.Outcome, error) {
	call := client.Follow(w.client, r, client.FollowOptions{
		Watch: func(e client.CallEvent) { w.news(ctx, e) }, Cancelling: w.cancelling,
	})
	outcome, err := call.Wait(ctx)
	w.stopAsking()
	if w.forgetTyped() {
		terminal.Drain()
	}
	return outcome, err
}

// cancelling says that the call is being cancelled.
func (w *waiter) cancelling(id palyra.ID) {
	w.stopAsking() // so that what follows starts a line of its own
	if !w.inv.JSON {
		w.inv.Say("palyra: cancelling call %s", show.Line(string(id)))
	}
}

// forgetTyped reports, once, whether a question was put to the person at the
// terminal.
func (w *waiter) forgetTyped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	typed := w.typed
	w.typed = false
	return typed
}

// news tells the person what the call is waiting for.
func (w *waiter) news(ctx context.Context, e client.CallEvent) {
	switch {
	case e.Running != nil:
		w.stopAsking() // it was answered, whoever said so
	case e.ApprovalRequested != nil:
		w.hear(e)
		w.requested(ctx, *e.ApprovalRequested)
		return
	case e.ApprovalResolved != nil:
		w.stopAsking()
		r := *e.ApprovalResolved
		if !w.inv.JSON && w.inv.Person() { // else the outcome says it
			w.inv.Say("palyra: %s: %s%s", show.Line(string(r.ApprovalID)), show.Line(string(r.Answer)), by(r.By))
		}
	}
	w.hear(e)
}

func (w *waiter) hear(e client.CallEvent) {
	if w.watch != nil {
		w.watch(e)
	}
}

func by(p palyra.Principal) string {
	if p == "" {
		return ""
	}
	return " by " + show.Line(string(p))
}

// approvalEvent is the line that stderr carries while a call waits.
type approvalEvent struct {
	Event string `json:"event"`
	client.ApprovalRequested
}

// requested says that an answer is needed and how to give it.
func (w *waiter) requested(ctx context.Context, r client.ApprovalRequested) {
	if w.inv.JSON {
		if b, err := screen.Encode(approvalEvent{"approval_requested", r}); err == nil {
			_, _ = w.inv.Stderr.Write(b)
		}
		return
	}
	if w.noWait {
		return // the outcome says it
	}
	id := show.Line(string(r.ApprovalID))
	if !w.inv.Person() { // an agent may read it: one line, and nothing that answers its own question
		w.inv.SayAlways("palyra: waiting for a person to answer %s in another terminal: %s", id, screen.SafeMiddle(r.Summary, 200))
		return
	}
	// Also to those who want little said: nothing goes on without it.
	w.inv.SayAlways("palyra: waiting for an answer to %s: %s", id, screen.SafeMiddle(r.Summary, 200))
	if w.inv.Interactive() && (w.elsewhere == nil || !w.elsewhere()) {
		w.askInPlace(ctx, r)
		return
	}
	if !r.ExpiresAt.IsZero() {
		w.inv.Say("  until   %s (%s)", screen.Stamp(r.ExpiresAt), screen.Left(r.ExpiresAt, w.inv.Now()))
	}
	w.inv.Say("  look    %s approvals show %s", w.inv.Own(), show.Arg(string(r.ApprovalID)))
	w.inv.Say("  allow   %s approvals decide %s allow", w.inv.Own(), show.Arg(string(r.ApprovalID)))
	w.inv.Say("  deny    %s approvals decide %s deny", w.inv.Own(), show.Arg(string(r.ApprovalID)))
}

// askInPlace puts the question to the person at this terminal while the call
// waits. An answer from elsewhere, or the end of the call, ends it.
func (w *waiter) askInPlace(ctx context.Context, r client.ApprovalRequested) {
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	silent := make(chan struct{})
	w.asking, w.silent, w.typed = cancel, silent, true
	w.asked.Go(func() {
		defer close(silent)
		defer cancel()
		if err := w.decideHere(ctx, r.ApprovalID); err != nil && ctx.Err() == nil {
			w.notHere(r, err)
		}
	})
}

// unasked waits until no question is on the screen: what a program prints
// meanwhile could otherwise stand over it, or pass for a part of it.
func (w *waiter) unasked() {
	w.mu.Lock()
	silent := w.silent
	w.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

// notHere says that no answer was given at this terminal, why, and how to give
// one elsewhere: the call goes on waiting.
func (w *waiter) notHere(r client.ApprovalRequested, err error) {
	f := w.inv.Message(err)
	w.inv.Say("palyra: not answered here: %s", show.Line(f.Text))
	if f.Remedy != "" {
		w.inv.Say("  remedy: %s", show.Line(f.Remedy))
	}
	until := ""
	if !r.ExpiresAt.IsZero() {
		until = fmt.Sprintf(" until %s (%s)", screen.Stamp(r.ExpiresAt), screen.Left(r.ExpiresAt, w.inv.Now()))
	}
	w.inv.Say("palyra: still waiting%s; answer with `%s approvals decide %s allow`", until, w.inv.Own(), show.Arg(string(r.ApprovalID)))
}

// stopAsking ends the question on the terminal and returns when it is off the
// screen.
func (w *waiter) stopAsking() {
	w.mu.Lock()
	asking := w.asking
	w.asking = nil
	w.mu.Unlock()
	if asking != nil {
		asking()
		w.asked.Wait()
	}
}

// printOutcome prints what became of a call. As JSON it is the outcome's own
// bytes, which the attestation binds.
func printOutcome(inv *invocation.Invocation, o palyra.Outcome) error {
	if inv.JSON {
		raw, err := o.Marshal()
		if err != nil {
			return fmt.Errorf("cli: outcome: %w", err)
		}
		_, err = inv.Stdout.Write(append(raw, '\n'))
		return err
	}
	inv.PrintStream(inv.Stdout, o.Stdout, o.StdoutB64)
	inv.PrintStream(inv.Stderr, o.Stderr, o.StderrB64)
	if len(o.Output) > 0 && string(o.Output) != "null" {
		inv.PrintStream(inv.Stdout, screen.Indented(o.Output)+"\n", "")
	}
	if o.Truncated {
		inv.Say("palyra: the output was longer than the limit and is not whole")
	}
	printEnding(inv, o)
	return nil
}

// printEnding says on stderr how the call ended.
func printEnding(inv *invocation.Invocation, o palyra.Outcome) {
	if o.Outcome == palyra.OutcomeFinished && exit.OfOutcome(o) == exit.OK {
		inv.Say("palyra: finished, call %s, journal position %d", show.Line(string(o.CallID)), o.JournalPosition)
		return
	}
	if o.ReasonCode == palyra.ReasonApprovalNotAwaited && o.ApprovalID != "" {
		id := show.Arg(string(o.ApprovalID))
		fmt.Fprintf(inv.Stderr, "palyra: asked, not waiting: approval %s is open, and call %s did not run (%s)\n", id, show.Line(string(o.CallID)), show.Line(string(o.ReasonCode)))
		if inv.Person() {
			fmt.Fprintf(inv.Stderr, "  remedy: answer with `%s approvals decide %s allow`, then call again\n", inv.Own(), id)
		} else {
			fmt.Fprintln(inv.Stderr, "  remedy: have a person answer it in another terminal, then call again")
		}
		return
	}
	text := string(o.Outcome)
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	if o.ReasonCode != "" {
		text += " (" + string(o.ReasonCode) + ")"
	}
	fmt.Fprintf(inv.Stderr, "palyra: call %s %s\n", show.Line(string(o.CallID)), show.Line(text))
	if o.Remedy != "" {
		fmt.Fprintf(inv.Stderr, "  remedy: %s\n", show.Line(o.Remedy))
	}
}
