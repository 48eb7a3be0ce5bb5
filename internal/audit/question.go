package audit

import (
	"cmp"
	"encoding/json"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/store"
)

// question is what the journal says of one approval.
type question struct {
	palyra.ApprovalRequested
	seq     int64
	decided *palyra.ApprovalDecided
}

// leaseRecord is what the journal says of one lease.
type leaseRecord struct {
	palyra.GrantCreated
	seq   int64
	used  int64
	ended *palyra.GrantEnded
}

// hearQuestion takes in a line of a question or a lease.
func (a *Audit) hearQuestion(seq int64, e palyra.Event) *palyra.Finding {
	switch e := e.(type) {
	case *palyra.ApprovalRequested:
		a.asked[e.Approval] = &question{ApprovalRequested: *e, seq: seq}
		return a.updateCall(seq, e.Call, func(c *callRecord) { c.wait(e.Approval) })
	case *palyra.ApprovalJoined:
		return a.updateCall(seq, e.Call, func(c *callRecord) { c.wait(e.Approval) })
	case *palyra.ApprovalVoted:
		a.votes[e.Vote.ID] = e.Vote
	case *palyra.ApprovalDecided:
		q := a.asked[e.Approval]
		if q == nil || q.decided != nil {
			return finding(seq, "it settles a question that was never asked, or was settled")
		}
		q.decided = e
		for _, v := range e.Votes {
			a.votes[v.ID] = v
		}
	case *palyra.GrantCreated:
		a.leases[e.Lease] = &leaseRecord{GrantCreated: *e, seq: seq}
	case *palyra.GrantEnded:
		if l := a.leases[e.Lease]; l != nil {
			l.ended = e
		}
	}
	return nil
}

// use takes a use of a lease.
func (a *Audit) use(id palyra.LeaseID) {
	if l := a.leases[id]; l != nil {
		l.used++
	}
}

// mayBeGone reports whether the rows of a question may be gone: a question that led to nothing is not kept
// for ever.
func (q *question) mayBeGone() bool {
	return q.decided != nil && q.decided.Answer != palyra.AnswerAllow
}

func (a *Audit) holdQuestions(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for id, q := range a.asked {
		need, err := json.Marshal(q.Need)
		if err != nil {
			return nil, err
		}
		d := palyra.ApprovalDecided{}
		if q.decided != nil {
			d = *q.decided
		}
		want["text:"+str(id)] = row{seq: q.seq, may: q.mayBeGone(), values: []any{
			str(q.Call), str(q.Principal), str(q.SubjectType), q.SubjectID, str(q.Plan), string(need), q.ExpiresAt.UnixNano(),
			str(d.Answer), str(d.Scope), str(d.Lease), d.Reason, str(d.By), str(d.Method), str(d.Separation),
		}}
	}
	return table{"approvals", "id", []string{
		"call_id", "principal", "subject_type", "subject_id", "plan_digest", "need", "expires_at",
		"decision", "scope", "lease_id", "reason", "decided_by", "decided_method", "separation",
	}}.hold(tx, want)
}

// holdDocuments checks the documents that approvers were shown against their digests. The large parts of a
// question that nobody allowed are left out; its last line has the digest of the rest, or none where an
// earlier version wrote it.
func (a *Audit) holdDocuments(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for id, q := range a.asked {
		want["text:"+str(id)] = row{seq: q.seq, may: q.mayBeGone()}
	}
	f, err := table{"approval_documents", "approval_id", nil}.hold(tx, want)
	if f != nil || err != nil {
		return f, err
	}
	err = tx.Each(`SELECT approval_id, plan, prompt, left_out FROM approval_documents`, nil, func(scan func(...any) error) error {
		var id palyra.ApprovalID
		var plan, prompt, left string
		if err := scan(&id, &plan, &prompt, &left); err != nil {
			return err
		}
		q := a.asked[id]
		if left != "" && !q.mayBeGone() {
			f = finding(q.seq, "something is left out of approval %s, which was allowed or is open", id)
			return errFound
		}
		if left != "" {
			if k := q.decided.Kept; k != "" && k != palyra.SumBytes([]byte(plan+"\x00"+prompt+"\x00"+left)) {
				f = finding(q.seq, "what is kept of approval %s is not what was left of it", id)
				return errFound
			}
			return nil
		}
		var p palyra.Plan
		var shown palyra.Prompt
		err1, err2 := json.Unmarshal([]byte(plan), &p), json.Unmarshal([]byte(prompt), &shown)
		planned, err3 := p.Digest()
		seen, err4 := shown.Digest()
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil || planned != cmp.Or(q.Shown, q.Plan) || seen != q.Prompt {
			f = finding(q.seq, "the documents of approval %s are not those that were shown", id)
			return errFound
		}
		return nil
	})
	return f, scanError(f, err)
}

func (a *Audit) holdVotes(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for id, v := range a.votes {
		q := a.asked[v.Approval]
		want["text:"+str(id)] = row{may: q == nil || q.mayBeGone(), values: []any{str(v.Approval), str(v.By), v.At.UnixNano()}}
	}
	f, err := table{"approval_votes", "id", []string{"approval_id", "voter", "voted_at"}}.hold(tx, want)
	if f != nil || err != nil {
		return f, err
	}
	err = tx.Each(`SELECT id, body FROM approval_votes`, nil, func(scan func(...any) error) error {
		var id palyra.ID
		var body string
		if err := scan(&id, &body); err != nil {
			return err
		}
		is, err1 := canon.FromJSON([]byte(body))
		must, err2 := canon.Marshal(a.votes[id])
		if err1 != nil || err2 != nil || string(is) != string(must) {
			f = finding(0, "vote %s is not the one that was given", id)
			return errFound
		}
		return nil
	})
	return f, scanError(f, err)
}

func (a *Audit) holdLeases(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for id, l := range a.leases {
		t := l.Terms
		terms, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		left, expires := l.Uses, int64(0)
		if left > 0 {
			left = max(0, left-l.used)
		}
		if !l.Expires.IsZero() {
			expires = l.Expires.UnixNano()
		}
		end := palyra.GrantEnded{}
		if l.ended != nil {
			end = *l.ended
		}
		want["text:"+str(id)] = row{seq: l.seq, values: []any{
			str(l.Approval), str(l.Scope), str(t.Principal), str(t.Session), t.Tool, str(t.PlanDigest), string(terms), expires, left, str(end.Why),
			str(end.By),
		}}
	}
	return table{"approval_leases", "id", []string{
		"approval_id", "scope", "principal", "session_id", "tool", "plan_digest", "terms", "expires_at", "uses_left", "ended", "ended_by",
	}}.hold(tx, want)
}
