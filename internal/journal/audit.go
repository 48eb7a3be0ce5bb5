package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"palyra"
	"palyra/internal/pack"
	"palyra/internal/store"
)

// Auditor holds the tables that follow from the journal against it: it hears every line, in order, as a pointer to
// its event, and then looks at the tables, in the same view of the store.
type Auditor interface {
	Hear(seq int64, at time.Time, e palyra.Event) *palyra.Finding
	Settle(tx *store.Tx) (*palyra.Finding, error)
	// Notes says which records could only be checked in part.
	Notes() []string
}

// errFound ends a walk at a finding.
var errFound = errors.New("found")

// audit checks the tables beside the journal. It comes last: the lines count only when they are known to be
// as they were written.
func (v *verifier) audit(ctx context.Context) (p *Problem, err error) {
	if why, err := v.check(ctx); err != nil || why != "" {
		return problem(0, "the file is damaged: %s", why), err
	}
	if v.auditor == nil {
		return nil, nil
	}
	a := v.auditor(v.auditTime())
	var found *palyra.Finding
	err = v.read(ctx, func(tx *store.Tx) (err error) {
		found, err = auditLines(ctx, tx, a, "", nil)
		return err
	})
	if found != nil {
		return problem(found.Seq, "%s", found.Why), nil
	}
	v.report.Notes = a.Notes()
	return nil, err
}

// AuditCall checks the record of one call against its lines.
func (j *Journal) AuditCall(ctx context.Context, id palyra.CallID, a Auditor) (found *palyra.Finding, err error) {
	err = j.db.Read(ctx, func(tx *store.Tx) (err error) {
		found, err = auditLines(ctx, tx, a, " WHERE call_id = ?", []any{string(id)})
		return err
	})
	return found, err
}

// auditLines hands the lines to an auditor, and has it check the tables.
func auditLines(ctx context.Context, tx *store.Tx, a Auditor, which string, args []any) (found *palyra.Finding, err error) {
	var text []byte
	err = tx.Each("SELECT seq, time, kind, entry FROM journal_entries"+which+" ORDER BY seq", args, func(scan func(...any) error) error {
		var r row
		if err := scan(&r.seq, &r.time, &r.kind, &r.entry); err != nil {
			return err
		}
		var err error
		if text, err = pack.AppendLine(text[:0], r.entry); err != nil {
			return err
		}
		e, err := eventOf(string(r.kind), text)
		if err != nil || e == nil {
			return err
		}
		if found = a.Hear(r.seq, time.Unix(0, r.time).UTC(), e); found != nil {
			return errFound
		}
		return ctx.Err()
	})
	if errors.Is(err, errFound) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	return a.Settle(tx)
}

// check has the store look at its file.
func (v *verifier) check(ctx context.Context) (string, error) {
	if v.whole == nil {
		return "", nil
	}
	why, err := v.whole(ctx)
	if err != nil && ctx.Err() == nil { // the file cannot even be read
		return palyra.AsError(err).Text, nil
	}
	return why, err
}

// auditTime is the time that the tables are checked for: of a copy, the time when its head was signed.
func (v *verifier) auditTime() time.Time {
	if v.at != nil {
		return time.Now()
	}
	t, err := time.Parse(time.RFC3339Nano, v.head.time)
	if err != nil {
		return time.Time{}
	}
	return t
}

// events are the types of all lines by their kinds.
var events = func() map[string]reflect.Type {
	m := map[string]reflect.Type{}
	for _, e := range palyra.Catalogue() {
		m[e.Kind()] = reflect.TypeOf(e)
	}
	return m
}()

// eventOf reads an entry's body as its event; nil for a kind that is not known,
// which a later version may have written. Numbers of free form keep their digits.
func eventOf(kind string, entry []byte) (palyra.Event, error) {
	t, ok := events[kind]
	if !ok {
		return nil, nil
	}
	f, err := parseEntry(entry)
	if err != nil {
		return nil, err
	}
	text, err := jsonText(f.body)
	if err != nil {
		return nil, err
	}
	e := reflect.New(t)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(e.Interface()); err != nil {
		return nil, err
	}
	return e.Interface().(palyra.Event), nil
}
