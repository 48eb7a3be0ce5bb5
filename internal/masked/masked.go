// Package masked has calls, questions, results and refusals as they are shown and kept, with the names of secrets in the
// place of their values.
//
// What it returns is for looking at: a plan's digest and what runs are those of the call as it was proposed.
package masked

import (
	"bytes"
	"encoding/json"

	"palyra"
	"palyra/internal/mask"
)

// Note is what people are told of a question in which values are masked.
const Note = "MASKED: values of secrets that the vault knows stand in this call, and are shown by their names; it gets the values"

// Words masks Palyra's words.
type Words struct{ *mask.Masker }

// through has what v says masked, by its JSON. False: there was nothing to mask, and v is as it was.
func through[T any](m *mask.Masker, v *T) bool {
	if m.Empty() {
		return false
	}
	text, err := unescapedJSON(*v)
	if err != nil {
		return false
	}
	masked := m.JSON(text)
	if len(masked) == len(text) && &masked[0] == &text[0] {
		return false
	}
	var next T // shares no memory with what it was made of: that runs
	if json.Unmarshal(masked, &next) != nil {
		next = *new(T) // what cannot be shown in part is not shown
	}
	*v = next
	return true
}

// unescapedJSON is the JSON of v with "<", ">" and "&" as they are: what addresses of mail have in every commit would have each
// string of it read by itself.
func unescapedJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// Call is a call as it is shown and kept: where something in it is masked, its plan says so. It cannot be gone on with
// then, because nobody has its arguments any more.
func (w Words) Call(c palyra.Call) palyra.Call {
	was, detail := c, c.Plan.Detail
	if through(w.Masker, &c) {
		if c.ID == "" { // it could not be shown in part
			c.ID, c.State, c.Digest, c.Proposal.Proposer = was.ID, was.State, was.Digest, was.Proposal.Proposer
			c.Proposed, c.Finished = was.Proposed, was.Finished
			c.Proposal.Arguments, c.Plan.Arguments = json.RawMessage("null"), json.RawMessage("null")
		}
		c.Input, c.Stored, c.Proposal.Inside, c.Plan.Masked = was.Input, was.Stored, was.Proposal.Inside, true
	}
	if through(w.Masker, &detail) {
		c.Detail = detail
	}
	c.Plan.Detail = detail
	return c
}

// Approval is a question as people see it.
func (w Words) Approval(a palyra.Approval) palyra.Approval {
	detail := a.Plan.Detail
	through(w.Masker, &detail)
	a.Plan.Masked = through(w.Masker, &a.Plan)
	a.Plan.Detail = detail
	if through(w.Masker, &a.Prompt) || a.Plan.Masked {
		a.Prompt.Notes = append([]string{Note}, a.Prompt.Notes...)
	}
	a.SubjectID = w.String(a.SubjectID)
	return a
}

// Result is a result as it leaves. The list of what a run changed stays as it is kept.
func (w Words) Result(r palyra.Result) palyra.Result {
	if w.Empty() {
		return r
	}
	out, stdout, stderr, changes, listed := w.JSON(r.Output), w.Bytes(r.Stdout), w.Bytes(r.Stderr), r.Changes, r.Listed
	r.Output, r.Stdout, r.Stderr, r.Changes, r.Listed = nil, nil, nil, nil, nil
	through(w.Masker, &r)
	r.Output, r.Stdout, r.Stderr, r.Changes, r.Listed = out, stdout, stderr, changes, listed
	return r
}

// Refusal is a refusal as it is told.
func (w Words) Refusal(r palyra.Refusal) palyra.Refusal {
	through(w.Masker, &r)
	return r
}
