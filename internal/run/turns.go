package run

import (
	"context"
	"errors"
	"slices"

	"palyra"
	"palyra/internal/store"
)

// maxTurn is the largest record of a turn.
const maxTurn = 8 << 20

// Keep puts a turn on record as its driver gave it, with the tokens that it cost. A driver that cannot give a turn
// twice keeps it before anything is done because of it; a drive after a restart finds it with Kept. A turn that is
// kept already stays as it is.
func (l *Live) Keep(ctx context.Context, turn int64, body []byte, cost palyra.Tokens) error {
	switch {
	case turn < 1:
		return errBadTurn
	case len(body) > maxTurn:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "a turn of %d bytes cannot be kept, at most %d", len(body), maxTurn)
	}
	return l.runs.retry(ctx, func() error {
		return l.runs.DB.Write(ctx, "run.turn", func(tx *store.Tx) error {
			if _, err := notEnded(tx, l.run.ID); err != nil {
				return err
			}
			n, err := tx.Exec(`INSERT INTO run_turns (run, turn, body) VALUES (?,?,?) ON CONFLICT DO NOTHING`, string(l.run.ID), turn, body)
			if err != nil || n == 0 {
				return err
			}
			_, err = tx.Exec(`UPDATE runs SET input_tokens=input_tokens+?, output_tokens=output_tokens+? WHERE id=?`,
				max(cost.InputTokens, 0), max(cost.OutputTokens, 0), string(l.run.ID))
			return err
		})
	})
}

// Kept returns a turn that was kept; nil: it was not.
func (l *Live) Kept(ctx context.Context, turn int64) (body []byte, err error) {
	err = l.runs.retry(ctx, func() error {
		return l.runs.DB.Read(ctx, func(tx *store.Tx) error {
			err := tx.Get(`SELECT body FROM run_turns WHERE run=? AND turn=?`, []any{string(l.run.ID), turn}, &body)
			if errors.Is(err, store.ErrNoRows) {
				body, err = nil, nil
			}
			return err
		})
	})
	return body, err
}

// KeptTurn is a turn of an earlier run.
type KeptTurn struct {
	Run  palyra.RunID
	Turn int64
	Body []byte
}

// Earlier returns the turns kept by runs of this session that had ended when this one began, oldest first: the
// latest ones that take up at most so many bytes. A drive after a restart gets the same.
func (l *Live) Earlier(ctx context.Context, most int) (turns []KeptTurn, err error) {
	q := `SELECT t.run, t.turn, t.body FROM run_turns t JOIN runs r ON r.id=t.run
		WHERE r.session=? AND r.principal=? AND r.ended_at>0 AND r.ended_at<=? AND r.id<>? ORDER BY t.run DESC, t.turn DESC`
	args := []any{string(l.run.Session), string(l.run.Principal), store.Nanos(l.run.CreatedAt), string(l.run.ID)}
	err = l.runs.retry(ctx, func() error {
		turns = nil
		size := 0
		return l.runs.DB.Read(ctx, func(tx *store.Tx) error {
			return tx.Each(q, args, func(scan func(...any) error) error {
				var id string
				var t KeptTurn
				if err := scan(&id, &t.Turn, &t.Body); err != nil {
					return err
				}
				if size += len(t.Body); size > most {
					return errPageFull
				}
				t.Run = palyra.RunID(id)
				turns = append(turns, t)
				return nil
			})
		})
	})
	if errors.Is(err, errPageFull) {
		err = nil
	}
	slices.Reverse(turns)
	return turns, err
}

// Anew says that what the tape has of a turn's text was cut off and that the turn begins again: what comes next is
// not held against it. Without any text of the turn it does nothing.
func (l *Live) Anew(ctx context.Context, turn int64) error {
	l.mu.Lock()
	s := l.said[turn]
	l.mu.Unlock()
	if s.done || s.bytes+s.now == 0 {
		return nil
	}
	err := l.runs.retry(ctx, func() error {
		return l.runs.DB.Write(ctx, "tape.text", func(tx *store.Tx) error {
			return l.runs.tape.add(tx, l.run.ID, palyra.TapeEntry{ModelText: &palyra.TapeText{Turn: turn, Again: true}})
		})
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said[turn] = said{}
	return nil
}
