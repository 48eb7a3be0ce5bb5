package palyra

import "palyra/internal/canon"

// The names of the formats an attestation is made of.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://palyra.dev/attestation/tool-call/v1"
	PayloadType   = "application/vnd.in-toto+json"

	executionDomain = "execution/v1"
)

// Envelope is a DSSE envelope as it stands in JSON.
type Envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"` // standard base64
	Signatures  []EnvelopeSignature `json:"signatures"`
}

// EnvelopeSignature is one signature of an envelope.
type EnvelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// Attestation is a signed predicate, kept by its digest.
type Attestation struct {
	ID        ID        `json:"attestation_id"`
	Call      CallID    `json:"call_id"`
	Digest    Digest    `json:"digest"` // of the envelope's compact JSON
	Envelope  Envelope  `json:"envelope"`
	Predicate Predicate `json:"predicate"`
}

// Predicate is what ran, under what, with which result. Everything in it is a claim of the daemon that signed it,
// except Decision's votes, which carry the approvers' own signatures.
type Predicate struct {
	AttestationID   ID           `json:"attestation_id"`
	StateID         string       `json:"state_id"` // the daemon's; the audience that the votes in it were signed for
	CallID          CallID       `json:"call_id"`
	RunID           RunID        `json:"run_id"`
	SessionID       SessionID    `json:"session_id"`
	Principal       Principal    `json:"principal"`
	Surface         Surface      `json:"door"`
	Tool            ToolName     `json:"tool"`
	PlanDigest      Digest       `json:"plan_digest"`
	InputDigest     Digest       `json:"input_digest"`
	Verdict         Effect       `json:"verdict"`
	Policies        []string     `json:"policies"`
	BundleDigest    Digest       `json:"bundle_digest"`
	SnapshotDigest  Digest       `json:"snapshot_digest"`
	Decision        *Decision    `json:"decision"` // null when policy alone allowed
	Separation      Separation   `json:"approver_separation"`
	GrantID         GrantID      `json:"grant_id"`
	LeaseID         LeaseID      `json:"lease_id"`
	Tier            Tier         `json:"tier"`
	Executor        string       `json:"executor"`
	Enforcement     Enforcement  `json:"sandbox_enforcement"`
	Limits          Limits       `json:"limits"`
	PostureDigest   Digest       `json:"posture_digest"`
	Outcome         OutcomeKind  `json:"outcome"`
	ExitCode        int          `json:"exit_code"`
	Signal          string       `json:"signal"`
	TimedOut        bool         `json:"timed_out"`
	KillReason      Stop         `json:"kill_reason"`
	Usage           Usage        `json:"usage"`
	Runtime         *Runtime     `json:"runtime,omitempty"` // of a skill's tool
	StdoutDigest    Digest       `json:"stdout_digest"`     // raw, before any cut
	StderrDigest    Digest       `json:"stderr_digest"`
	OutputDigest    Digest       `json:"output_digest"`
	OutcomeDigest   Digest       `json:"outcome_sha256"` // of the outcome as delivered, without the attestation
	Egress          []EgressFlow `json:"egress"`
	EgressOmitted   int64        `json:"egress_omitted"` // flows beyond those listed
	Quarantined     []PathText   `json:"sealed_path_created"`
	Left            []string     `json:"left_behind,omitempty"` // what else of the run's somebody should know of
	Effects         Settlement   `json:"effects,omitempty"`
	Changes         *Effects     `json:"changes,omitempty"`
	InputChanged    []PathText   `json:"input_changed,omitempty"`
	Reduced         []string     `json:"reduced,omitempty"` // members that could not be signed as they were and are left out
	StartedAt       string       `json:"started_at"`
	FinishedAt      string       `json:"finished_at"`
	Granted         Position     `json:"granted"`
	ExecutionSHA256 Digest       `json:"execution_sha256,omitempty"`
}

// Runtime is what a skill's tool ran on, what it took, and what of its capabilities it was granted and used: KIND:NAME.
type Runtime struct {
	Name    string   `json:"name"`
	ABI     string   `json:"abi"`
	Skill   string   `json:"skill"` // ID@VERSION
	Package Digest   `json:"package_digest"`
	Fuel    int64    `json:"fuel_used"`
	Granted []string `json:"capabilities_granted"`
	Used    []string `json:"capabilities_used"`
	Refused []string `json:"refused,omitempty"` // of its host calls, each once: REASON FUNCTION KIND:NAME
}

// EgressFlow is one connection of a run, as the guard saw it.
type EgressFlow struct {
	Door    string      `json:"door"` // how it came: connect, http, socks, direct, dns, fetch
	Host    string      `json:"host"` // the name that was decided on
	Port    int         `json:"port"`
	Address string      `json:"address"` // that was dialled; empty: none was
	In      int64       `json:"bytes_in"`
	Out     int64       `json:"bytes_out"`
	Verdict FlowVerdict `json:"verdict"`
	Grant   GrantID     `json:"grant_id"` // of the call that allowed a host beyond the plan's; empty: the plan names it
}

// FlowVerdict is what the guard decided of a connection.
type FlowVerdict string

// The verdicts.
const (
	FlowAllowed FlowVerdict = "allow"
	FlowDenied  FlowVerdict = "deny"
)

// Execution returns the digest of the canonical predicate without its own execution_sha256.
func (p Predicate) Execution() (Digest, error) {
	p.ExecutionSHA256 = ""
	d, err := canon.Digest(executionDomain, p)
	return Digest(d), err
}
