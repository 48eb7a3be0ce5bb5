package client

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// StartRun starts a run and returns it as it stands; AttachRun follows it. The daemon owns it: it goes on without
// its client, and CancelRun ends it. Through the operator door it is signed.
func (c *Client) StartRun(ctx context.Context, r RunRequest) (palyra.Run, error) {
	req, err := r.message()
	if err != nil {
		return palyra.Run{}, err
	}
	res, err := c.runs().StartRun(ctx, req)
	return word[palyra.Run](res.GetRun(), err)
}

func (r RunRequest) message() (*v1.StartRunRequest, error) {
	for _, s := range []string{r.Provider, r.Input, r.Title, r.Workspace, r.Session, r.Key} {
		if !utf8.ValidString(s) { // the wire would refuse it without saying why
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a text of the run is not UTF-8")
		}
	}
	req := &v1.StartRunRequest{
		Provider: r.Provider, Input: r.Input, Title: r.Title, Workspace: r.Workspace, Session: r.Session, Key: r.Key,
		NoWait: r.NoWait, Door: string(r.Surface),
	}
	if r.Budget != (palyra.Budget{}) {
		req.Budget = &v1.Budget{}
		if err := wire.FromWord(r.Budget, req.GetBudget()); err != nil {
			return nil, failure(err)
		}
	}
	return req, nil
}

// GetRun returns a run as it stands.
func (c *Client) GetRun(ctx context.Context, id palyra.RunID) (palyra.Run, error) {
	res, err := c.runs().GetRun(ctx, &v1.GetRunRequest{RunId: string(id)})
	return word[palyra.Run](res.GetRun(), err)
}

// Runs lists runs, newest first.
func (c *Client) Runs(ctx context.Context, f RunFilter) (RunPage, error) {
	req := &v1.ListRunsRequest{}
	if err := wire.FromWord(f, req); err != nil {
		return RunPage{}, failure(err)
	}
	res, err := c.runs().ListRuns(ctx, req)
	return word[RunPage](res, err)
}

// CancelRun ends a run: its running calls are stopped, its questions are withdrawn. Through the
// operator door it is signed.
func (c *Client) CancelRun(ctx context.Context, id palyra.RunID) error {
	_, err := c.runs().CancelRun(ctx, &v1.CancelRunRequest{RunId: string(id)})
	return failure(err)
}

// SendRunInput sends text to a run that is under way; at most 64 KiB. Through the operator door it is signed.
func (c *Client) SendRunInput(ctx context.Context, id palyra.RunID, text string) error {
	_, err := c.runs().SendRunInput(ctx, &v1.SendRunInputRequest{RunId: string(id), Text: text})
	return failure(err)
}

// AttachRun calls f with every entry of a run's tape after the one numbered after, first those that
// exist, then those that come, each once and in order. It returns nil when the run is finished, f's
// error as soon as f returns one, and otherwise when ctx ends.
//
// A lost connection is made again, with pauses that grow to two seconds, from the last entry that f
// has seen; the daemon may have been restarted meanwhile. Each time, lost is called with the entry
// and the error. It is an error when no daemon listens in the first place.
func (c *Client) AttachRun(ctx context.Context, id palyra.RunID, after int64, f func(palyra.TapeEntry) error,
	lost ...func(after int64, err error),
) error {
	a := &attachment{client: c, run: id, seen: after, f: f}
	var wait pause
	for first := true; ; first = false {
		before := a.seen
		err := a.follow(ctx)
		switch {
		case err == nil || a.failed != nil || ctx.Err() != nil || !passing(err):
			return err
		case first && palyra.AsError(err).Reason == ReasonNoDaemon:
			return err
		case a.seen > before:
			wait = 0
		}
		for _, tell := range lost {
			tell(a.seen, err)
		}
		if err := wait.longer(ctx); err != nil {
			return err
		}
	}
}

// attachment follows a tape, over as many connections as it takes.
type attachment struct {
	client *Client
	run    palyra.RunID
	seen   int64
	f      func(palyra.TapeEntry) error
	failed error // error of f
}

// follow passes on the tape over one connection. nil means that the tape was followed to its end.
func (a *attachment) follow(ctx context.Context) error {
	stream, err := a.client.runs().AttachRun(ctx, &v1.AttachRunRequest{RunId: string(a.run), AfterSeq: a.seen})
	finished := false
	err = receiveAll(stream, err, func(m *v1.AttachRunResponse) error {
		e, err := wire.ToEntry(m.GetEntry())
		if err != nil {
			return failure(err)
		}
		finished = e.RunFinished != nil
		return a.tell(e)
	})
	if finished && a.failed == nil { // nothing follows, however the connection ended
		return nil
	}
	return err
}

// tell passes an entry on, once and in its order.
func (a *attachment) tell(e palyra.TapeEntry) error {
	switch {
	case e.Seq <= a.seen:
		return nil
	case e.Seq > a.seen+1:
		return palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the tape of run %s has a gap after entry %d", a.run, a.seen)
	}
	if a.failed = a.f(e); a.failed != nil {
		return a.failed
	}
	a.seen = e.Seq
	return nil
}

// passing reports whether another try may succeed.
func passing(err error) bool { return palyra.CodeOf(err) == palyra.Unavailable }

// pause is the length of the last wait; each is twice as long as the one before.
type pause time.Duration

const (
	shortest = 50 * time.Millisecond
	longest  = 2 * time.Second
)

// longer waits twice as long as the last time.
func (p *pause) longer(ctx context.Context) error {
	*p = pause(min(max(2*time.Duration(*p), shortest), longest))
	t := time.NewTimer(time.Duration(*p))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// ended is the error of a request whose context is over.
func ended(ctx context.Context) error {
	code := connect.CodeCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = connect.CodeDeadlineExceeded
	}
	return failure(connect.NewError(code, ctx.Err()))
}
