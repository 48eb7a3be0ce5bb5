package approval

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"palyra"
	"palyra/internal/store"
)

// What is looked at to rank the answers that a question offers: so many questions of the same caller, as far as people
// allowed them and they are not large. An answer counts for as long as a person gives it by default.
const (
	mostAsked   = 128
	mostReplied = 64
	mostBytes   = 64 << 10 // of the plan and the prompt of one
	answerHolds = 8 * time.Hour
)

// lately reads the last questions of a caller that people allowed, the oldest first. It reads a bounded number of rows by
// the caller's index, whatever is on record.
func lately(tx *store.Tx, who palyra.Principal) ([]record, error) {
	var list []record
	err := tx.Each(`SELECT `+recordColumns+`, d.plan, d.prompt FROM
		(SELECT * FROM approvals WHERE principal = ? ORDER BY requested_at DESC, id DESC LIMIT ?) AS a
		JOIN approval_documents AS d ON d.approval_id = a.id
		WHERE a.decision = ? AND LENGTH(d.plan) + LENGTH(d.prompt) <= ? ORDER BY a.requested_at DESC, a.id DESC LIMIT ?`,
		[]any{who, mostAsked, palyra.AnswerAllow, mostBytes, mostReplied},
		func(scan func(...any) error) error {
			var plan, prompt string
			r, err := scanRecord(func(dest ...any) error { return scan(append(dest, &plan, &prompt)...) })
			if err == nil {
				err = errors.Join(decode(plan, &r.Plan), decode(prompt, &r.Prompt))
			}
			list = append(list, r)
			return err
		})
	slices.Reverse(list)
	return list, err
}

// rank says of each answer that a question offers how many of the last questions it would have saved, and puts those first
// that save most. The narrowest answer stays the first: nobody picks a wider one by not choosing.
func (d *Desk) rank(a *palyra.Approval, past []record) {
	options := a.Prompt.Options
	for i := range options {
		options[i].Saves = d.saves(*a, options[i].Name, past)
	}
	if len(options) > 1 {
		slices.SortStableFunc(options[1:], func(x, y palyra.Widening) int { return cmp.Compare(y.Saves, x.Saves) })
	}
}

// saves replays the last questions as if this answer had been given to the first of those that it covers, and again
// whenever it had run out: how many of them nobody would have been asked.
func (d *Desk) saves(a palyra.Approval, widen string, past []record) (saved int64) {
	terms, ok := d.termsFor(a, extent{scope: palyra.ScopeTimeboxed, widen: widen})
	if !ok {
		return 0
	}
	given := map[palyra.SessionID]time.Time{}
	for _, r := range past {
		t := terms
		if t.Session != "" {
			t.Session = r.Session
		}
		if !d.coversQuestion(leaseRow{Lease: palyra.Lease{Terms: t}, risk: a.Prompt.Risk.Level}, r) {
			continue
		}
		if at, ok := given[t.Session]; ok && r.RequestedAt.Before(at.Add(answerHolds)) {
			saved++
			continue
		}
		given[t.Session] = r.RequestedAt
	}
	return saved
}
