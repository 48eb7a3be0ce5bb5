package attest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/canon"
)

// subjectPrefix and the call's id name the subject of a statement.
const subjectPrefix = "palyra:call:"

// statement is an in-toto Statement v1. Its fields stand in this order.
type statement struct {
	Type          string           `json:"_type"`
	Subject       []subject        `json:"subject"`
	PredicateType string           `json:"predicateType"`
	Predicate     palyra.Predicate `json:"predicate"`
}

type subject struct {
	Name   string    `json:"name"`
	Digest digestSet `json:"digest"`
}

type digestSet struct {
	SHA256 string `json:"sha256"`
}

func statementOf(p palyra.Predicate) statement {
	return statement{
		Type: palyra.StatementType, PredicateType: palyra.PredicateType, Predicate: p,
		Subject: []subject{{
			Name:   subjectPrefix + string(p.CallID),
			Digest: digestSet{SHA256: strings.TrimPrefix(string(p.PlanDigest), "sha256:")},
		}},
	}
}

// encodeStatement returns the one text of a predicate's statement, and the predicate as a reader will see it. Text and
// value determine each other: the digest refuses what is no text, and what the daemon does not choose the form of, an
// answer with the fields that people signed, goes through JSON once before. So nothing is signed that a reader would refuse.
func encodeStatement(p palyra.Predicate) ([]byte, palyra.Predicate, error) {
	if p.AttestationID == "" || p.CallID == "" || !p.PlanDigest.Valid() || !p.OutcomeDigest.Valid() {
		return nil, p, errors.New("the predicate lacks an id or a digest")
	}
	execution, err := p.Execution()
	if err != nil {
		return nil, p, err
	}
	if p.ExecutionSHA256 != "" && p.ExecutionSHA256 != execution {
		return nil, p, errors.New("the predicate's execution_sha256 is not its own")
	}
	p.ExecutionSHA256 = execution
	if p.Decision != nil {
		if p.Decision, err = asRead(p.Decision); err != nil {
			return nil, p, err
		}
	}
	text, err := canon.JSON(statementOf(p))
	return text, p, err
}

// asRead returns a decision as a reader will see it. What would read otherwise the second time is refused.
func asRead(d *palyra.Decision) (*palyra.Decision, error) {
	first, err := canon.JSON(d)
	if err != nil {
		return nil, err
	}
	read, again := new(palyra.Decision), new(palyra.Decision)
	if err := canon.Strict(first, read); err != nil {
		return nil, err
	}
	text, err := canon.JSON(read)
	if err != nil {
		return nil, err
	}
	if err := canon.Strict(text, again); err != nil {
		return nil, err
	}
	if last, err := canon.JSON(again); err != nil || !bytes.Equal(last, text) {
		return nil, errors.New("the decision cannot be written down in one way")
	}
	return read, nil
}

// decodeStatement reads a payload that encodeStatement could have written, and no other.
func decodeStatement(payload []byte) (palyra.Predicate, error) {
	var st statement
	if err := canon.Strict(payload, &st); err != nil {
		return palyra.Predicate{}, fail("the payload is not a statement of ours")
	}
	again, err := canon.JSON(st)
	if err != nil || !bytes.Equal(again, payload) {
		return palyra.Predicate{}, fail("the payload is not written as the daemon writes it")
	}
	p := st.Predicate
	switch want := statementOf(p); {
	case st.Type != want.Type:
		return p, fail("the statement has the wrong type")
	case st.PredicateType != want.PredicateType:
		return p, fail("the predicate has the wrong type")
	case len(st.Subject) != 1 || st.Subject[0] != want.Subject[0]:
		return p, fail("the subject is not the call and its plan")
	case p.AttestationID == "" || p.CallID == "" || !p.PlanDigest.Valid() || !p.OutcomeDigest.Valid():
		return p, fail("the predicate lacks an id or a digest")
	}
	return p, nil
}

// fail is a finding of Verify.
func fail(format string, args ...any) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonVerifyFailed, "%s", fmt.Sprintf(format, args...)).
		WithRemedy("do not rely on it; fetch it again from the daemon, and check the key with 'palyra keys list'")
}
