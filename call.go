package palyra

import (
	"encoding/json"
	"slices"
	"time"
)

// Call is a proposal on its way: the record that survives a crash.
type Call struct {
	ID       CallID     `json:"call_id"`
	Proposal Proposal   `json:"proposal"`
	State    State      `json:"state"`
	Tool     Tool       `json:"tool"`
	Plan     Plan       `json:"plan"`
	Detail   Detail     `json:"detail,omitzero"` // the plan's, kept for people
	Digest   Digest     `json:"plan_digest,omitempty"`
	Verdict  Verdict    `json:"verdict,omitzero"`
	Approval ApprovalID `json:"approval_id,omitempty"`
	Decision Decision   `json:"decision,omitzero"`
	Grant    GrantID    `json:"grant_id,omitempty"`
	Granted  Position   `json:"granted,omitzero"` // where the granted line stands
	Proposed time.Time  `json:"proposed_at"`
	Finished time.Time  `json:"finished_at,omitzero"`
	Keep     *Keep      `json:"keep,omitempty"` // nil: the run changed nothing that can be dropped
	Outcome  *Outcome   `json:"outcome,omitempty"`

	// Input is the digest of the arguments as they were sent. The arguments of a call that was read back have the
	// same value and not the same bytes.
	Input Digest `json:"-"`

	// Stored is the state the ledger last made durable. A copy that is behind it is stale, and the ledger refuses to
	// move the call from there.
	Stored State `json:"-"`
}

// Asked is the call as people are asked about it: while it settles that is its plan with what the run changed.
func (c *Call) Asked() *Call {
	if c.State != Settling || c.Keep == nil {
		return c
	}
	q, k := *c, c.Keep
	q.Plan.Detail, q.Detail = k.Detail, k.Detail
	q.Plan.Effects, q.Digest, q.Verdict, q.Approval, q.Decision = &k.Effects, k.Digest, k.Verdict, k.Approval, k.Decision
	return &q
}

// Changed is what the run of the call changed, and what became of it; nil: nothing is on record.
func (c *Call) Changed() (*Effects, Settlement) {
	switch {
	case c.Outcome != nil && c.Outcome.Changes != nil:
		return c.Outcome.Changes, c.Outcome.Effects
	case c.Outcome == nil && c.Keep != nil:
		return &c.Keep.Effects, EffectsHeld
	}
	return nil, ""
}

// Result is what a runner brings back, also from a failed, killed or timed-out run. Refusal is set when the runner
// would not start; then nothing ran.
type Result struct {
	Output    json.RawMessage // structured result of a built-in tool
	Stdout    []byte
	Stderr    []byte
	Truncated bool

	// Digests of the whole output, where less of it is here; empty: all is.
	StdoutDigest, StderrDigest, OutputDigest Digest

	ExitCode    int
	Signal      string
	TimedOut    bool
	Cancelled   bool
	KillReason  Stop
	Failure     *Refusal // the tool ran and failed; reason and remedy for the agent
	Refusal     *Refusal // nothing ran
	Executor    string
	Enforcement Enforcement
	Usage       Usage
	Egress      []EgressFlow // connections, as the guard saw them
	Omitted     int64        // more of them than are listed
	Left        []Remnant    // what else of the run's somebody should know of
	Quarantined []string     // sealed paths that the run made, as bytes; they were taken out of the workspace
	More        int64        // sealed paths beyond those listed
	Effects     Settlement   // what became of what a staged run wrote; empty: it wrote to the workspace
	Changes     []Change     // what a staged run did, in the order of the names' bytes
	Listed      *Effects     // the same in short, once the list is kept; nil: there are none, or nobody knows
	Changed     []string     // inputs of the plan, as bytes, that were not as they had been checked when the run was over
	Runtime     *Runtime     // of a skill's tool
	Posture     Digest       // of the signed probe results that held for the tier
	Started     time.Time
	Finished    time.Time
}

// Settlement is what became of the changes that a run made on a layer of its own.
type Settlement string

// The ways in which changes end.
const (
	EffectsNone     Settlement = "none"     // there were none
	EffectsKept     Settlement = "kept"     // they are the workspace's
	EffectsDropped  Settlement = "dropped"  // policy or people did not want them
	EffectsHeld     Settlement = "held"     // they lie on the stage until somebody has answered
	EffectsStaged   Settlement = "staged"   // they lie on the stage of an agent until its person keeps or drops them
	EffectsConflict Settlement = "conflict" // somebody else changed the same paths: all were dropped
	EffectsLost     Settlement = "lost"     // they could not be kept, or only in part
	EffectsForeseen Settlement = "foreseen" // of a check: what it was about to replace is kept; whether it did nobody looked
)

// Enforcement is what really held during a run.
type Enforcement struct {
	Mode       NetworkMode     `json:"mode"`
	Mechanisms []string        `json:"mechanisms"`
	Limits     map[string]Hold `json:"limits"` // by the limit's name
}

// Stop is what ended a run before its own end: a limit's name, a reason, or empty.
type Stop string

// The stops that others go by.
const (
	StopPanic Stop = "panic" // the daemon's own code broke off, and what it did is not known to the end
)

// NetworkMode is what a run can reach of the network.
type NetworkMode string

// The modes, from the one that holds most.
const (
	NetworkStrict    NetworkMode = "strict"    // only what the plan names
	NetworkPreflight NetworkMode = "preflight" // what the plan names is checked before the start; later any name
	NetworkOpen      NetworkMode = "none"      // every public host
)

// Hold is how a limit is kept.
type Hold string

// The ways that have an order, and those that are each the one way to keep their limit.
const (
	HoldNone   Hold = "none"
	HoldPolled Hold = "polled"        // looked at from outside; it may be passed for a moment
	HoldRlimit Hold = "rlimit"        // the kernel's, for one process
	HoldBoth   Hold = "rlimit+polled" // for one process, and all together looked at
	HoldCgroup Hold = "cgroup"        // the kernel's, for the whole run

	HoldTimer, HoldContext, HoldCap, HoldCounted Hold = "timer", "context", "cap", "counted"
	HoldJob, HoldJobTime                         Hold = "job_object", "job_object_user_time" // Windows
	HoldNamespace, HoldProfile, HoldRefused      Hold = "user_namespace", "profile", "refused"
)

// AtLeast reports whether h keeps a limit no worse than promised; a way outside the order is as good as itself only.
func (h Hold) AtLeast(promised Hold) bool {
	order := []Hold{HoldNone, HoldPolled, HoldRlimit, HoldBoth, HoldCgroup}
	want := slices.Index(order, promised)
	return h == promised || want >= 0 && slices.Index(order, h) >= want
}

// Chunk is a piece of what a running call printed: stdout or stderr, from Offset on. Chunks are for people who watch;
// the outcome is what is signed.
type Chunk struct {
	Stream string `json:"stream"`
	Offset int64  `json:"offset"`
	Data   []byte `json:"data"`
}

// Feed is what a caller sends to a running call, in order: bytes for its stdin, the end of them, a signal by name, a
// new size of its terminal.
type Feed struct {
	Data   []byte
	End    bool
	Signal string
	Rows   int
	Cols   int
}

// Watch is how somebody follows a call. Any function may be nil; all are called in order on the follower's own
// goroutine, events after they are durable, and Running once, before any output: the call was handed to what runs it.
type Watch struct {
	Event   func(*Call, Event)
	Running func(*Call)
	Output  func(Chunk)
}

// Usage is what a run cost.
type Usage struct {
	WallMS     int64 `json:"wall_ms"`
	CPUMS      int64 `json:"cpu_ms"`
	PeakMemory int64 `json:"peak_memory_bytes"`
	BytesIn    int64 `json:"bytes_in"`
	BytesOut   int64 `json:"bytes_out"`
	Processes  int64 `json:"processes"`
}
