package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/pack"
	"palyra/internal/store"
)

// large is the size over which the arguments of an ended call are not kept.
const large = 64 << 10

// document is the part of a call's own record that is read.
type document struct {
	ID       palyra.CallID   `json:"call_id"`
	Proposal palyra.Proposal `json:"proposal"`
	Tool     palyra.Tool     `json:"tool"`
	Plan     palyra.Plan     `json:"plan"`
	Digest   palyra.Digest   `json:"plan_digest"`
}

// check compares a call's document and outcome with its lines. Lines of older versions have no digests of
// them; then only what else follows from the lines is checked, and less is true.
func (c *callRecord) check(doc, outcome []byte) (less bool, _ *palyra.Finding) {
	if f := c.checkDocument(doc); f != nil {
		return false, f
	}
	return c.kept.Document == "" || c.state.Ended() && c.body == "", c.checkOutcome(outcome)
}

func (c *callRecord) checkDocument(text []byte) *palyra.Finding {
	var d document
	if err := json.Unmarshal(text, &d); err != nil || d.ID != c.Call {
		return finding(c.seq, "the document of call %s cannot be read, or is another's", c.Call)
	}
	if d.Proposal.Principal != c.Principal || d.Proposal.Session != c.Session || d.Digest != c.plan {
		return finding(c.seq, "the document of call %s is not what the journal says", c.Call)
	}
	switch {
	case c.kept.Document == "":
		return c.checkOlder(d)
	case palyra.SumBytes(text) != c.kept.Document:
		return finding(c.seq, "the document of call %s is not the one that was kept", c.Call)
	case !isNull(d.Plan.Arguments) && !d.Plan.Masked && !c.planned(d.Plan): // a masked one is held by the digest above
		return finding(c.seq, "the plan of call %s is not the one that was judged", c.Call)
	}
	return nil
}

// checkOlder checks a document whose lines do not have its digest: its arguments are those of the plan that
// was judged, or have the size and digest that were proposed, and are left out only where they were large.
func (c *callRecord) checkOlder(d document) *palyra.Finding {
	out := isNull(d.Plan.Arguments) && c.state.Ended() && c.InputBytes > large
	if !out && !c.planned(d.Plan) {
		return finding(c.seq, "the plan of call %s is not the one that was judged", c.Call)
	}
	args := d.Proposal.Arguments
	switch {
	case isNull(args) && (out || d.Tool.Name == "" || c.Input == palyra.SumBytes(args)): // one that was not admitted keeps none
		return nil
	case !isNull(args) && !out && (c.plan == "" || sameJSON(args, d.Plan.Arguments)):
		return nil
	}
	return finding(c.seq, "the arguments of call %s are not those that were proposed", c.Call)
}

// planned reports whether a plan is the one that was judged, if one was.
func (c *callRecord) planned(p palyra.Plan) bool {
	digest, err := p.Digest()
	return c.plan == "" || err == nil && digest == c.plan
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// sameJSON compares values: a plan has its arguments in one form, a proposal as sent.
func sameJSON(a, b json.RawMessage) bool {
	x, err1 := canon.FromJSON(a)
	y, err2 := canon.FromJSON(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// words are the outcomes that a state may end in.
var words = map[palyra.State]palyra.OutcomeKind{
	palyra.Refused: palyra.OutcomeRefused, palyra.Cancelled: palyra.OutcomeCancelled, palyra.Unknown: palyra.OutcomeUnknown,
	palyra.Checked: palyra.OutcomeAllowed, palyra.Observed: palyra.OutcomeObserved,
}

func (c *callRecord) checkOutcome(text []byte) *palyra.Finding {
	if !c.state.Ended() {
		if len(text) > 0 {
			return finding(c.seq, "call %s has an outcome and no end", c.Call)
		}
		return nil
	}
	body, rest := splitOutcome(text)
	var o palyra.Outcome
	if err := json.Unmarshal(append(slices.Clip(body), '}'), &o); err != nil || o.CallID != c.Call {
		return finding(c.seq, "the outcome of call %s cannot be read, or is another's", c.Call)
	}
	word, exit := words[c.state], o.ExitCode
	if c.finished != nil {
		word, exit = c.finished.Outcome, c.finished.ExitCode
	}
	if o.Outcome != word || o.ExitCode != exit {
		return finding(c.seq, "call %s is %s, and its outcome says %.40q", c.Call, c.state, o.Outcome)
	}
	if c.refused != nil && (o.Layer != c.refused.Layer || o.ReasonCode != c.refused.Reason) {
		return finding(c.seq, "the outcome of call %s names another refusal than the journal", c.Call)
	}
	held := c.body
	if c.kept.Outcome != "" { // less is kept of the outcome than was delivered
		held = c.kept.Outcome
	}
	if held != "" && palyra.SumBytes(body) != held {
		return finding(c.seq, "the outcome of call %s is not the one that its line has the digest of", c.Call)
	}
	if string(rest) != "null" && (c.finished == nil || palyra.SumBytes(rest) != c.finished.Attestation) {
		return finding(c.seq, "the outcome of call %s has another attestation than the journal says", c.Call)
	}
	return nil
}

// splitOutcome is an outcome's body, and its attestation; null where it is kept without.
func splitOutcome(text []byte) (body, attestation []byte) {
	body, ok := bodyOf(text)
	if !ok || len(text) == 0 || text[len(text)-1] != '}' { // a body has no brace at its end
		return text, []byte("null")
	}
	return body, text[len(body)+len(palyra.AttestationKey) : len(text)-1]
}

// One holds the record of a single call against its lines.
type One struct {
	*Audit
	id palyra.CallID
}

// Of begins an audit of one call: it is told that call's lines.
func Of(id palyra.CallID) One { return One{New(time.Time{}), id} }

// Settle looks at the call's row, when every line was heard.
func (o One) Settle(tx *store.Tx) (f *palyra.Finding, err error) {
	shelf := pack.NewShelf("call_bases")
	err = tx.Each(`SELECT state, input, doc, outcome FROM calls WHERE id=?`, []any{str(o.id)}, func(scan func(...any) error) error {
		var state palyra.State
		var input palyra.Digest
		var doc, outcome []byte
		if err := scan(&state, &input, &doc, &outcome); err != nil {
			return err
		}
		c := o.calls[o.id]
		d, err1 := shelf.Text(tx, doc)
		out, err2 := shelf.Text(tx, outcome)
		switch {
		case c == nil || c.state != state:
			f = finding(0, "the journal does not say that call %s is %.40q", o.id, state)
		case input != c.Input:
			f = finding(c.seq, "the digest of the arguments of call %s is not the one that was proposed", o.id)
		case err1 != nil || err2 != nil:
			f = finding(c.seq, "the document or outcome of call %s cannot be read", o.id)
		default:
			_, f = c.check(d, out)
		}
		return nil
	})
	return f, err
}

// bodyOf returns the part of an outcome's text that is its body.
func bodyOf(text []byte) ([]byte, bool) {
	i := bytes.LastIndex(text, []byte(palyra.AttestationKey))
	if i < 0 {
		return nil, false
	}
	return text[:i], true
}
