package journal

import (
	"cmp"
	"context"
	"errors"

	"palyra"

	v1 "palyra/api/gen/palyra/v1"
)

// errEnough ends a watch that has told all it was asked for.
var errEnough = errors.New("journal: enough")

// tail tells entries that a request picks.
type tail struct {
	journal Log
	req     *v1.TailJournalRequest
	send    func(palyra.Entry) error
	left    int64 // entries still wanted; 0 at the start means no limit
}

// history tells what was there when it began, and ends.
func (t *tail) history(ctx context.Context, size int64) error {
	q := palyra.EntryFilter{
		From: max(t.req.GetFrom(), 1), To: size, Kind: t.req.GetKind(), Call: palyra.CallID(t.req.GetCallId()),
		Limit: page,
	}
	for q.From <= q.To {
		entries, err := t.journal.Entries(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := t.tell(e); err != nil {
				return ignoreEnough(err)
			}
		}
		if len(entries) == 0 {
			return nil
		}
		q.From = entries[len(entries)-1].Seq + 1
	}
	return nil
}

// follow tells entries as they arrive, from the end unless told otherwise.
func (t *tail) follow(ctx context.Context, size int64) error {
	from := t.req.GetFrom()
	from = cmp.Or(from, size+1)
	return ignoreEnough(t.journal.Watch(ctx, from, func(e palyra.Entry) error {
		if k := t.req.GetKind(); k != "" && k != e.Kind {
			return nil
		}
		if c := t.req.GetCallId(); c != "" && c != string(e.Call) {
			return nil
		}
		return t.tell(e)
	}))
}

func (t *tail) tell(e palyra.Entry) error {
	if err := t.send(e); err != nil {
		return err
	}
	if t.left > 0 {
		if t.left--; t.left == 0 {
			return errEnough
		}
	}
	return nil
}

func ignoreEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
