package client

import (
	"context"
	"time"

	"palyra"
)

// line is a stream that lasts until it ends by itself or is hung up; the reader's context does not end it.
type line struct {
	ctx    context.Context // ends when the line is hung up
	hangUp context.CancelFunc
}

const (
	// cancelPatience is how long a cancelled call or run may take to report its end.
	cancelPatience = 10 * time.Second
	// lastWords is how long it may take when the cancelling failed: its end may be on the way.
	lastWords = time.Second
)

func newLine() line {
	ctx, hangUp := context.WithCancel(context.Background())
	return line{ctx, hangUp}
}

// cancel asks the daemon to end the call or run; its end arrives on the line. When that fails, or
// takes too long, cancel hangs up.
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

// attended runs follow to its end. When ctx ends first it calls leave, which decides what becomes
// of the call or run, and returns after both have returned.
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
	// AttachRun calls f with the tape of a run to its end.
	AttachRun(ctx context.Context, id palyra.RunID, after int64, f func(palyra.TapeEntry) error, lost ...func(after int64, err error)) error
	// CancelRun ends the run.
	CancelRun(ctx context.Context, id palyra.RunID) error
}

// FollowRunOptions says how a run is followed.
type FollowRunOptions struct {
	After   int64                        // the last entry that is known
	Entry   func(palyra.TapeEntry) error // called with every later entry; its error ends the following
	Lost    func(after int64, err error) // called when the connection is lost, which is made again; may be nil
	Leaving func()                       // called when ctx has ended; may be nil
	Cancels bool                         // the end of ctx cancels the run; otherwise the run goes on
}

// FollowRun calls Entry with a run's tape, as AttachRun does. When ctx ends first, the options say
// whether the run is cancelled, and its tape still followed to the end, or left to go on.
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
		_ = l.cancel(func(ctx context.Context) error { return c.CancelRun(ctx, id) }) // the tape, or its end, shows whether it worked
	})
	return err
}
