package approval

import (
	"context"
	"math"
	"time"

	"palyra"
	"palyra/internal/store"
)

// Page sizes.
const (
	MaxLimit     = 500 // most items of a page
	defaultLimit = 100
	// pageBytes ends a page early when its plans and prompts are large; the cursor goes on from there.
	pageBytes = 8 << 20
	maxText   = 4096 // of a filter
)

// Get returns an approval with its plan, prompt and votes.
func (d *Desk) Get(ctx context.Context, id palyra.ApprovalID) (a palyra.Approval, err error) {
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		r, _, err := withDocuments(tx, id)
		a = r.Approval
		return err
	})
	return a, wrap("get", err)
}

// List returns a page of approvals and the cursor of the next one, empty at the end. A page may hold fewer than
// Limit when its documents are large. Invalid: the filter or the cursor makes no sense.
func (d *Desk) List(ctx context.Context, f palyra.ApprovalFilter) (palyra.ApprovalPage, error) {
	q, err := approvalQuery(f)
	if err != nil {
		return palyra.ApprovalPage{}, err
	}
	var page palyra.ApprovalPage
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		list, err := keysOf[palyra.ApprovalID](tx, q)
		if err != nil {
			return err
		}
		size := 0
		for i, k := range list {
			if i == q.limit || size > pageBytes {
				last := page.Approvals[i-1]
				page.Next = cursor{at: nanos(last.RequestedAt), id: string(last.ID), tag: q.tag}.String()
				return nil
			}
			r, n, err := withDocuments(tx, k)
			if err != nil {
				return err
			}
			page.Approvals, size = append(page.Approvals, r.Approval), size+n
		}
		return nil
	})
	if err != nil {
		return palyra.ApprovalPage{}, wrap("list", err)
	}
	return page, nil
}

// query is a list as SQL. There are few distinct texts, whatever the filter: the most selective column leads and is
// served by an index, the others are compared only when set.
type query struct {
	text  string
	args  []any
	limit int
	tag   string
}

// keysOf returns up to one id more than the limit.
func keysOf[I ~string](tx *store.Tx, q query) ([]I, error) { return ids[I](tx, q.text, q.args...) }

func approvalQuery(f palyra.ApprovalFilter) (query, error) {
	if err := checkFilter(f); err != nil {
		return query{}, err
	}
	tagged := struct {
		palyra.ApprovalFilter
		Session palyra.SessionID `json:"session,omitempty"`
	}{f, f.Session}
	tagged.Cursor, tagged.Limit, tagged.Since, tagged.Until = "", 0, f.Since.UTC(), f.Until.UTC()
	tag, err := tagOf("approvals", tagged)
	if err != nil {
		return query{}, err
	}
	limit, err := limitOf(f.Limit)
	if err != nil {
		return query{}, err
	}
	span := spanOf(f.Since, f.Until)
	if f.Cursor != "" {
		c, err := parseCursor(f.Cursor, tag)
		if err != nil {
			return query{}, err
		}
		span.startAfter(c, f.OldestFirst)
	}
	w := listFilter{}
	w.state(f)
	w.columns([]column{
		{"subject_id", f.SubjectID},
		{"session_id", string(f.Session)},
		{"principal", string(f.Principal)},
		{"subject_type", string(f.SubjectType)},
	})
	return w.query("approvals", "requested_at", span, f.OldestFirst, limit, tag), nil
}

func checkFilter(f palyra.ApprovalFilter) error {
	switch {
	case len(f.SubjectID) > maxText || len(f.SubjectType) > maxText || len(f.Principal) > maxText || len(f.Session) > maxText:
		return invalid(palyra.ReasonInputTooLarge, "the filter is too long")
	case f.Pending && f.Answer != palyra.AnswerPending:
		return invalid(palyra.ReasonMalformedInput, "a pending approval has no answer")
	case !spannable(f.Since) || !spannable(f.Until):
		return invalid(palyra.ReasonMalformedInput, "the time is out of range")
	}
	switch f.Answer {
	case palyra.AnswerPending, palyra.AnswerAllow, palyra.AnswerDeny, palyra.AnswerTimeout, palyra.AnswerError:
		return nil
	}
	return invalid(palyra.ReasonMalformedInput, "the answer must be allow, deny, timeout or error")
}

func limitOf(n int64) (int, error) {
	switch {
	case n < 0 || n > MaxLimit:
		return 0, invalid(palyra.ReasonMalformedInput, "the limit must be from 1 to %d", MaxLimit)
	case n == 0:
		return defaultLimit, nil
	}
	return int(n), nil
}

// spannable reports whether t fits in nanoseconds since 1970.
func spannable(t time.Time) bool {
	return t.IsZero() || t.Year() >= 1970 && t.Year() < 2262
}

// span is the range of (time, id) keys of a page, both ends excluded.
type span struct {
	low, high     int64
	lowID, highID string
}

func spanOf(since, until time.Time) span {
	s := span{low: math.MinInt64, high: math.MaxInt64}
	if !since.IsZero() {
		s.low = since.UnixNano() // every id is after the empty one: since itself is in
	}
	if !until.IsZero() {
		s.high = until.UnixNano()
	}
	return s
}

// startAfter narrows the span to the items after a cursor. A forged cursor cannot widen it.
func (s *span) startAfter(c cursor, oldest bool) {
	switch {
	case oldest && (c.at > s.low || c.at == s.low && c.id > s.lowID):
		s.low, s.lowID = c.at, c.id
	case !oldest && (c.at < s.high || c.at == s.high && c.id < s.highID):
		s.high, s.highID = c.at, c.id
	}
}
