package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/store"
)

// record is an approval as its short row has it: everything but the documents and the votes.
type record struct {
	palyra.Approval
	seq  int64
	ends deadline
}

const recordColumns = `id, seq, session_id, run_id, call_id, principal, owner, peer_uid, door, requested_at, expires_at, boot_id,
	expires_boot, subject_type, subject_id, plan_digest, need, bundle, snapshot, policies, waiting, decision, scope, lease_id,
	reason, decided_by, decided_method, decided_at, separation, room, payer, within`

var recordMarks = strings.TrimSuffix(strings.Repeat("?, ", strings.Count(recordColumns, ",")+1), ", ")

func scanRecord(scan func(...any) error) (record, error) {
	var (
		r                             record
		need, policies, within        string
		requested, expires, decidedAt int64
	)
	a, d := &r.Approval, &r.Decision
	err := scan(&a.ID, &r.seq, &a.Session, &a.Run, &a.Call, &a.Principal, &a.Owner, &a.PeerUID, &a.Surface, &requested, &expires,
		&r.ends.boot, &r.ends.since, &a.SubjectType, &a.SubjectID, &a.PlanDigest, &need, &a.Bundle, &a.Snapshot, &policies,
		&a.Waiting, &d.Answer, &d.Scope, &d.Lease, &d.Reason, &d.By, &d.Method, &decidedAt, &d.Separation, &a.Room, &a.Payer, &within)
	if err != nil {
		return record{}, err
	}
	if err := errors.Join(decode(need, &a.Need), decode(policies, &a.Policies), decode(within, &a.Within)); err != nil {
		return record{}, fmt.Errorf("approval: row %s: %w", a.ID, err)
	}
	r.ends.wall = expires
	a.RequestedAt, a.ExpiresAt, d.At = timeOf(requested), timeOf(expires), timeOf(decidedAt)
	if d.Answer != palyra.AnswerPending {
		d.Approval, d.Digest = a.ID, a.PlanDigest
	}
	return r, nil
}

// getRecord reads the short row.
func getRecord(tx *store.Tx, id palyra.ApprovalID) (record, error) {
	r, err := scanRecord(func(dest ...any) error {
		return tx.Get(`SELECT `+recordColumns+` FROM approvals WHERE id = ?`, []any{id}, dest...)
	})
	if errors.Is(err, store.ErrNoRows) {
		return record{}, noApproval(id)
	}
	return r, err
}

// withVotes reads the short row, the votes and the terms of the lease: all that a decision is.
func withVotes(tx *store.Tx, id palyra.ApprovalID) (record, error) {
	r, err := getRecord(tx, id)
	if err != nil {
		return record{}, err
	}
	if r.Votes, err = getVotes(tx, id); err != nil {
		return record{}, err
	}
	if r.Pending() {
		return r, nil
	}
	r.Decision.Votes = r.Votes
	if r.Decision.Lease != "" {
		l, err := getLease(tx, r.Decision.Lease)
		if err != nil {
			return record{}, err
		}
		r.Decision.Terms = &l.Terms
	}
	return r, nil
}

// withDocuments reads everything.
func withDocuments(tx *store.Tx, id palyra.ApprovalID) (record, int, error) {
	r, err := withVotes(tx, id)
	if err != nil {
		return record{}, 0, err
	}
	var plan, prompt, left string
	err = tx.Get(`SELECT plan, prompt, left_out FROM approval_documents WHERE approval_id = ?`, []any{id}, &plan, &prompt, &left)
	if err != nil {
		return record{}, 0, fmt.Errorf("approval: documents of %s: %w", id, err)
	}
	if err := errors.Join(decode(plan, &r.Plan), decode(prompt, &r.Prompt)); err != nil {
		return record{}, 0, fmt.Errorf("approval: documents of %s: %w", id, err)
	}
	if left != "" {
		if err := decode(left, &r.LeftOut); err != nil {
			return record{}, 0, fmt.Errorf("approval: documents of %s: %w", id, err)
		}
	}
	return r, len(plan) + len(prompt), nil
}

func getVotes(tx *store.Tx, id palyra.ApprovalID) ([]palyra.Vote, error) {
	var votes []palyra.Vote
	err := tx.Each(`SELECT body FROM approval_votes WHERE approval_id = ? ORDER BY voted_at, id`, []any{id},
		func(scan func(...any) error) error {
			var body string
			if err := scan(&body); err != nil {
				return err
			}
			var v palyra.Vote
			if err := decode(body, &v); err != nil {
				return fmt.Errorf("approval: vote on %s: %w", id, err)
			}
			votes = append(votes, v)
			return nil
		})
	return votes, err
}

func putVote(tx *store.Tx, v palyra.Vote) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO approval_votes (id, approval_id, voter, voted_at, body) VALUES (?, ?, ?, ?, ?)`,
		v.ID, v.Approval, v.By, nanos(v.At), body)
	return err
}

// putRecord inserts a new, pending question and its documents, and says how large those are.
func putRecord(tx *store.Tx, a palyra.Approval, ends deadline) (int64, error) {
	need, err1 := encode(a.Need)
	policies, err2 := encode(a.Policies)
	plan, err3 := encode(a.Plan)
	prompt, err4 := encode(a.Prompt)
	within, err5 := encode(a.Within)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return 0, err
	}
	var seq int64
	if err := tx.Get(`SELECT COALESCE(MAX(seq), 0) + 1 FROM approvals`, nil, &seq); err != nil {
		return 0, err
	}
	_, err := tx.Exec(`INSERT INTO approvals (`+recordColumns+`) VALUES (`+recordMarks+`)`,
		a.ID, seq, a.Session, a.Run, a.Call, a.Principal, a.Owner, a.PeerUID, a.Surface, nanos(a.RequestedAt), ends.wall, ends.boot,
		ends.since, a.SubjectType, a.SubjectID, a.PlanDigest, need, a.Bundle, a.Snapshot, policies, a.Waiting,
		"", "", "", "", "", "", 0, "", a.Room, a.Payer, within)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(`INSERT INTO approval_documents (approval_id, plan, prompt) VALUES (?, ?, ?)`, a.ID, plan, prompt)
	return int64(len(plan) + len(prompt)), err
}

func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("approval: encode: %w", err)
	}
	return string(b), nil
}

// decode keeps numbers as text: a signed field must come back as it was signed.
func decode(s string, v any) error {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	return dec.Decode(v)
}

func noApproval(id palyra.ApprovalID) error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no approval %q", palyra.Clip(string(id), 64)).
		WithRemedy("list the open ones with 'palyra approvals list --pending'")
}
