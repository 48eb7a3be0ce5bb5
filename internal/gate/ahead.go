package gate

import (
	"context"
	"time"

	"palyra"
)

// newEnough is how old a look at what would run may be when its run begins. It is older only after a slow barrier; then
// it is made again.
const newEnough = 50 * time.Millisecond

// confirmation is what came of resolving a call again.
type confirmation struct {
	launch palyra.Launch
	err    error
	begun  time.Time
}

// confirmAhead has the call of a program resolved again while its granted line becomes durable, which takes as long, and
// returns what gives the launch once it is. Only a launch that is new enough counts: whatever else came of it, the call
// is resolved once more. Calls of other tools are resolved then only, sooner than somebody else could be asked to.
// Nothing runs by resolving; drop ends it where the call goes no further.
func (w *walk) confirmAhead(ctx context.Context, g palyra.Grant) (launch func(context.Context) (palyra.Launch, error), drop func()) {
	after := func(clock context.Context) (palyra.Launch, error) { return w.confirm(clock, w.call, g) }
	if t := w.call.Plan.Tier; t != palyra.TierB && t != palyra.TierC {
		return after, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, newEnough)
	done, call := make(chan confirmation, 1), *w.call // which the barrier goes on with
	go func() {
		c := confirmation{begun: time.Now()}
		c.launch, c.err = w.confirm(ctx, &call, g)
		done <- c
	}()
	wait := func() confirmation {
		defer cancel()
		return <-done
	}
	launch = func(clock context.Context) (palyra.Launch, error) {
		if c := wait(); c.err == nil && time.Since(c.begun) < newEnough && clock.Err() == nil {
			return c.launch, nil
		}
		return after(clock)
	}
	return launch, func() {
		cancel()
		wait()
	}
}
