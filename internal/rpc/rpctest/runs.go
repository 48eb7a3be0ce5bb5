package rpctest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/rpc/runs"
)

// FakeTape is the tape of a run that a test writes.
type FakeTape struct {
	mu      sync.Mutex
	entries []palyra.TapeEntry
	moved   chan struct{} // closed and made anew when anything below changes
	readers int
}

// Write puts an entry on the tape and gives it its number.
func (t *FakeTape) Write(e palyra.TapeEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.Seq, e.At = int64(len(t.entries))+1, At
	t.entries = append(t.entries, e)
	t.wake()
}

// wake tells those who wait. The lock is held.
func (t *FakeTape) wake() {
	close(t.moved)
	t.moved = make(chan struct{})
}

// Wait waits until exactly n follow the tape.
func (t *FakeTape) Wait(ctx context.Context, n int) error {
	for {
		t.mu.Lock()
		readers, moved := t.readers, t.moved
		t.mu.Unlock()
		if readers == n {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%d follow, want %d: %w", readers, n, context.Cause(ctx))
		}
	}
}

// follow tells the tape until it is finished.
func (t *FakeTape) follow(ctx context.Context, after int64, f func(palyra.TapeEntry) error) error {
	t.count(1)
	defer t.count(-1)
	for {
		t.mu.Lock()
		var news []palyra.TapeEntry
		if n := int64(len(t.entries)); after < n {
			news = slices.Clone(t.entries[after:])
		}
		moved := t.moved
		t.mu.Unlock()
		for _, e := range news {
			if err := f(e); err != nil {
				return err
			}
			after = e.Seq
			if e.RunFinished != nil {
				return nil
			}
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (t *FakeTape) count(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers += n
	t.wake()
}

// Tape returns the tape of a run. A run whose tape nobody asked for has two entries, its first and its last.
func (p *Parts) Tape(id palyra.RunID) *FakeTape {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tapes == nil {
		p.tapes = map[palyra.RunID]*FakeTape{}
	}
	if p.tapes[id] == nil {
		p.tapes[id] = &FakeTape{moved: make(chan struct{})}
	}
	return p.tapes[id]
}

// Started returns the last run that was started.
func (p *Parts) Started() runs.StartRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

type runsPart struct{ *Parts }

func (r runsPart) Start(ctx context.Context, s runs.StartRequest) (palyra.Run, error) {
	r.note(ctx, "start "+s.Provider)
	r.mu.Lock()
	r.started = s
	r.mu.Unlock()
	return palyra.Run{
		ID: "R1", Session: "S1", Principal: s.Principal, Owner: s.Owner, Surface: s.Surface, Provider: s.Provider, Title: s.Title,
		State: palyra.RunPending, Budget: s.Budget, CreatedAt: At,
	}, nil
}

func (r runsPart) Attach(ctx context.Context, id palyra.RunID, after int64, f func(palyra.TapeEntry) error) error {
	r.note(ctx, "attach "+string(id))
	if r.OnAttach != nil {
		if err := r.OnAttach(id); err != nil {
			return err
		}
	}
	r.mu.Lock()
	t := r.tapes[id]
	r.mu.Unlock()
	if t == nil {
		t = &FakeTape{moved: make(chan struct{})}
		t.Write(palyra.TapeEntry{Run: id, RunAccepted: &palyra.TapeAccepted{Session: "S1", Provider: "scripted"}})
		t.Write(palyra.TapeEntry{Run: id, RunFinished: &palyra.TapeRunFinished{State: palyra.RunDone}})
	}
	return t.follow(ctx, after, f)
}

func (r runsPart) Cancel(ctx context.Context, id palyra.RunID, by string) error {
	r.note(ctx, "cancel run "+string(id)+" "+by)
	return nil
}

// Get returns a run of whoever asks, or of agent:other for the id "other"; there is none for the id "none".
func (r runsPart) Get(ctx context.Context, id palyra.RunID) (palyra.Run, error) {
	r.note(ctx, "run "+string(id))
	run := palyra.Run{
		ID: id, Principal: rpc.CallerOf(ctx).Principal, Within: rpc.CallerOf(ctx).Within,
		Credential: rpc.CallerOf(ctx).CredentialID, State: palyra.RunInProgress, CreatedAt: At,
	}
	if r.Whose != nil {
		var p palyra.Proposal
		p, run.Workspace = r.Whose(rpc.CallerOf(ctx))
		run.Principal, run.Within, run.Credential = p.Principal, p.Within, p.Credential
	}
	switch id {
	case "none":
		return palyra.Run{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no such run")
	case "other":
		run.Principal = "agent:other"
	}
	return run, nil
}

func (r runsPart) List(ctx context.Context, f palyra.RunFilter) ([]palyra.Run, bool, error) {
	who := f.Principal
	if !f.Reach.Person {
		who = f.Reach.Principal
	}
	r.note(ctx, "runs "+string(who)+string(f.State))
	var out []palyra.Run
	for range min(f.Limit, 2) {
		run := palyra.Run{ID: "R", Principal: who, CreatedAt: At}
		if r.Whose != nil {
			var p palyra.Proposal
			p, run.Workspace = r.Whose(rpc.CallerOf(ctx))
			run.Principal, run.Within, run.Credential = p.Principal, p.Within, p.Credential
		}
		if r.Whose == nil || f.Reach.May(palyra.ActSee, run.Reached()) {
			out = append(out, run)
		}
	}
	return out, len(out) == int(f.Limit), nil
}

func (r runsPart) Input(ctx context.Context, id palyra.RunID, _ palyra.Reach, text string) error {
	r.note(ctx, "input "+string(id)+" "+text)
	return nil
}
