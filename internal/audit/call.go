package audit

import (
	"time"

	"palyra"
	"palyra/internal/pack"
	"palyra/internal/store"
)

// callRecord is what the journal says of one call.
type callRecord struct {
	palyra.CallProposed
	seq      int64
	state    palyra.State
	plan     palyra.Digest
	approval palyra.ApprovalID
	granted  time.Time
	wall     time.Duration // that it may run; 0: its line does not say
	finished *palyra.CallFinished
	refused  *palyra.CallRefused
	kept     palyra.Kept
	body     palyra.Digest // of the outcome; empty: its line does not say
}

// keep takes in the digests of the call's documents from a line.
func (c *callRecord) keep(k palyra.Kept) {
	if k.Document != "" {
		c.kept.Document = k.Document
	}
	c.kept.Outcome = k.Outcome
}

// end takes in the last line.
func (c *callRecord) end(s palyra.State, k palyra.Kept, body palyra.Digest) {
	c.state, c.body = s, body
	c.keep(k)
}

// wait takes in a question. One about what the call changed leaves it settling.
func (c *callRecord) wait(question palyra.ApprovalID) {
	if c.state != palyra.Settling {
		c.state, c.approval = palyra.Pending, question
	}
}

// hearCall takes in a line of a call, or of a question about one.
func (a *Audit) hearCall(seq int64, at time.Time, e palyra.Event) *palyra.Finding {
	switch e := e.(type) {
	case *palyra.CallProposed:
		a.calls[e.Call] = &callRecord{CallProposed: *e, seq: seq, state: palyra.Proposed}
		if s := a.sessions[e.Session]; s != nil {
			s.calls++
		}
		return nil
	case *palyra.CallJudged:
		return a.updateCall(seq, e.Call, func(c *callRecord) {
			c.plan, c.state = e.Plan, keepPending(c.state, palyra.Judged)
			c.keep(e.Kept)
		})
	case *palyra.CallGranted:
		a.use(e.Lease)
		if c := a.calls[e.Call]; c != nil && c.state == palyra.Observed {
			return finding(seq, "call %s was only observed, and is said to have been granted", e.Call)
		}
		return a.updateCall(seq, e.Call, func(c *callRecord) {
			c.state, c.granted, c.wall = palyra.Granted, at, time.Duration(e.WallMS)*time.Millisecond
			c.keep(e.Kept)
		})
	case *palyra.CallSettling:
		a.use(e.Lease)
		return a.updateCall(seq, e.Call, func(c *callRecord) {
			c.state = palyra.Settling
			c.keep(e.Kept)
		})
	case *palyra.CallChecked:
		a.use(e.Lease)
		return a.updateCall(seq, e.Call, func(c *callRecord) { c.end(palyra.Checked, e.Kept, e.Body) })
	case *palyra.CallObserved:
		a.observedAt(seq, at)
		return a.updateCall(seq, e.Call, func(c *callRecord) { c.end(palyra.Observed, e.Kept, e.Body) })
	case *palyra.CallFinished:
		return a.updateCall(seq, e.Call, func(c *callRecord) {
			c.end(palyra.Finished, e.Kept, e.Body)
			c.finished = e
		})
	case *palyra.CallRefused:
		return a.updateCall(seq, e.Call, func(c *callRecord) {
			c.end(palyra.Refused, e.Kept, e.Body)
			c.refused = e
		})
	case *palyra.CallCancelled:
		return a.updateCall(seq, e.Call, func(c *callRecord) { c.end(palyra.Cancelled, e.Kept, e.Body) })
	case *palyra.CallUnknown:
		return a.updateCall(seq, e.Call, func(c *callRecord) { c.end(palyra.Unknown, e.Kept, e.Body) })
	}
	return a.hearQuestion(seq, e)
}

// keepPending keeps a question open while its call is judged again.
func keepPending(was, is palyra.State) palyra.State {
	if was == palyra.Pending {
		return was
	}
	return is
}

// updateCall applies a line to the record of its call. A line of a call that was never proposed, or that has
// ended, is a finding.
func (a *Audit) updateCall(seq int64, id palyra.CallID, change func(*callRecord)) *palyra.Finding {
	c := a.calls[id]
	if c == nil || c.state.Ended() {
		return finding(seq, "it is about a call that was never proposed, or has ended")
	}
	change(c)
	return nil
}

func (a *Audit) holdCalls(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for id, c := range a.calls {
		want["text:"+str(id)] = row{seq: c.seq, values: []any{
			str(c.Session), str(c.Run), c.Key, str(c.Principal), c.Tool, str(c.state), str(c.approval), str(c.Input), str(c.Origin),
		}}
	}
	columns := []string{"session", "run", "coalesce(client_key,'')", "principal", "tool", "state", "approval", "input", "origin"}
	f, err := table{"calls", "id", columns}.hold(tx, want)
	if f != nil || err != nil {
		return f, err
	}
	shelf := pack.NewShelf("call_bases")
	err = tx.Each(`SELECT id, doc, outcome FROM calls`, nil, func(scan func(...any) error) error {
		var id palyra.CallID
		var doc, outcome []byte
		if err := scan(&id, &doc, &outcome); err != nil {
			return err
		}
		c := a.calls[id]
		d, err1 := shelf.Text(tx, doc)
		o, err2 := shelf.Text(tx, outcome)
		if err1 != nil || err2 != nil {
			f = finding(c.seq, "the document or outcome of call %s cannot be read", id)
			return errFound
		}
		less, found := c.check(d, o)
		if f = found; f != nil {
			return errFound
		}
		if less {
			a.less++
		}
		return nil
	})
	return f, scanError(f, err)
}

// holdAttestations checks each envelope against the digest in its call's last line.
func (a *Audit) holdAttestations(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for id, c := range a.calls {
		if c.finished != nil {
			want["text:"+str(id)] = row{seq: c.seq, values: []any{str(c.finished.AttestedAs), str(c.finished.Attestation)}}
		}
	}
	f, err := table{"attestations", "call_id", []string{"attestation_id", "digest"}}.hold(tx, want)
	if f != nil || err != nil {
		return f, err
	}
	shelf := pack.NewShelf("attestation_bases")
	err = tx.Each(`SELECT call_id, digest, envelope FROM attestations`, nil, func(scan func(...any) error) error {
		var id palyra.CallID
		var digest palyra.Digest
		var envelope []byte
		if err := scan(&id, &digest, &envelope); err != nil {
			return err
		}
		if text, err := shelf.Text(tx, envelope); err != nil || palyra.SumBytes(text) != digest {
			f = finding(a.calls[id].seq, "the attestation of call %s is not the one that was signed", id)
			return errFound
		}
		return nil
	})
	return f, scanError(f, err)
}

// grace is how long a run may take to end after its time: its clock stands still for half an hour of
// questions at most, then it is ended and its end is recorded.
const grace = 45 * time.Minute

// overdue finds calls that were granted and have no end, though they cannot be running any more.
func (a *Audit) overdue(*store.Tx) (f *palyra.Finding, err error) {
	for _, c := range a.calls {
		if c.state == palyra.Granted && c.wall > 0 && a.now.After(c.granted.Add(c.wall+grace)) && (f == nil || c.seq < f.Seq) {
			f = finding(c.seq, "call %s was granted at %s for %v and has no end", c.Call, palyra.Time(c.granted), c.wall)
		}
	}
	return f, nil
}
