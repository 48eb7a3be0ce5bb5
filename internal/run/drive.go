package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/gate"
	"palyra/internal/run/tapeline"
	"palyra/internal/store"
)

// Why a run's context ended.
var (
	errRunCancelled = palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "the run was cancelled")
	errRunTimedOut  = palyra.Errorf(palyra.Expired, palyra.ReasonTimedOut, "the run's time was up").
			WithRemedy("start a new run with a larger wall_ms, or do less in one")
)

// graceOfCalls is how long the end of a run waits for its calls to stop. A call
// that is not over by then ends by itself and stands in the journal alone.
const graceOfCalls = 30 * time.Second

// drive begins to drive a run that is on record, unless the daemon stops.
func (r *Runs) drive(run palyra.Run, input []byte) {
	wall := time.Duration(run.Budget.WallMS) * time.Millisecond
	left := min(wall, wall-r.Now().Sub(run.CreatedAt)) // a clock set back gains nothing
	ctx, cancel := context.WithCancelCause(r.ctx)
	ctx, timeUp := context.WithTimeoutCause(ctx, left, errRunTimedOut)
	l := &Live{runs: r, run: run, ctx: ctx, cancel: cancel, done: make(chan struct{}), said: map[int64]said{}}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		timeUp()
		cancel(nil)
		return
	}
	r.live[run.ID] = l
	r.wg.Go(func() {
		defer timeUp()
		defer cancel(nil)
		err := r.take(l, input)
		if r.ctx.Err() == nil && !stopping(err) {
			r.finish(l, err)
		}
		r.mu.Lock()
		delete(r.live, run.ID)
		r.Calls.counts.End(run.ID)
		r.mu.Unlock()
		close(l.done)
	})
}

// stopping reports whether an error only says that the daemon stops.
func stopping(err error) bool {
	return errors.Is(err, gate.ErrStopping) || (err != nil && palyra.AsError(err).Reason == palyra.ReasonStopping)
}

// take takes a run from where it stands to the end of its turns.
func (r *Runs) take(l *Live, input []byte) error {
	run, k, err := r.load(l.ctx, l.run.ID)
	if err != nil || k.cancelBy != "" {
		return err
	}
	a, err := r.accept(run, input)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.listens = a.Listens
	l.mu.Unlock()
	if run.State == palyra.RunPending {
		if err := r.accepted(l, a, k.started); err != nil {
			return err
		}
	}
	if err := r.begin(l); err != nil {
		return err
	}
	return guarded(func() error { return a.Drive(l.ctx, l) })
}

func (r *Runs) load(ctx context.Context, id palyra.RunID) (run palyra.Run, k kept, err error) {
	err = r.retry(ctx, func() error {
		return r.DB.Read(ctx, func(tx *store.Tx) error {
			run, k, err = loadRun(tx, id)
			return err
		})
	})
	return run, k, err
}

// accept asks the driver. A run that was accepted once and is not any more was
// interrupted by the restart in between.
func (r *Runs) accept(run palyra.Run, input []byte) (a Accepted, err error) {
	gone := input == nil && run.Input != palyra.SumBytes(nil)
	if gone {
		err = errors.New("its input is gone")
	} else {
		err = guarded(func() (err error) {
			a, err = r.Driver.Accept(run, input)
			return err
		})
	}
	if err == nil && a.Drive == nil {
		err = errors.New("run: the driver accepted a run and does not drive it")
	}
	if err != nil && (gone || run.State != palyra.RunPending) {
		return a, palyra.Errorf(palyra.Unavailable, palyra.ReasonInterrupted, "the run cannot go on after a restart: %s",
			palyra.AsError(err).Text).
			WithRemedy("start it again").WithCause(err)
	}
	return a, err
}

// accepted opens the tape.
func (r *Runs) accepted(l *Live, a Accepted, started int64) error {
	return r.retry(l.ctx, func() error {
		return r.DB.Write(l.ctx, "run.accepted", func(tx *store.Tx) error {
			run, _, err := loadRun(tx, l.run.ID)
			if err != nil {
				return err
			}
			err = move(tx, &run, palyra.RunIsAccepted, func(x *palyra.Run) {
				if x.Title == "" {
					x.Title = palyra.Clip(a.Title, maxTitle)
				}
				x.Model = palyra.Clip(a.Model, maxTitle)
			})
			if err != nil {
				return err
			}
			open := &palyra.TapeAccepted{Session: run.Session, Provider: run.Provider, Title: run.Title, Budget: run.Budget}
			return r.tape.add(tx, run.ID, palyra.TapeEntry{Position: started, RunAccepted: open})
		})
	})
}

// begin puts the run in progress and reads what an earlier drive said.
func (r *Runs) begin(l *Live) error {
	var run palyra.Run
	texts := map[int64]said{}
	var works int64
	err := r.retry(l.ctx, func() error {
		return r.DB.Write(l.ctx, "run.progress", func(tx *store.Tx) (err error) {
			if works, err = worksOf(tx, l.run.ID); err != nil {
				return err
			}
			if run, _, err = loadRun(tx, l.run.ID); err != nil {
				return err
			}
			if run.State != palyra.RunInProgress {
				return move(tx, &run, palyra.RunInProgress, func(*palyra.Run) {})
			}
			texts, err = textsOf(tx, run.ID)
			return err
		})
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run, l.said, l.count = run, texts, r.Calls.counts.Begin(run.ID, works)
	return nil
}

func textsOf(tx *store.Tx, run palyra.RunID) (map[int64]said, error) {
	texts := map[int64]said{}
	err := tx.Each(`SELECT body FROM tape WHERE run=? AND turn>0 ORDER BY seq`, []any{string(run)}, func(scan func(...any) error) error {
		e, _, err := scanEntry(scan)
		if err != nil || e.ModelText == nil {
			return err
		}
		s := texts[e.ModelText.Turn]
		if e.ModelText.Again {
			s = said{}
		}
		texts[e.ModelText.Turn] = said{bytes: s.bytes + len(e.ModelText.Text), done: s.done || e.ModelText.Done}
		return nil
	})
	return texts, err
}

// finish stops what is left of a run's calls and puts its end on record; it
// tries until that is kept or the daemon stops.
func (r *Runs) finish(l *Live, err error) {
	end := r.ending(l, err)
	l.cancel(errRunCancelled) // nothing more is proposed
	grace, done := context.WithTimeout(r.ctx, r.grace)
	defer done()
	for {
		err := r.endCalls(grace, l.run.ID)
		if err == nil {
			err = r.DB.Write(r.ctx, "run.ended", func(tx *store.Tx) error { return r.end(tx, l.run.ID, end) })
		}
		if err == nil || r.ctx.Err() != nil {
			return
		}
		r.Log.Warn("the end of a run is not on record yet", "run", l.run.ID, "error", err)
		if r.pause(r.ctx) != nil {
			return
		}
	}
}

// endCalls stops the calls of a run. When grace is over what is still open no longer holds up the run.
func (r *Runs) endCalls(grace context.Context, run palyra.RunID) error {
	open, err := r.Calls.endRun(grace, run)
	if grace.Err() != nil || (err == nil && open == 0) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("run: %d calls are still open", open)
	}
	return err
}

// ending says how a run ends, by what its driver returned and why its context ended.
func (r *Runs) ending(l *Live, err error) palyra.TapeRunFinished {
	cause := context.Cause(l.ctx)
	switch {
	case err == nil:
		return palyra.TapeRunFinished{State: palyra.RunDone}
	case errors.Is(cause, errRunTimedOut):
		err = errRunTimedOut
	case errors.Is(cause, errRunCancelled):
		err = errRunCancelled
	default:
		if palyra.CodeOf(err) == palyra.Internal {
			r.Log.Error("a run failed", "run", l.run.ID, "error", err)
		}
	}
	e := palyra.AsError(err)
	return palyra.TapeRunFinished{
		State: palyra.RunFailed, ReasonCode: e.Reason, Reason: palyra.Clip(e.Text, tapeline.MaxText),
		Remedy: palyra.Clip(e.Remedy, tapeline.MaxText),
	}
}

// end records the end of a run: row, journal line and the last entry of the tape
// together. Whoever asked for a cancel gets one.
func (r *Runs) end(tx *store.Tx, id palyra.RunID, end palyra.TapeRunFinished) error {
	run, k, err := loadRun(tx, id)
	if err != nil {
		return err
	}
	if k.cancelBy != "" {
		end = palyra.TapeRunFinished{State: palyra.RunCancelled, ReasonCode: palyra.ReasonCancelled, Reason: "cancelled by " + k.cancelBy}
	}
	end.Calls, end.Tokens = run.Calls, run.Tokens
	pos, err := r.Journal.Append(tx, palyra.RunEnded{Run: id, State: end.State, Reason: end.ReasonCode, Calls: run.Calls, By: k.cancelBy})
	if err != nil {
		return err
	}
	if err := r.tape.add(tx, id, palyra.TapeEntry{Position: pos.Seq, RunFinished: &end}); err != nil {
		return err
	}
	return move(tx, &run, end.State, func(x *palyra.Run) {
		x.ReasonCode, x.Reason, x.Remedy, x.EndedAt = end.ReasonCode, end.Reason, end.Remedy, r.Now().UTC()
	})
}

// retry does f until it is kept: while the store has no room, or is damaged for
// a moment, it rests and tries again. It gives up when ctx ends.
func (r *Runs) retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || palyra.CodeOf(err) != palyra.Unavailable || stopping(err) {
			return err
		}
		r.Log.Warn("a run waits until its record can be kept", "error", err)
		if err := r.pause(ctx); err != nil {
			return err
		}
	}
}

// pause rests before another try; it returns why ctx ended if that comes first.
func (r *Runs) pause(ctx context.Context) error {
	rest := time.NewTimer(r.rest)
	defer rest.Stop()
	select {
	case <-rest.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// guarded turns a panic of a driver into an error, so that one run is lost and not the daemon.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("run: panic in a driver: %v", p)
		}
	}()
	return f()
}
