package execute

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/show"
)

// sendPatience is how long a signal may take to reach the command.
const sendPatience = 5 * time.Second

// again is how soon after the first a second Ctrl-C cancels the call.
const again = 2 * time.Second

// listen forwards the signals of this process to the command. The returned function ends that.
func (x *execution) listen() (stop func()) {
	source := x.inv.Signals
	if source == nil {
		source = ownSignals
	}
	signals, deaf := source()
	pipes := minePipes()
	life, end := context.WithCancel(context.Background())
	x.deaf = sync.OnceFunc(func() {
		deaf()
		close(x.heard)
	})
	x.heard, x.late = make(chan struct{}), make(chan os.Signal, 1)
	var listening sync.WaitGroup
	listening.Go(func() { x.obey(life, signals) })
	return func() {
		x.deaf()
		end()
		listening.Wait()
		pipes()
	}
}

// obey passes signals on, in their order, until the listening ends. A slow one does not keep the
// next from being heard.
func (x *execution) obey(ctx context.Context, signals <-chan os.Signal) {
	queue := make(chan func(), cap(signals)+1)
	var sending sync.WaitGroup
	sending.Go(func() {
		for pass := range queue {
			pass()
		}
	})
	defer sending.Wait()
	defer close(queue)
	for {
		select {
		case s := <-x.late:
			x.enqueue(queue, x.signal(ctx, s))
		case s := <-signals:
			x.enqueue(queue, x.signal(ctx, s))
		case <-x.heard:
			return
		}
	}
}

// recall obeys a signal that came before it was known whether an adopted call waits or runs.
func (x *execution) recall() {
	name := x.state.recall()
	for s, n := range signalNames {
		if n == name {
			x.late <- s
		}
	}
}

// enqueue drops signals beyond a few: more of them say nothing new.
func (x *execution) enqueue(queue chan<- func(), pass func()) {
	if pass == nil {
		return
	}
	select {
	case queue <- pass:
	default:
	}
}

// ownSignals are those of this process.
func ownSignals() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 16)
	for _, s := range caught() {
		if !signal.Ignored(s) { // nohup and background shells ignore it on purpose
			signal.Notify(signals, s)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// signal obeys a signal, or returns a function that passes it on.
func (x *execution) signal(ctx context.Context, s os.Signal) (pass func()) {
	if s == resizeSignal {
		return x.resized(ctx, x.state.running())
	}
	name := signalNames[s]
	if name == "" {
		return nil
	}
	if x.adopted && x.state.isEarly(name) { // whether it is passed on or cancels is known when the call waits or runs
		return nil
	}
	ends := slices.Contains(deadly, name)
	switch id := x.state.tell(ends); {
	case id == "" && ends, name == "SIGINT" && x.isAgain():
		x.giveUp()
	case id != "":
		return func() { x.forward(ctx, id, name) }
	}
	return nil
}

// deadly are the signals that end a command without a handler.
var deadly = []string{"SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"}

// isAgain reports whether a Ctrl-C follows another one closely.
func (x *execution) isAgain() bool {
	now := x.inv.Now()
	last := x.lastStop
	x.lastStop = now
	return !last.IsZero() && now.Sub(last) < again
}

// giveUp cancels the call. The next signal is for this process itself.
func (x *execution) giveUp() {
	x.raw.restore()
	x.inv.Interrupt()
	x.deaf()
}

// forward sends a signal to the running command. If a deadly one does not reach it, the call is cancelled.
func (x *execution) forward(ctx context.Context, id palyra.CallID, name string) {
	ctx, done := context.WithTimeout(ctx, sendPatience)
	defer done()
	err := x.client.SendInput(ctx, id, palyra.Feed{Signal: name})
	if err == nil || hasEnded(err) || x.state.running() == "" || !slices.Contains(deadly, name) {
		return
	}
	x.tell("%s did not reach the command: %s", name, show.Line(palyra.AsError(err).Text))
	x.giveUp()
}

// hasEnded reports whether a call could not be fed because it is over: its outcome is on the way.
func hasEnded(err error) bool {
	switch palyra.AsError(err).Reason {
	case palyra.ReasonAlreadyDecided, palyra.ReasonRunEnded, palyra.ReasonNotFound:
		return true
	}
	return false
}
