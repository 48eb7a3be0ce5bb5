package execute

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"sync"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/show"
)

// caller is what a call needs of the client.
type caller interface {
	client.Caller
	// GetCall returns the call; after its end, to say more of it.
	GetCall(ctx context.Context, id palyra.CallID) (palyra.Call, error)
	// SendInput feeds the call. It blocks while the call does not read.
	SendInput(ctx context.Context, id palyra.CallID, f palyra.Feed) error
}

// execution is one command on its way through the gate: its input, its output, and the signals in between.
type execution struct {
	inv        *invocation.Invocation
	client     caller
	asker      *Asker
	input      proposal.Input
	size       *proposal.Size // with -t; otherwise nil
	raw        *rawTerminal   // with -t; otherwise nil
	staged     bool           // it is an agent whose work its person reviews
	parks      bool           // a start that nobody has answered ends, and is to be tried again
	adopted    bool           // another program proposed it
	taken      bool           // the command has the terminal: a second running event changes nothing
	printedOut *printed
	printedErr *printed
	spool      *spool        // between the call and the two streams
	ready      chan struct{} // closed when output may be printed: when the terminal is the command's
	unveil     func()        // closes ready

	state    commandState
	lastStop time.Time      // time of the last Ctrl-C; only the listener uses it
	deaf     func()         // ends the listening to signals
	late     chan os.Signal // one that came before this program
	heard    chan struct{}  // closed by deaf
	pending  sync.WaitGroup // goroutines that feed the call
}

// prepare finds out the command's input. It reports a missing daemon before it reads anything,
// which may take for ever.
func (x *execution) prepare(ctx context.Context, c *client.Client, o proposal.Options) error {
	if o.Terminal {
		return x.onTerminal()
	}
	if o.NoStdin || nothingToRead(x.inv.Stdin) {
		return nil
	}
	if err := c.Health(ctx); err != nil {
		return x.orGivenUp(ctx, err)
	}
	var err error
	x.input, err = x.readStdin(ctx)
	return err
}

// orGivenUp is err, or the error for a person who gave up.
func (x *execution) orGivenUp(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return exit.Interrupted(err)
	}
	return err
}

// run proposes the call and follows it to its end.
func (x *execution) run(ctx context.Context, r client.CallRequest) error {
	x.printedOut, x.printedErr = x.printedTo(x.inv.Stdout), x.printedTo(x.inv.Stderr)
	r.StreamOutput = !x.inv.JSON
	feeding, done := context.WithCancel(ctx)
	x.asker.elsewhere, x.inv.RawNow = x.raw.isRaw, x.raw.isRaw
	x.spool, x.ready = newSpool(), make(chan struct{})
	x.unveil = sync.OnceFunc(func() { close(x.ready) })
	if x.raw == nil {
		x.unveil()
	}
	var printing sync.WaitGroup
	printing.Go(x.printAll)
	outcome, err := x.asker.follow(ctx, x.client, r, func(e client.CallEvent) { x.event(feeding, e) })
	x.state.end()
	x.spool.close()
	done()
	x.pending.Wait()
	x.unveil()
	printing.Wait()
	x.raw.restore()
	if err != nil {
		x.freshLine()
		if id := x.state.id(); id != "" {
			x.tell("what became of call %s: palyra calls show %s", show.Line(string(id)), show.Arg(string(id)))
		}
		return x.orGivenUp(ctx, err)
	}
	return x.finish(ctx, outcome)
}

// event handles an event of the call.
func (x *execution) event(ctx context.Context, e client.CallEvent) {
	switch {
	case e.Accepted != nil:
		x.state.accept(e.Accepted.CallID)
		x.begin(ctx)
	case e.ApprovalRequested != nil:
		if x.state.ask() {
			x.giveUp()
		}
		x.recall()
	case e.ApprovalResolved != nil: // a no to the command itself ends the call anyway; a no to a host does not
		x.state.answered()
	case e.Running != nil:
		x.takeOver(ctx)
		x.recall()
	case e.Output != nil:
		x.spool.add(*e.Output)
	}
}

// printAll prints pieces until no more come.
func (x *execution) printAll() {
	<-x.ready
	for c, ok := x.spool.next(); ok; c, ok = x.spool.next() {
		x.asker.unasked()
		x.print(c)
	}
}

// print passes on a piece of output. When nobody reads it any more the call is ended, as a command
// in a pipe would be.
func (x *execution) print(c palyra.Chunk) {
	p := x.printedOut
	if c.Stream == "stderr" {
		p = x.printedErr
	}
	if p.broken != nil {
		return
	}
	if p.chunk(c); p.broken != nil {
		if !p.unread() {
			x.tell("the output cannot be written: %s", show.Line(p.broken.Error()))
		}
		x.inv.Interrupt()
	}
}

// begin starts to feed the call, as soon as it has an id. A command with a terminal is fed when it runs.
func (x *execution) begin(ctx context.Context) {
	if x.raw == nil && x.input.Live {
		x.pending.Go(func() { x.feed(ctx) })
	}
}

// finish prints the rest of the output and how the call ended.
func (x *execution) finish(ctx context.Context, o palyra.Outcome) error {
	code := exit.OfExec(o)
	if x.parks && o.ReasonCode == palyra.ReasonApprovalNotAwaited && o.ApprovalID != "" {
		code = exit.Parked
		x.tell("parked: the start waits for an answer to %s; run the same line again once it is given", show.Line(string(o.ApprovalID)))
		if !x.inv.JSON {
			return exit.Error{Code: code}
		}
	}
	if x.inv.JSON {
		if err := printOutcome(x.inv, o); err != nil {
			return err
		}
		return exit.Error{Code: code}
	}
	if missing := x.restOf(o); x.cutShort(missing) && x.printedOut.bare && code == exit.OK {
		code = exit.Palyra // a reader must not take a part of it for the whole
	}
	x.network(o)
	x.takenAway(o.CallID, o.Quarantined)
	x.readOnly(o)
	x.leftBehind(o.Left)
	x.keptHalf(o)
	if x.printedOut.unread() { // as in any pipe whose reader has enough: head, or a pager that was left
		return exit.Error{Code: exit.Unread}
	}
	if x.staged && o.Effects == palyra.EffectsStaged {
		x.freshLine()
		if err := offerReview(ctx, x.inv, o.CallID); err != nil && !errors.As(err, &exit.Error{}) { // which has said it
			x.tell("what the agent wrote waits: palyra changes %s (%s)", show.Line(string(o.CallID)), show.Line(palyra.AsError(err).Text))
		}
	}
	if o.Outcome != palyra.OutcomeFinished || o.ReasonCode != "" {
		x.freshLine()
		printEnding(x.inv, o)
		ruled(ctx, x.inv, x.client, o)
	}
	return exit.Error{Code: code}
}

// freshLine starts a new line on the terminal, where the command left one open.
func (x *execution) freshLine() {
	x.printedOut.freshLine()
	x.printedErr.freshLine()
}

// outcomeStream is the bytes of one stream of an outcome.
func outcomeStream(text, b64 string) []byte {
	if b64 == "" {
		return []byte(text)
	}
	raw, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		return nil
	}
	return raw
}

// send feeds the call; it blocks while the command does not read. An error means that it cannot be fed any more.
func (x *execution) send(ctx context.Context, f palyra.Feed) error {
	id := x.state.id()
	if id == "" {
		return errors.New("there is no call")
	}
	return x.client.SendInput(ctx, id, f)
}

// tell prints a message about the call, unless --json is given.
func (x *execution) tell(format string, args ...any) {
	if !x.inv.JSON {
		x.inv.Say("palyra: "+format, args...)
	}
}
