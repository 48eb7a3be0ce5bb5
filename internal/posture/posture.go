// Package posture finds out what the sandbox tiers of this host really hold.
//
// Words: a probe is one thing that a tier must not let happen, tried by a program inside it (palyra-cell's own
// "probe") while what it is after is planted outside: a secret, listeners, sockets, a process. A posture is what
// all probes of some tiers came to, with the facts it rests on; it has a digest, is signed with the daemon's
// attestation key and kept. It is current as long as the facts are those of the host.
//
// Promises. A probe counts as held only if the program said that it was refused, in a way that is a refusal, and
// nothing was seen outside; one that could not be run, said nothing or said something else is not held. Before each
// try the planted thing is used once from outside, so that a refusal cannot come from its not being there. What is
// kept and signed is what was found, whatever it is, and the journal's line is in the same transaction. What Sign
// signs Verify accepts, byte for byte. Nothing that is planted stays.
//
// It does not prove that there is no other way out, does not judge whether a call
// may run with what it found, and starts nothing itself: a Runner does.
//
// Its words are those of docs/words.md.
package posture

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"palyra"
)

// Runner runs probes in the tiers of this host.
type Runner interface {
	// Promise says what would hold for a run in the tier, or why it cannot be used, with the remedy.
	Promise(ctx context.Context, tier palyra.Tier, l palyra.Limits) (palyra.Enforcement, error)
	// Run runs a job in the tier and returns when nothing of it is left. The end of the context ends the run. An error
	// means that it is not known to have run to its end. What was moved to quarantine for it, under the job's call, is
	// the Runner's to remove.
	Run(ctx context.Context, tier palyra.Tier, j Job) (Exit, error)
}

// Job is a probe to run. The program is a sealed copy of palyra-cell.
type Job struct {
	Call      palyra.CallID
	Path      string   // a file of the workspace that the copy may be laid over, where a tier runs programs by path
	Argv      []string // with the program's name
	Workspace string   // also the directory to run in
	Private   string   // with home, tmp and exe in it, as a sandbox.Job wants it
	UID, GID  int64
	Limits    palyra.Limits
	Seals     []string // names below the workspace that must stay as they are
	Network   bool     // with the guard's doors, and nothing granted
}

// Exit is how a probe ended.
type Exit struct {
	Stdout      []byte // at most some KiB of it
	Code        int
	Signal      string
	Limit       string // that the run was ended for
	Quarantined []string
	Flows       []palyra.EgressFlow // what the guard saw
	Enforcement palyra.Enforcement
}

// Host says what to try, where.
type Host struct {
	Runner   Runner
	Tiers    []palyra.Tier            // that the daemon has
	Facts    func() map[string]string // of the backends: digests, versions; kernel and boot are added here
	Dir      string                   // where a scratch directory may be made; the run's user must be able to pass through
	UID, GID int64                    // who probes run as. The daemon's own user is the hardest case: nothing but the tier stops it
	StateID  string
	Now      func() time.Time
	Log      *slog.Logger // nil: nothing is logged

	machine map[string]string // facts that cannot change while the daemon lives
}

func (h *Host) check() error {
	switch {
	case h.Runner == nil, h.Dir == "", h.Now == nil, len(h.Tiers) == 0:
		return errors.New("posture: a part is missing")
	case h.UID < 0, h.GID < 0:
		return errors.New("posture: there is no such user")
	}
	if h.Log == nil {
		h.Log = slog.New(slog.DiscardHandler)
	}
	if h.machine == nil {
		h.machine = hostFacts()
	}
	return nil
}

// facts are what a posture rests on.
func (h *Host) facts() map[string]string {
	all := maps.Clone(h.machine)
	if h.Facts != nil {
		maps.Copy(all, h.Facts())
	}
	return all
}

// Check tries the tiers out. It fails only when nothing could be tried at all; everything else is in the posture.
func Check(ctx context.Context, h Host) (palyra.Posture, error) {
	if err := h.check(); err != nil {
		return palyra.Posture{}, err
	}
	p := palyra.Posture{StateID: h.StateID, Facts: h.facts(), Tiers: []palyra.TierPosture{}}
	for _, tier := range h.Tiers {
		t := h.tier(ctx, tier)
		if err := ctx.Err(); err != nil { // half of a result does not count
			return palyra.Posture{}, fmt.Errorf("posture: check: %w", err)
		}
		p.Tiers = append(p.Tiers, t)
	}
	p.At = palyra.Time(h.Now())
	return p, nil
}

// tier tries one tier out.
func (h *Host) tier(ctx context.Context, tier palyra.Tier) palyra.TierPosture {
	t := palyra.TierPosture{Tier: tier, Mechanisms: []string{}, Limits: map[string]palyra.Hold{}, Probes: []palyra.Probe{}, Notes: []string{}}
	e, err := h.Runner.Promise(ctx, tier, limits())
	if err != nil {
		why := palyra.AsError(err)
		t.Reason, t.Text, t.Remedy = why.Reason, why.Text, why.Remedy
		return t
	}
	t.Available, t.Mode = true, e.Mode
	t.Mechanisms = append(t.Mechanisms, e.Mechanisms...)
	maps.Copy(t.Limits, e.Limits)
	s, err := h.stage()
	if err != nil {
		h.Log.Error("nothing could be planted for probes", "err", err)
	} else {
		defer h.strike(s)
	}
	for _, pr := range probes() {
		switch {
		case pr.tiers != nil && !slices.Contains(pr.tiers, tier):
		case err != nil:
			t.Probes = append(t.Probes, palyra.Probe{
				Name: pr.name, Detail: "nothing could be planted: " + reason(err),
				Remedy: "see the daemon's log",
			})
		case ctx.Err() == nil:
			t.Probes = append(t.Probes, h.try(ctx, tier, s, pr))
		}
	}
	t.Notes = append(t.Notes, advice(t)...)
	return t
}

func (h *Host) strike(s *testbed) {
	if err := s.removeAll(); err != nil {
		h.Log.Warn("what was planted for probes could not be removed", "dir", s.dir, "err", err)
	}
}

// limits are those of a probe: enough for a small program that does its work.
func limits() palyra.Limits {
	return palyra.Limits{
		WallMS: probeTime.Milliseconds(), CPUMS: 20_000, MemoryBytes: 256 << 20, Processes: 64, OpenFiles: 256,
		FileBytes: 1 << 20, OutputBytes: 64 << 10,
	}
}

// probeTime is the longest that one probe takes.
const probeTime = 30 * time.Second

// try runs one probe and judges it.
func (h *Host) try(ctx context.Context, tier palyra.Tier, s *testbed, pr probe) palyra.Probe {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	held, detail := h.act(ctx, tier, s, pr)
	p := palyra.Probe{Name: pr.name, Held: held, Detail: palyra.Clip(detail, 400)}
	if !held {
		p.Remedy = pr.remedy
		h.Log.Warn("a sandbox tier did not hold against a probe", "tier", tier, "probe", pr.name, "detail", p.Detail)
	}
	return p
}

func (h *Host) act(ctx context.Context, tier palyra.Tier, s *testbed, pr probe) (held bool, detail string) {
	var err error
	if s.nonce, err = random(); err != nil {
		return false, "it could not be prepared: " + err.Error()
	}
	if err := errors.Join(s.restore(), s.control(pr)); err != nil {
		return false, "what it is after is not there, or cannot be reached from outside either: " + err.Error()
	}
	exit, err := h.Runner.Run(ctx, tier, s.job(pr))
	if err != nil {
		return false, "it could not be run: " + reason(err)
	}
	f, said := parseFinding(exit.Stdout, s.nonce, pr.act[0])
	held, detail = pr.judge(tier, exit, f, said)
	if seen := s.effectSeen(pr, exit, f); seen != "" {
		return false, detail + "; outside: " + seen
	}
	return held, detail
}

// reason is an error as people may read it.
func reason(err error) string {
	if e := (*palyra.Error)(nil); errors.As(err, &e) {
		return e.Text
	}
	return err.Error()
}
