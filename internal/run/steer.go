package run

import (
	"context"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/store"
)

// Cancel ends a run: its calls under way are stopped, its open questions withdrawn. The wish is on record first, so
// that a crash does not forget it. Cancel returns when the run has ended, or with ctx's error while it goes on
// ending. Conflict: it had ended before.
func (r *Runs) Cancel(ctx context.Context, id palyra.RunID, by string) error {
	err := r.DB.Write(ctx, "run.cancelled", func(tx *store.Tx) error {
		if _, err := notEnded(tx, id); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE runs SET cancel_by=? WHERE id=? AND cancel_by=''`, whom(by), string(id))
		return err
	})
	if err != nil {
		return fmt.Errorf("run: cancel: %w", err)
	}
	wake, leave := r.tape.watch(id)
	defer leave()
	if l := r.lives(id); l != nil { // else it is about to be driven, and sees the row
		l.cancel(errRunCancelled)
	}
	for {
		run, err := r.Get(ctx, id)
		if err != nil || run.State.Ended() {
			return err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return errStopping
		}
	}
}

// CancelAll ends every run of a principal, as when its credential ends. It does not wait for them.
func (r *Runs) CancelAll(ctx context.Context, p palyra.Principal, by string) error {
	var open []palyra.RunID
	err := r.DB.Write(ctx, "run.cancelled", func(tx *store.Tx) error {
		if _, err := tx.Exec(`UPDATE runs SET cancel_by=? WHERE principal=? AND ended_at=0 AND cancel_by=''`, whom(by), string(p)); err != nil {
			return err
		}
		return tx.Each(`SELECT id FROM runs WHERE principal=? AND ended_at=0`, []any{string(p)}, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			open = append(open, palyra.RunID(id))
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("run: cancel all: %w", err)
	}
	for _, id := range open {
		if l := r.lives(id); l != nil {
			l.cancel(errRunCancelled)
		}
	}
	return nil
}

// whom names who cancels; the row must not be left without a name.
func whom(by string) string {
	if by = palyra.Clip(by, 256); by == "" {
		return "somebody"
	}
	return by
}

func (r *Runs) lives(id palyra.RunID) *Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[id]
}

func notEnded(tx *store.Tx, id palyra.RunID) (palyra.Run, error) {
	run, _, err := loadRun(tx, id)
	if err == nil && run.State.Ended() {
		err = palyra.Errorf(palyra.Conflict, palyra.ReasonRunEnded, "run %s has ended: %s", run.ID, run.State)
	}
	return run, err
}

// Bounds on what may be said to a run.
const (
	maxSaid  = 64 << 10
	maxHeard = 256
)

// Input says something to a run that goes on; its driver hears it before its
// next turn, also after a restart. Invalid: this run does not listen.
func (r *Runs) Input(ctx context.Context, id palyra.RunID, by palyra.Reach, text string) error {
	if text == "" || len(text) > maxSaid || strings.ToValidUTF8(text, "") != text {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "bad input").WithRemedy("send 1 to %d bytes of text", maxSaid)
	}
	l := r.lives(id)
	err := r.DB.Write(ctx, "run.input", func(tx *store.Tx) error {
		if _, err := notEnded(tx, id); err != nil {
			return err
		}
		if l == nil || !l.hears() {
			return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "run %s does not take input", id).
				WithRemedy("put what it should do into the input it starts with")
		}
		var n int64
		if err := tx.Get(`SELECT count(*) FROM run_inputs WHERE run=?`, []any{string(id)}, &n); err != nil {
			return err
		}
		if n >= maxHeard {
			return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "run %s was sent %d inputs", id, n).WithRemedy("start a new run")
		}
		if _, err := tx.Exec(`INSERT INTO run_inputs (run, n, text) VALUES (?,?,?)`, string(id), n+1, text); err != nil {
			return err
		}
		_, err := r.Journal.Append(tx, palyra.RunFed{
			Run: id, By: by.Principal, Credential: palyra.Clip(by.Credential, maxCredential), Bytes: int64(len(text)),
			Digest: palyra.SumBytes([]byte(text)),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("run: input: %w", err)
	}
	return nil
}

func (l *Live) hears() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listens
}

// Inputs returns what was said to the run before a turn. A turn that is taken again after a restart hears the same.
func (l *Live) Inputs(ctx context.Context, turn int64) (texts []string, err error) {
	if turn < 1 {
		return nil, errBadTurn
	}
	if !l.hears() {
		return nil, nil
	}
	err = l.runs.retry(ctx, func() error {
		texts = nil
		return l.runs.DB.Write(ctx, "run.heard", func(tx *store.Tx) error {
			n, err := tx.Exec(`UPDATE runs SET turn=? WHERE id=? AND turn<?`, turn, string(l.run.ID), turn)
			if err == nil && n > 0 { // the first time: what nobody has heard is heard now
				_, err = tx.Exec(`UPDATE run_inputs SET turn=? WHERE run=? AND turn=0`, turn, string(l.run.ID))
			}
			if err != nil {
				return err
			}
			return tx.Each(`SELECT text FROM run_inputs WHERE run=? AND turn=? ORDER BY n`, []any{string(l.run.ID), turn},
				func(scan func(...any) error) error {
					var text string
					err := scan(&text)
					texts = append(texts, text)
					return err
				})
		})
	})
	return texts, err
}
