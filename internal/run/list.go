package run

import (
	"context"
	"encoding/json"
	"errors"

	"palyra"
	"palyra/internal/store"
)

// Filter picks calls to list, newest first. Before pages on.
type Filter struct {
	Principal palyra.Principal
	Session   palyra.ID
	Run       palyra.ID
	State     palyra.State
	Before    palyra.ID
	Limit     int
}

const (
	maxList  = 500
	maxPage  = 4 << 20 // bytes of rows read for one page
	maxShown = 4 << 10 // of a field of a listed call; Get has the whole
)

// List returns calls, newest first, without what is large: arguments, diffs and
// outputs over a small bound are left out. A page ends early when its rows are
// large; more says that there are further ones.
func (l *Ledger) List(ctx context.Context, f Filter) (page []*palyra.Call, more bool, err error) {
	if f.Limit <= 0 || f.Limit > maxList {
		f.Limit = maxList
	}
	if f.Before == "" {
		f.Before = "~" // sorts after every id
	}
	q := `SELECT ` + callColumns + ` FROM calls WHERE id < ? AND (?='' OR principal=?) AND (?='' OR session=?) AND (?='' OR run=?) AND (?='' OR state=?)
		ORDER BY id DESC LIMIT ?`
	p, s, r, st := string(f.Principal), string(f.Session), string(f.Run), string(f.State)
	size := 0
	err = l.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(q, []any{string(f.Before), p, p, s, s, r, r, st, st, f.Limit + 1}, func(scan func(...any) error) error {
			if len(page) == f.Limit || size > maxPage {
				more = true
				return errPageFull
			}
			c, n, err := scanSized(scan)
			if err != nil {
				return err
			}
			size += n
			page = append(page, slim(c))
			return nil
		})
	})
	if errors.Is(err, errPageFull) {
		err = nil
	}
	return page, more, err
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
