package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"palyra"
	"palyra/internal/store"
)

// runColumns: what changes while a run goes on stands in columns, the rest in the document.
const runColumns = `state, calls, output, last_seq, ended_at, input_tokens, output_tokens, doc`

func scanRun(scan func(...any) error) (palyra.Run, error) {
	var run palyra.Run
	var state string
	var calls, output, last, ended int64
	var tokens palyra.Tokens
	var doc []byte
	if err := scan(&state, &calls, &output, &last, &ended, &tokens.InputTokens, &tokens.OutputTokens, &doc); err != nil {
		return run, err
	}
	if err := json.Unmarshal(doc, &run); err != nil {
		return run, fmt.Errorf("run: decode run: %w", err)
	}
	run.State, run.Calls, run.Output, run.LastSeq, run.EndedAt = palyra.RunState(state), calls, output, last, store.Moment(ended)
	run.Tokens = tokens
	return run, nil
}

// kept is what a run's row has beside the run itself.
type kept struct {
	cancelBy string
	started  int64 // journal position
}

// loadRun returns a run. NotFound: there is none.
func loadRun(tx *store.Tx, id palyra.RunID) (palyra.Run, kept, error) {
	var run palyra.Run
	var k kept
	err := tx.Each(`SELECT cancel_by, started, `+runColumns+` FROM runs WHERE id=?`, []any{string(id)},
		func(scan func(...any) error) (err error) {
			run, err = scanRun(func(dest ...any) error { return scan(append([]any{&k.cancelBy, &k.started}, dest...)...) })
			return err
		})
	if err == nil && run.ID == "" {
		err = noRun(id)
	}
	return run, k, err
}

// insert puts a new run on record, within the bounds.
func (r *Runs) insert(tx *store.Tx, run palyra.Run, input []byte) error {
	var mine, all int64
	if err := tx.Get(`SELECT count(*) FROM runs WHERE principal=? AND ended_at=0`, []any{string(run.Principal)}, &mine); err != nil {
		return err
	}
	if err := tx.Get(`SELECT count(*) FROM runs WHERE ended_at=0`, nil, &all); err != nil {
		return err
	}
	switch {
	case mine >= r.each:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "%s has %d runs under way", run.Principal, mine).
			WithRemedy("wait for some to end, or cancel them with 'palyra runs cancel'")
	case all >= r.all:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "%d runs are under way", all).WithRemedy("wait for some to end")
	}
	doc, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("run: encode run: %w", err)
	}
	pos, err := r.Journal.Append(tx, palyra.RunStarted{
		Run: run.ID, Session: run.Session, Principal: run.Principal, Surface: run.Surface, Provider: run.Provider, Input: run.Input,
		Budget: run.Budget,
	})
	if err != nil {
		return err
	}
	var key any
	if run.Key != "" {
		key = run.Key
	}
	if input == nil {
		input = []byte{} // NULL would read as gone
	}
	_, err = tx.Exec(`INSERT INTO runs (id, principal, session, client_key, state, started, doc, input) VALUES (?,?,?,?,?,?,?,?)`,
		string(run.ID), string(run.Principal), string(run.Session), key, string(run.State), pos.Seq, doc, input)
	return err
}

// move takes a run from its state to another, by the table. change may set what stands in the document.
func move(tx *store.Tx, run *palyra.Run, to palyra.RunState, change func(*palyra.Run)) error {
	if !run.State.MayBecome(to) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonRunEnded, "run %s is %s and cannot become %s", run.ID, run.State, to)
	}
	run.State = to
	change(run)
	doc, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("run: encode run: %w", err)
	}
	q := `UPDATE runs SET state=?, doc=?, ended_at=? WHERE id=?`
	if to.Ended() { // nothing will drive it again
		q = `UPDATE runs SET state=?, doc=?, ended_at=?, input=NULL WHERE id=?`
	}
	_, err = tx.Exec(q, string(to), doc, store.Nanos(run.EndedAt), string(run.ID))
	return err
}

// repeated finds the run that a request's key was used for.
func (r *Runs) repeated(ctx context.Context, q StartRequest) (run palyra.Run, found bool, err error) {
	if q.Key == "" {
		return run, false, nil
	}
	err = r.DB.Read(ctx, func(tx *store.Tx) error {
		run, found, err = byRunKey(tx, q)
		return err
	})
	return run, found, err
}

func byRunKey(tx *store.Tx, q StartRequest) (run palyra.Run, found bool, err error) {
	if q.Key == "" {
		return run, false, nil
	}
	err = tx.Each(`SELECT `+runColumns+` FROM runs WHERE principal=? AND client_key=?`, []any{string(q.Principal), q.Key},
		func(scan func(...any) error) (err error) {
			run, err = scanRun(scan)
			found = true
			return err
		})
	if err != nil || !found {
		return run, false, err
	}
	if !q.reach().May(palyra.ActSee, run.Reached()) || run.Input != palyra.SumBytes(q.Input) || run.Provider != q.Provider ||
		run.Workspace != q.Workspace {
		return palyra.Run{}, true, palyra.Errorf(palyra.Conflict, palyra.ReasonIdempotencyReused, "this key was used for another run").
			WithRemedy("use a fresh key for a new run")
	}
	return run, true, nil
}

// openRun is a run that has not ended, with what drives it.
type openRun struct {
	run   palyra.Run
	input []byte // nil: gone
}

func openRuns(tx *store.Tx) (open []openRun, err error) {
	err = tx.Each(`SELECT input, `+runColumns+` FROM runs WHERE ended_at=0 ORDER BY id`, nil, func(scan func(...any) error) error {
		var o openRun
		var err error
		o.run, err = scanRun(func(dest ...any) error { return scan(append([]any{&o.input}, dest...)...) })
		open = append(open, o)
		return err
	})
	return open, err
}

// List returns runs, newest first; more says that there are further ones.
func (r *Runs) List(ctx context.Context, f palyra.RunFilter) (page []palyra.Run, more bool, err error) {
	if f.Limit <= 0 || f.Limit > maxList {
		f.Limit = maxList
	}
	f.Cursor = cmp.Or(f.Cursor, "~")
	q := `SELECT ` + runColumns + ` FROM runs WHERE id < ? AND (?='' OR principal=?) AND (?='' OR session=?) AND (?='' OR state=?) AND (?='' OR principal=?)
		ORDER BY id DESC`
	p, s, st, own := string(f.Principal), string(f.Session), string(f.State), string(f.Reach.Principal)
	if f.Reach.Person {
		own = ""
	}
	err = r.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(q, []any{f.Cursor, p, p, s, s, st, st, own, own}, func(scan func(...any) error) error {
			if len(page) == int(f.Limit) {
				more = true
				return errPageFull
			}
			run, err := scanRun(scan)
			if err == nil && f.Reach.May(palyra.ActSee, run.Reached()) {
				page = append(page, run)
			}
			return err
		})
	})
	if errors.Is(err, errPageFull) {
		err = nil
	}
	return page, more, err
}
