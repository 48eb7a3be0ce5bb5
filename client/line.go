package client

import (
	"context"
	"time"

	"palyra"
)

// line is a stream that lasts until it ends by itself or is hung up, and not as long as
// whoever reads it.
type line struct {
	ctx    context.Context // ends when it is hung up
	hangUp context.CancelFunc
}

const (
	// cancelPatience is how long what was cancelled may take to say so.
	cancelPatience = 10 * time.Second
	// lastWords is how long it may take where it could not be cancelled: its end may be
	// on the way.
	lastWords = time.Second
)

func newLine() line {
	ctx, hangUp := context.WithCancel(context.Background())
	return line{ctx, hangUp}
}

// cancel asks the daemon to end what is followed; that it ended arrives on the line. When
// that cannot be done, or takes too long, it hangs up.
func (l line) cancel(ask func(context.Context) error) error {
	ctx, done := context.WithTimeout(context.Background(), cancelPatience)
	defer done()
	patience := cancelPatience
	err := ask(ctx)
	if err != nil {
		patience = lastWords
	}
	time.AfterFunc(patience, l.hangUp)
	return err
}

// attended follows to the end. When ctx ends first, leave says what becomes of it; it has
// returned when this does.
func attended(ctx context.Context, follow, leave func()) {
	left := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(left)
		leave()
	})
	follow()
	if !stop() {
		<-left
	}
}

// RunCaller is what following a run needs of a client; *Client is one.
type RunCaller interface {
	// AttachRun tells the tape of a run to its end.
	AttachRun(ctx context.Context, id palyra.RunID, after int64, f func(palyra.TapeEntry) error, lost ...func(after int64, err error)) error
	// CancelRun ends it.
	CancelRun(ctx context.Context, id palyra.RunID) error
}

// FollowRunOptions says how a run is followed.
type FollowRunOptions struct {
	After   int64                        // the last entry that is known
	Entry   func(palyra.TapeEntry) error // hears every one after it; its error ends the following
	Lost    func(after int64, err error) // hears of lost connections, which are made again; may be nil
	Leaving func()                       // hears that ctx has ended; may be nil
	Cancels bool                         // the end of ctx cancels the run; else it goes on
}

// FollowRun tells a run's tape as AttachRun does. When ctx ends first the run is cancelled,
// and that is still told, or it is left, as the options say.
func FollowRun(ctx context.Context, c RunCaller, id palyra.RunID, o FollowRunOptions) (err error) {
	l := newLine()
	defer l.hangUp()
	lost := func(after int64, err error) {
		if o.Lost != nil {
			o.Lost(after, err)
		}
	}
	attended(ctx, func() { err = c.AttachRun(l.ctx, id, o.After, o.Entry, lost) }, func() {
		if o.Leaving != nil {
			o.Leaving()
		}
		if !o.Cancels {
			l.hangUp()
			return
		}
		_ = l.cancel(func(ctx context.Context) error { return c.CancelRun(ctx, id) }) // the tape says it, or its end does
	})
	return err
}
