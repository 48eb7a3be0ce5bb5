package palyra

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"palyra/internal/canon"
)

// OutcomeKind is how a call ended for the agent.
type OutcomeKind string

// The kinds of outcome.
const (
	OutcomeFinished  OutcomeKind = "finished"
	OutcomeRefused   OutcomeKind = "refused"
	OutcomeCancelled OutcomeKind = "cancelled"
	OutcomeTimedOut  OutcomeKind = "timed_out"
	OutcomeUnknown   OutcomeKind = "unknown"
	OutcomeRunning   OutcomeKind = "running" // of a background process, which goes on: it is on no record

	// OutcomeAllowed is that of a check: policy and people allow the call, and the caller runs it itself. Nothing ran here.
	OutcomeAllowed OutcomeKind = "allowed"
	// OutcomeObserved is that of a call which was judged while Palyra only observes: layer, reason and policies say what
	// would have become of it. The caller runs it itself, held by nothing.
	OutcomeObserved OutcomeKind = "observed"
)

// Exit codes of outcomes in which nothing ran to an end of its own, so that no reader takes a refusal for a success.
const (
	ExitUnknown   = 125
	ExitRefused   = 126
	ExitCancelled = 130
)

// Outcome is what the agent gets. Its JSON form is a contract: the fields stand in this order, all of them always
// but those that are left out when empty, and the attestation comes last and binds every byte before it (see Body).
type Outcome struct {
	Outcome     OutcomeKind `json:"outcome"`
	Tool        ToolName    `json:"tool"`
	Layer       Layer       `json:"layer"`
	ReasonCode  Reason      `json:"reason_code"`
	Reason      string      `json:"reason"`
	Remedy      string      `json:"remedy"`
	Policies    []string    `json:"policies"`
	ExitCode    int         `json:"exit_code"`
	Signal      string      `json:"signal"`
	Stdout      string      `json:"stdout"`
	StdoutB64   string      `json:"stdout_b64"` // set instead of stdout when it is not UTF-8
	Stderr      string      `json:"stderr"`
	StderrB64   string      `json:"stderr_b64"`
	Truncated   bool        `json:"truncated"`
	Quarantined []PathText  `json:"sealed_path_created"`   // sealed paths that the run made; they were taken away
	Left        []string    `json:"left_behind,omitempty"` // what else of the run's somebody should know of
	// what became of what the run wrote on a layer of its own; left out: it had none
	Effects Settlement `json:"effects,omitempty"`
	// what a staged run changed, in short; left out: nothing, or it had no such layer
	Changes *Effects `json:"changes,omitempty"`
	// inputs of the plan that were not as they had been checked when the run was over
	InputChanged    []PathText      `json:"input_changed,omitempty"`
	Output          json.RawMessage `json:"output"`
	SessionID       SessionID       `json:"session_id"`
	CallID          CallID          `json:"call_id"`
	ApprovalID      ApprovalID      `json:"approval_id"`
	GrantID         GrantID         `json:"grant_id"`
	PlanDigest      Digest          `json:"plan_digest"`
	JournalPosition int64           `json:"journal_position"` // of the granted line; 0 when nothing was granted
	Attestation     *Envelope       `json:"attestation"`
}

// SetStreams fills stdout and stderr, as base64 where they are not UTF-8.
func (o *Outcome) SetStreams(stdout, stderr []byte) {
	o.Stdout, o.StdoutB64 = stream(stdout)
	o.Stderr, o.StderrB64 = stream(stderr)
}

func stream(b []byte) (text, b64 string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

// AttestationKey is where the bound part of an outcome ends.
const AttestationKey = `,"attestation":`

// Marshal returns the outcome's one compact JSON text. HTML characters are not escaped: what a tool printed should be readable.
func (o Outcome) Marshal() ([]byte, error) {
	b, err1 := o.Body()
	attestation, err2 := json.Marshal(o.Attestation)
	return slices.Concat(b, []byte(AttestationKey), attestation, []byte("}")), errors.Join(err1, err2)
}

// Body returns the bytes that the attestation binds: the compact JSON up to, not including, the attestation member.
func (o Outcome) Body() ([]byte, error) {
	if o.Policies == nil {
		o.Policies = []string{}
	}
	if o.Quarantined == nil {
		o.Quarantined = []PathText{}
	}
	if len(o.Output) == 0 {
		o.Output = json.RawMessage("null")
	}
	o.Attestation = nil
	b, err := canon.JSON(o)
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b, []byte(AttestationKey+"null}")), nil
}

// BodyDigest is the SHA-256 of Body.
func (o Outcome) BodyDigest() (Digest, error) {
	b, err := o.Body()
	return SumBytes(b), err
}

// SumBytes is the plain SHA-256 of b as a Digest.
func SumBytes(b []byte) Digest {
	h := sha256.Sum256(b)
	return Digest("sha256:" + hex.EncodeToString(h[:]))
}
