package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/pack"
	"palyra/internal/store"
)

// maxCalls is how many calls are looked up at a time.
const maxCalls = 256

var callMarks = strings.TrimSuffix(strings.Repeat("?,", maxCalls), ",")

// Raw is an entry as its row has it, not yet read: a caller who looks up many of them reads them on every core.
type Raw []byte

// Body reads the entry's body, with a document and a buffer that are used again, and returns the buffer. A body that
// was too long to be kept is Nothing.
func (r Raw) Body(d *canon.Doc, buffer []byte) (body canon.Value, _ []byte, err error) {
	if buffer, err = pack.AppendLine(buffer[:0], r); err == nil {
		err = d.ReadCanonical(string(buffer))
	}
	if err != nil {
		return body, buffer, fmt.Errorf("journal: entry: %w", err)
	}
	body = member(d.Root(), "body")
	if body.Kind() != canon.Object {
		return canon.Value{}, buffer, errors.New("journal: an entry without a body")
	}
	if cut, _ := member(body, "truncated").Bool(); cut {
		return canon.Value{}, buffer, nil
	}
	return body, buffer, nil
}

func member(v canon.Value, name string) canon.Value {
	for k, one := range v.Members() {
		if k == name {
			return one
		}
	}
	return canon.Value{}
}

// Of returns the entries of a kind about each of the calls, at most 256 of them, oldest first.
func (j *Journal) Of(ctx context.Context, kind string, calls []palyra.CallID) (map[palyra.CallID][]Raw, error) {
	if len(calls) > maxCalls {
		return nil, palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "journal: %d calls at once", len(calls))
	}
	args := make([]any, 0, maxCalls+1)
	for _, id := range calls {
		args = append(args, string(id))
	}
	for len(args) < maxCalls { // one text, whatever the number
		args = append(args, "")
	}
	// The sign keeps the engine from going through everything of the kind.
	text := `SELECT call_id, entry FROM journal_entries WHERE call_id IN (` + callMarks + `) AND +kind = ? ORDER BY seq`
	out := make(map[palyra.CallID][]Raw, len(calls))
	err := j.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(text, append(args, kind), func(scan func(...any) error) error {
			var id string
			var entry []byte
			err := scan(&id, &entry)
			out[palyra.CallID(id)] = append(out[palyra.CallID(id)], entry)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("journal: entries of calls: %w", err)
	}
	return out, nil
}
