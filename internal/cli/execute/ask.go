package execute

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// Asker asks the person at this terminal the questions that a call waits for, or says where else they are answered.
type Asker struct {
	inv       *invocation.Invocation
	noWait    bool        // answers are not awaited
	elsewhere func() bool // reports whether the terminal is the command's now; nil: never
	what      string      // effect of Ctrl-C at a question; "": cancels the call

	mu     sync.Mutex         // guards the fields below
	asking context.CancelFunc // ends the question on the terminal
	silent chan struct{}      // closed when the question is off the screen; nil: there was none
	typed  bool               // a question was put to the person at the terminal
	asked  sync.WaitGroup
}

// NewAsker asks for a command. what is the effect of Ctrl-C at a question; "": it cancels the call.
func NewAsker(inv *invocation.Invocation, what string) *Asker { return &Asker{inv: inv, what: what} }

// follow makes a call and returns its outcome. When ctx ends the call is cancelled, and its outcome then says so.
// watch gets every event: a question before it is asked, an answer when it is off the screen; it may be nil.
func (a *Asker) follow(ctx context.Context, c client.Caller, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
	if watch == nil {
		watch = func(client.CallEvent) {}
	}
	call := client.Follow(c, r, client.FollowOptions{
		Watch: func(e client.CallEvent) { a.news(ctx, e, watch) }, Cancelling: a.cancelling,
	})
	outcome, err := call.Wait(ctx)
	a.End()
	return outcome, err
}

// End removes the question from the screen, and discards keys typed for it.
func (a *Asker) End() {
	a.stopAsking()
	if a.forgetTyped() {
		terminal.Drain()
	}
}

// cancelling says that the call is being cancelled.
func (a *Asker) cancelling(id palyra.CallID) {
	a.stopAsking() // so that the next message starts a line of its own
	if !a.inv.JSON {
		a.inv.Say("palyra: cancelling call %s", show.Line(string(id)))
	}
}

// forgetTyped reports, once, whether the person at the terminal was asked.
func (a *Asker) forgetTyped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	typed := a.typed
	a.typed = false
	return typed
}

// news handles an event: it asks the person where the call waits, and passes the event on to watch.
func (a *Asker) news(ctx context.Context, e client.CallEvent, watch func(client.CallEvent)) {
	switch {
	case e.Running != nil:
		a.stopAsking() // answered, here or elsewhere
	case e.ApprovalRequested != nil:
		watch(e)
		a.requested(ctx, *e.ApprovalRequested)
		return
	case e.ApprovalResolved != nil:
		a.stopAsking()
		r := *e.ApprovalResolved
		if !a.inv.JSON && a.inv.Person() { // otherwise the outcome says it
			a.inv.Say("palyra: %s: %s%s", show.Line(string(r.ApprovalID)), show.Line(string(r.Answer)), byText(r.By))
		}
	}
	watch(e)
}

func byText(p palyra.Principal) string {
	if p == "" {
		return ""
	}
	return " by " + show.Line(string(p))
}

// approvalEvent is the line on stderr while a call waits.
type approvalEvent struct {
	Event string `json:"event"`
	client.ApprovalRequested
}

// requested reports that an answer is needed and how to give it.
func (a *Asker) requested(ctx context.Context, r client.ApprovalRequested) {
	if a.inv.JSON {
		if b, err := screen.Encode(approvalEvent{"approval_requested", r}); err == nil {
			_, _ = a.inv.Stderr.Write(b)
		}
		return
	}
	if a.noWait {
		return // the outcome says it
	}
	id := show.Line(string(r.ApprovalID))
	if !a.inv.Person() { // an agent may read it: one line, without a way to answer its own question
		a.inv.SayAlways("palyra: waiting for a person to answer %s in Palyra: %s", id, screen.SafeMiddle(r.Summary, 200))
		return
	}
	here := a.inv.Interactive() && (a.elsewhere == nil || !a.elsewhere())
	summary := ": " + screen.SafeMiddle(r.Summary, 200)
	if here {
		summary = "" // the question below has it
	}
	// Said also with --quiet: nothing goes on without an answer.
	a.inv.SayAlways("palyra: waiting for an answer to %s%s", id, summary)
	if here {
		a.AskInPlace(ctx, r)
		return
	}
	if !r.ExpiresAt.IsZero() {
		a.inv.Say("  until   %s (%s)", screen.Stamp(r.ExpiresAt), screen.Left(r.ExpiresAt, a.inv.Now()))
	}
	a.inv.Say("  look    %s approvals show %s", a.inv.Own(), show.Arg(string(r.ApprovalID)))
	a.inv.Say("  allow   %s approvals decide %s allow", a.inv.Own(), show.Arg(string(r.ApprovalID)))
	a.inv.Say("  deny    %s approvals decide %s deny", a.inv.Own(), show.Arg(string(r.ApprovalID)))
}

// AskInPlace asks the person at this terminal while the call waits. An answer from elsewhere, or
// the end of the call, ends the question.
func (a *Asker) AskInPlace(ctx context.Context, r client.ApprovalRequested) {
	ctx, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	silent := make(chan struct{})
	a.asking, a.silent, a.typed = cancel, silent, true
	a.asked.Go(func() {
		defer close(silent)
		defer cancel()
		if err := a.decideHere(ctx, r.ApprovalID); err != nil && ctx.Err() == nil {
			a.notHere(r, err)
		}
	})
}

// unasked waits until no question is on the screen: output of a program could otherwise cover the
// question, or look like a part of it.
func (a *Asker) unasked() {
	a.mu.Lock()
	silent := a.silent
	a.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

// notHere reports that no answer was given at this terminal, why, and how to give one elsewhere:
// the call goes on waiting.
func (a *Asker) notHere(r client.ApprovalRequested, err error) {
	f := a.inv.Message(err)
	a.inv.Say("palyra: not answered here: %s", show.Line(f.Text))
	if f.Remedy != "" {
		a.inv.Say("  remedy: %s", show.Line(f.Remedy))
	}
	until := ""
	if !r.ExpiresAt.IsZero() {
		until = fmt.Sprintf(" until %s (%s)", screen.Stamp(r.ExpiresAt), screen.Left(r.ExpiresAt, a.inv.Now()))
	}
	a.inv.Say("palyra: still waiting%s; answer with `%s approvals decide %s allow`", until, a.inv.Own(), show.Arg(string(r.ApprovalID)))
}

// stopAsking ends the question on the terminal and returns when it is off the screen.
func (a *Asker) stopAsking() {
	a.mu.Lock()
	asking := a.asking
	a.asking = nil
	a.mu.Unlock()
	if asking != nil {
		asking()
		a.asked.Wait()
	}
}

// decideHere shows the plan of a waiting call at this terminal and takes the person's answer: allow once, or deny.
func (a *Asker) decideHere(ctx context.Context, id palyra.ApprovalID) error {
	c, err := a.inv.Operator()
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := PendingApproval(ctx, a.inv, c, id)
	if err != nil {
		return err
	}
	view := func() {
		v := ViewOf(a.inv, a.inv.Stderr, p, a.inv.Separation())
		v.Short, v.Once = true, true
		v.Print()
	}
	view()
	terminal.Drain() // keys typed before the plan was on the screen are no answer to it
	for try := 1; ; try++ {
		r := client.DecideRequest{ID: id, Digest: p.PlanDigest, Method: palyra.MethodCLI}
		if r.Answer, err = a.askAnswer(ctx, c, p, view); err == nil {
			if r.Answer == palyra.AnswerAllow {
				r.Scope = palyra.ScopeOnce
			}
			if r, err = question.Widely(r); err == nil {
				_, err = c.Decide(ctx, question.Named(p, r))
			}
		}
		if err == nil || ctx.Err() != nil || try == invocation.MaxTries || !unanswered(err) {
			return err
		}
		a.inv.Say("palyra: %s; the call still waits", show.Line(palyra.AsError(err).Text))
	}
}

// unanswered reports whether the person gave no answer, as opposed to one that could not be used.
func unanswered(err error) bool { return palyra.AsError(err).Reason == palyra.ReasonCancelled }

// wordDiff shows what a run changed in the place of an answer, whole or, with a path after it, of a file or directory.
const wordDiff = "diff"

// askAnswer asks until the person types one of the words that the question takes. What view prints stands right above.
func (a *Asker) askAnswer(ctx context.Context, c *client.Client, p palyra.Approval, view func()) (palyra.Answer, error) {
	words := question.Offered(p)
	ask := "Type allow to allow once, deny to deny"
	switch {
	case p.Plan.Effects != nil:
		ask = "Type allow to keep these, deny to drop them, diff [FILE] to see them"
	case len(words) > 0:
		ask = "Type allow to allow once, " + strings.Join(words, ", ") + " or deny"
	}
	for {
		typed, err := terminal.AskLine(ctx, ask+" (Ctrl-C "+cmp.Or(a.what, "cancels the call")+"): ")
		if err != nil {
			return "", err
		}
		if slices.Contains(append(words, string(palyra.AnswerAllow), string(palyra.AnswerDeny)), typed) {
			return palyra.Answer(typed), nil
		}
		if word, path, _ := strings.Cut(typed, " "); word == wordDiff && p.Plan.Effects != nil {
			a.showDiff(ctx, c, p.Call, path)
			view()
			continue
		}
		a.inv.Say("palyra: %s is neither allow nor deny; the call still waits", show.Arg(typed))
	}
}

// showDiff shows what a run changed that waits to be kept.
func (a *Asker) showDiff(ctx context.Context, c *client.Client, call palyra.CallID, path string) {
	name := palyra.PathText(path)
	if path != "" && !strings.HasPrefix(path, `"`) { // quoted, as lists show it
		name = palyra.TextOfPath(filepath.Clean(path))
	}
	d, err := c.ChangesDiff(ctx, call, name)
	if err != nil {
		a.inv.Say("palyra: %s", show.Line(palyra.AsError(err).Text))
		return
	}
	fmt.Fprint(a.inv.Stderr, show.Block(d.Diff))
	for _, n := range d.Notes {
		fmt.Fprintln(a.inv.Stderr, show.Line(n))
	}
}

// PendingApproval fetches an approval that can still be answered, and checks that its plan has its digest.
func PendingApproval(ctx context.Context, inv *invocation.Invocation, c *client.Client, id palyra.ApprovalID) (palyra.Approval, error) {
	p, err := c.Approval(ctx, id)
	if err != nil {
		return p, err
	}
	if !p.Pending() {
		return p, palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "%s is already decided: %s", id, question.Ending(p))
	}
	return p, question.Seen(p)
}

// ViewApproval prints the short view, for the person who is asked.
func ViewApproval(inv *invocation.Invocation, w io.Writer, p palyra.Approval, s palyra.Separation) {
	v := ViewOf(inv, w, p, s)
	v.Short = true
	v.Print()
}

// ViewOf is the view of an approval, as this invocation shows it.
func ViewOf(inv *invocation.Invocation, w io.Writer, p palyra.Approval, s palyra.Separation) *question.View {
	return &question.View{
		W: w, Approval: p, Separation: s, Now: inv.Now(), Style: screen.Style(inv.Colours(w)), Width: screen.Width(w),
		Own: inv.Own(),
	}
}
