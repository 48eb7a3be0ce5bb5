package journal

import (
	"context"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/store"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	watchBatch   = 256
)

// everyCall are the kinds of which nearly every call has a line. They are in no index.
var everyCall = []string{
	palyra.CallProposed{}.Kind(), palyra.CallJudged{}.Kind(), palyra.CallGranted{}.Kind(), palyra.CallFinished{}.Kind(),
}

// rareKind is the condition of the index of the other kinds, word for word.
var rareKind = "kind NOT IN ('" + strings.Join(everyCall, "', '") + "')"

func sqlOf(q palyra.EntryFilter) (string, []any) {
	text, args := "SELECT entry FROM journal_entries WHERE seq >= ?", []any{max(q.From, 1)}
	add := func(clause string, arg any) { text, args = text+clause, append(args, arg) }
	if q.To > 0 {
		add(" AND seq <= ?", q.To)
	}
	switch {
	case q.Kind != "" && !slices.Contains(everyCall, q.Kind):
		add(" AND kind = ? AND "+rareKind, q.Kind)
	case q.Kind != "":
		add(" AND +kind = ?", q.Kind)
	}
	if q.Call != "" {
		add(" AND call_id = ?", string(q.Call))
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	add(" ORDER BY seq LIMIT ?", min(limit, maxLimit))
	return text, args
}

// Entries returns the entries a query selects. Numbers in a body are json.Number: digits are not lost.
func (j *Journal) Entries(ctx context.Context, q palyra.EntryFilter) ([]palyra.Entry, error) {
	text, args := sqlOf(q)
	var list []palyra.Entry
	err := j.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(text, args, func(scan func(...any) error) error {
			var b []byte
			if err := scan(&b); err != nil {
				return err
			}
			e, err := decodeRow(b)
			if err != nil {
				return palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "the journal has a damaged entry after %d",
					q.From+int64(len(list))-1).
					WithRemedy("run 'palyra journal verify'").WithCause(err)
			}
			list = append(list, e)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Watch calls f for every entry from the given one on, then for new ones as they become durable, each once and in
// order, until ctx ends, f fails or the journal is closed. A slow f delays only its own watch: entries are read
// from the tables, and any number of commits meanwhile make one wake-up.
func (j *Journal) Watch(ctx context.Context, from int64, f func(palyra.Entry) error) error {
	next := max(from, 1)
	for {
		size, wake, closed := j.progress() // before reading: what comes after closes wake
		for next <= size {
			list, err := j.Entries(ctx, palyra.EntryFilter{From: next, To: size, Limit: watchBatch})
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return missing(next)
			}
			for _, e := range list {
				if e.Seq != next {
					return missing(next)
				}
				if err := f(e); err != nil {
					return err
				}
				next++
			}
		}
		if closed {
			return palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the journal is closed")
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (j *Journal) progress() (size int64, wake <-chan struct{}, closed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.tree.size, j.wake, j.closed
}

func missing(seq int64) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "entry %d of the journal is missing", seq).
		WithRemedy("run 'palyra journal verify'")
}
