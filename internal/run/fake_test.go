package run

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/internal/gate"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/ulid"
)

// tape is a Recorder that keeps the kinds of what was committed.
type tape struct {
	mu    sync.Mutex
	seq   int64
	kinds []string
}

func (t *tape) Append(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	t.mu.Lock()
	t.seq++
	pos := palyra.Position{Seq: t.seq, Leaf: palyra.SumBytes([]byte(e.Kind()))}
	t.mu.Unlock()
	tx.OnDone(func(ok bool) {
		if ok {
			t.mu.Lock()
			t.kinds = append(t.kinds, e.Kind())
			t.mu.Unlock()
		}
	})
	return pos, nil
}

func (t *tape) count(kind string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kinds {
		if k == kind {
			n++
		}
	}
	return n
}

// world is a daemon around the package: real store and gate, scripted parts.
type world struct {
	t        *testing.T
	path     string
	db       *store.DB
	tape     *tape
	ledger   *Ledger
	sessions *Sessions
	calls    *Calls
	parts    *parts
}

// parts are the gate's neighbours. An argument {"ask":true} is asked about,
// {"deny":true} denied; the runner reports each start and waits for go.
type parts struct {
	mu       sync.Mutex
	answers  map[palyra.ID]chan palyra.Decision
	asked    chan palyra.ID
	started  chan palyra.ID
	proceed  chan struct{}
	withdrew []palyra.ID
	full     int // how many grants the disk has no room for
}

type input struct{ Ask, Deny, Hold bool }

func in(c *palyra.Call) (i input) { _ = json.Unmarshal(c.Proposal.Arguments, &i); return i }

func (p *parts) Admit(_ context.Context, pr palyra.Proposal) (palyra.Tool, error) {
	return palyra.Tool{Name: pr.Tool}, nil
}

func (p *parts) Resolve(_ context.Context, c *palyra.Call) (palyra.Plan, error) {
	return palyra.Plan{Tool: c.Tool.Name, Arguments: c.Proposal.Arguments, Tier: palyra.TierBuiltin, Limits: palyra.Limits{WallMS: 60000}}, nil
}

func (p *parts) Judge(_ context.Context, r palyra.Request) palyra.Verdict {
	i := in(&palyra.Call{Proposal: palyra.Proposal{Arguments: r.Plan.Arguments}})
	switch {
	case i.Deny:
		return palyra.Verdict{Effect: palyra.Deny}
	case i.Ask && r.Approval == nil:
		return palyra.Verdict{Effect: palyra.Ask, Need: palyra.Need{Votes: 1}}
	}
	return palyra.Verdict{Effect: palyra.Allow}
}

func (p *parts) Cover(context.Context, *palyra.Call) (palyra.Decision, bool, error) {
	return palyra.Decision{}, false, nil
}

func (p *parts) Prepare(_ context.Context, c *palyra.Call) (palyra.Approval, bool, error) {
	id := palyra.ID(ulid.New(time.Now()))
	return palyra.Approval{ID: id, Call: c.ID, PlanDigest: c.Digest}, false, nil
}

func (p *parts) channel(id palyra.ID) chan palyra.Decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers[id] == nil {
		p.answers[id] = make(chan palyra.Decision, 1)
	}
	return p.answers[id]
}

func (p *parts) Wait(ctx context.Context, id palyra.ID) (palyra.Decision, error) {
	select {
	case p.asked <- id:
	default:
	}
	ch := p.channel(id)
	select {
	case d := <-ch:
		ch <- d // settled for good
		return d, nil
	case <-ctx.Done():
		return palyra.Decision{}, ctx.Err()
	}
}

func (p *parts) Facts(*palyra.Call, palyra.Decision) palyra.ApprovalFacts {
	return palyra.ApprovalFacts{Votes: 1, Fresh: true}
}

func (p *parts) Run(ctx context.Context, g palyra.Grant, c *palyra.Call) palyra.Result {
	if !g.Valid() {
		panic("no grant")
	}
	p.started <- c.ID
	res := palyra.Result{Output: json.RawMessage(`"done"`), Executor: "builtin"}
	if in(c).Hold {
		select {
		case <-p.proceed:
		case <-ctx.Done():
			res.Failure = &palyra.Refusal{Layer: palyra.LayerTier, Text: "stopped", Reason: palyra.ReasonCancelled}
			res.KillReason = context.Cause(ctx).Error()
		}
	}
	return res
}

func (p *parts) Attest(_ context.Context, pr palyra.Predicate) (palyra.Attestation, error) {
	return palyra.Attestation{ID: pr.AttestationID, Call: pr.CallID, Digest: palyra.SumBytes(nil), Predicate: pr}, nil
}

func (p *parts) apply(_ *store.Tx, _ *palyra.Call, e palyra.Event) error {
	if _, ok := e.(palyra.CallGranted); ok && p.full > 0 {
		p.full--
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "full")
	}
	if w, ok := e.(palyra.ApprovalWithdrawn); ok {
		p.withdrew = append(p.withdrew, w.Approval)
	}
	return nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "state.db"), tape: &tape{}}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	e, err := sqlite.Open(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.db, err = store.Open(w.t.Context(), e, Schema()); err != nil {
		w.t.Fatal(err)
	}
	old := w.parts
	w.parts = &parts{
		answers: map[palyra.ID]chan palyra.Decision{}, asked: make(chan palyra.ID, 100),
		started: make(chan palyra.ID, 100), proceed: make(chan struct{}),
	}
	if old != nil {
		w.parts.answers = old.answers
	}
	w.ledger = NewLedger(w.db, w.tape, w.parts.apply)
	if w.sessions, err = NewSessions(SessionConfig{DB: w.db, Journal: w.tape, Now: time.Now, Idle: time.Hour}); err != nil {
		w.t.Fatal(err)
	}
	p := w.parts
	g, err := gate.New(gate.Config{
		Ledger: w.ledger, Catalog: p, Planner: p, Judge: p, Desk: p, Runner: p, Attester: p, Now: time.Now,
		NewID: func() palyra.ID { return palyra.ID(ulid.New(time.Now())) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if w.calls, err = NewCalls(CallsConfig{Gate: g, Ledger: w.ledger, Sessions: w.sessions, Now: time.Now, Log: log}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) close() {
	w.calls.Stop()
	if err := w.db.Close(); err != nil && !errors.Is(err, context.Canceled) {
		w.t.Error(err)
	}
}

func (w *world) proposal(args string) palyra.Proposal {
	return palyra.Proposal{Principal: "agent:test", Door: palyra.DoorCLI, Workspace: "/w", Tool: "palyra.echo", Arguments: json.RawMessage(args)}
}

// allow settles an approval.
func (w *world) allow(id palyra.ID, digest palyra.Digest) {
	w.parts.channel(id) <- palyra.Decision{Approval: id, Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce, Lease: "L" + id, Digest: digest}
}

type result struct {
	out palyra.Outcome
	err error
}

// call starts a call on its own goroutine.
func (w *world) call(ctx context.Context, p palyra.Proposal) <-chan result {
	ch := make(chan result, 1)
	go func() {
		out, err := w.calls.Call(ctx, p, nil)
		ch <- result{out, err}
	}()
	return ch
}
