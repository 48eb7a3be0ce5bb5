package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"palyra"
	"palyra/internal/gate"
	"palyra/internal/run/tapeline"
	"palyra/internal/store"
)

// Labels implements gate.Ledger: the labels of the call's session, and of the sessions whose runs it came out of,
// with what the calls under way in them may be doing. A program that still runs shows what it read before its end
// is on record.
func (l *Ledger) Labels(ctx context.Context, c *palyra.Call) ([]string, error) {
	all, err := l.labels.Get(ctx, origin{c.Proposal.Session, c.Proposal.Parent}, func(tx *store.Tx) ([]string, error) {
		line, err := lineage(tx, c)
		if err != nil {
			return nil, err
		}
		var all []string
		for _, session := range line {
			if err := labelled(tx, session, &all); err != nil {
				return nil, err
			}
		}
		return palyra.JoinLabels(all, nil), nil
	})
	if err != nil {
		return nil, fmt.Errorf("run: labels: %w", err)
	}
	return slices.Clone(all), nil
}

// origin is what decides which sessions a call belongs to: that of a call never changes.
type origin struct {
	session palyra.SessionID
	parent  palyra.CallID
}

// The labels of sessions as a table of its own: the rest of a session changes with every call.
const (
	sessionLabels = "sessions.labels"
	maxLabelled   = 4096 // origins whose labels are remembered
)

// labelled adds what is known of a session.
func labelled(tx *store.Tx, session palyra.SessionID, all *[]string) error {
	q := `SELECT labels FROM sessions WHERE id=? UNION ALL SELECT labels FROM call_labels WHERE session=?`
	return tx.Each(q, []any{string(session), string(session)}, func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil {
			return err
		}
		var some []string
		err := json.Unmarshal([]byte(text), &some)
		*all = append(*all, some...)
		return err
	})
}

// worksOf is how many calls a run made by those of its calls that work by others: skills do.
func worksOf(tx *store.Tx, run palyra.RunID) (n int64, err error) {
	q := `SELECT count(*) FROM calls c JOIN calls p ON p.id=c.parent WHERE c.run=? AND p.tool LIKE 'skill.%'`
	err = tx.Get(q, []any{string(run)}, &n)
	return n, err
}

// maxLine bounds how many runs within runs are looked at.
const maxLine = 64

// lineage returns the sessions that a call belongs to: its own, then those of the
// running calls that it came out of.
func lineage(tx *store.Tx, c *palyra.Call) ([]palyra.SessionID, error) {
	line := []palyra.SessionID{c.Proposal.Session}
	for id, n := c.Proposal.Parent, 0; id != ""; n++ {
		if n == maxLine {
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "more than %d calls within one another", maxLine)
		}
		var session, parent string
		if err := tx.Get(`SELECT session, parent FROM calls WHERE id=?`, []any{string(id)}, &session, &parent); err != nil {
			return nil, fmt.Errorf("parent %s: %w", id, err)
		}
		if !slices.Contains(line, palyra.SessionID(session)) {
			line = append(line, palyra.SessionID(session))
		}
		id = palyra.CallID(parent)
	}
	return line, nil
}

// label keeps what a call may do while it is under way, and what it did when its
// end is recorded, in the transaction that records it.
func (l *Ledger) label(tx *store.Tx, c *palyra.Call, e palyra.Event) error {
	may := gate.MayLabels(c)
	var did []string
	switch e := e.(type) {
	case palyra.CallGranted:
		return begin(tx, c, may)
	case palyra.CallFinished:
		did = e.Labels
	case palyra.CallUnknown:
		did = e.Labels
	case palyra.CallChecked, palyra.CallObserved: // the agent does it itself, and nobody sees how it ends
		did = may
	}
	if !tapeline.Ends(e) || len(may)+len(did) == 0 {
		return nil
	}
	if _, err := tx.Exec(`DELETE FROM call_labels WHERE call=?`, string(c.ID)); err != nil || len(did) == 0 {
		return err
	}
	line, err := lineage(tx, c)
	if err != nil {
		return err
	}
	for _, session := range line {
		if err := l.mark(tx, session, c.ID, did); err != nil {
			return err
		}
	}
	return nil
}

// begin keeps what a call that is about to run may do.
func begin(tx *store.Tx, c *palyra.Call, may []string) error {
	if len(may) == 0 {
		return nil
	}
	line, err := lineage(tx, c)
	if err != nil {
		return err
	}
	text, err := json.Marshal(may)
	if err != nil {
		return err
	}
	for _, session := range line {
		if _, err := tx.Exec(`INSERT INTO call_labels (call, session, labels) VALUES (?,?,?)`, string(c.ID), string(session),
			string(text)); err != nil {
			return err
		}
	}
	return nil
}

// mark adds labels to a session, with a line when one of them is new.
func (l *Ledger) mark(tx *store.Tx, session palyra.SessionID, call palyra.CallID, did []string) error {
	var text string
	if err := tx.Get(`SELECT labels FROM sessions WHERE id=?`, []any{string(session)}, &text); err != nil {
		return err
	}
	var had []string
	if err := json.Unmarshal([]byte(text), &had); err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(did), func(l string) bool { return slices.Contains(had, l) })
	if len(fresh) == 0 {
		return nil
	}
	next, err := json.Marshal(palyra.JoinLabels(had, fresh))
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE sessions SET labels=? WHERE id=?`, string(next), string(session)); err != nil {
		return err
	}
	tx.Changed(sessionLabels)
	_, err = l.journal.Append(tx, palyra.SessionLabeled{Session: session, Call: call, Labels: fresh})
	return err
}
