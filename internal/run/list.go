package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"palyra"
	"palyra/internal/store"
)

const (
	maxList  = 500
	maxPage  = 4 << 20 // bytes of rows read for one page
	maxShown = 4 << 10 // of a field of a listed call; Get has the whole
)

// maxLooked bounds the rows that are looked at for one page, reached or not.
const maxLooked = 10_000

// List returns calls, newest first, without what is large: arguments, diffs and outputs over a small bound are left
// out. A page ends early when its rows are large or few of them are reached; next is where the one after begins,
// empty when there are no more.
func (l *Ledger) List(ctx context.Context, f palyra.CallFilter) (page []*palyra.Call, next palyra.CallID, err error) {
	if f.Limit <= 0 || f.Limit > maxList {
		f.Limit = maxList
	}
	f.Cursor = cmp.Or(f.Cursor, "~") // sorts after every id
	q, args := queryOf(f)
	looked, size := 0, 0
	last, more := palyra.CallID(""), false
	err = l.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(q, args, func(scan func(...any) error) error {
			if len(page) == int(f.Limit) || size > maxPage || looked == maxLooked {
				more = true
				return errPageFull
			}
			c, n, err := l.scanSized(tx, scan, nil)
			if err != nil {
				return err
			}
			if looked, last = looked+1, c.ID; f.Reach.May(palyra.ActSee, c.Reached()) {
				size += n
				page = append(page, slim(c))
			}
			return nil
		})
	})
	if errors.Is(err, errPageFull) {
		err = nil
	}
	if more {
		next = last
	}
	return page, next, err
}

// queryOf finds the calls that a filter may pick. It leaves out most of what the rule
// of reach would; the rule itself has the last word about each.
func queryOf(f palyra.CallFilter) (string, []any) {
	q := `SELECT ` + callColumns +
		` FROM calls WHERE id < ? AND (?='' OR principal=?) AND (?='' OR session IN (SELECT id FROM sessions WHERE id=? OR name=?)) AND (?='' OR run=?) AND (?='' OR state=?)`
	p, s, r, st := string(f.Principal), string(f.Session), string(f.Run), string(f.State)
	args := []any{f.Cursor, p, p, s, s, s, r, r, st, st}
	switch {
	case f.Reach.Person:
	case f.Reach.Room != "":
		q += ` AND id IN (WITH RECURSIVE below(id) AS (
			SELECT id FROM calls WHERE parent=? AND parent<>'' UNION SELECT c.id FROM calls c JOIN below b ON c.parent=b.id AND c.parent<>'') SELECT id FROM below)`
		args = append(args, string(f.Reach.Room))
	default:
		q += ` AND (origin=? OR origin='' AND principal=?)`
		args = append(args, string(f.Reach.Principal), string(f.Reach.Principal))
	}
	return q + ` ORDER BY id DESC`, args
}

var errPageFull = errors.New("run: the page is full")

// slim takes out of a call what is too large to list.
func slim(c *palyra.Call) *palyra.Call {
	cut := func(raw json.RawMessage) json.RawMessage {
		if len(raw) > maxShown {
			return json.RawMessage("null")
		}
		return raw
	}
	c.Proposal.Arguments, c.Plan.Arguments = cut(c.Proposal.Arguments), cut(c.Plan.Arguments)
	c.Detail.Diff = palyra.Clip(c.Detail.Diff, maxShown)
	c.Plan.Detail = c.Detail
	if o := c.Outcome; o != nil {
		o.Output, o.Attestation = cut(o.Output), nil
		o.Stdout, o.Stderr = palyra.Clip(o.Stdout, maxShown), palyra.Clip(o.Stderr, maxShown)
		o.StdoutB64, o.StderrB64 = "", ""
	}
	return c
}
