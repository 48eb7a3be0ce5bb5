package session

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/run"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// world is sessions on a store of their own, with what was recorded of them.
type world struct {
	sessions *Sessions
	kinds    []string
}

// Append implements store.Recorder.
func (w *world) Append(_ *store.Tx, e palyra.Event) (palyra.Position, error) {
	w.kinds = append(w.kinds, e.Kind())
	return palyra.Position{Seq: int64(len(w.kinds))}, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	e, err := sqlite.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), e, run.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{}
	if w.sessions, err = New(Config{DB: db, Journal: w, Now: time.Now, Idle: time.Hour}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) proposal() palyra.Proposal {
	return palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:test", Surface: palyra.SurfaceCLI}, Workspace: "/w",
		Tool: "palyra.echo",
	}
}

func (w *world) count(kind string) (n int) {
	for _, k := range w.kinds {
		if k == kind {
			n++
		}
	}
	return n
}

func TestDefaultSessionPerPrincipalWorkspaceDoor(t *testing.T) {
	w := newWorld(t)
	base := w.proposal()
	first, err := w.sessions.Resolve(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := w.sessions.Resolve(t.Context(), base)
	if again.ID != first.ID {
		t.Error("the default session changed")
	}
	for name, change := range map[string]func(*palyra.Proposal){
		"principal": func(p *palyra.Proposal) { p.Principal = "agent:other" },
		"workspace": func(p *palyra.Proposal) { p.Workspace = "/v" },
		"door":      func(p *palyra.Proposal) { p.Surface = palyra.SurfaceMCP },
		"name":      func(p *palyra.Proposal) { p.Session = "mine" },
	} {
		p := base
		change(&p)
		other, err := w.sessions.Resolve(t.Context(), p)
		if err != nil || other.ID == first.ID {
			t.Errorf("%s: %+v, %v", name, other, err)
		}
	}
	if n := w.count("session.opened"); n != 5 {
		t.Errorf("%d sessions journaled", n)
	}
}

func TestClosedSessionIsNeverReused(t *testing.T) {
	w := newWorld(t)
	ended := []palyra.SessionID{}
	w.sessions.ends = append(w.sessions.ends, func(_ *store.Tx, id palyra.SessionID, _ string) error {
		ended = append(ended, id)
		return nil
	})
	p := w.proposal()
	s, err := w.sessions.Resolve(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.sessions.Close(t.Context(), s.ID, "user:me"); err != nil {
		t.Fatal(err)
	}
	if err := w.sessions.Close(t.Context(), s.ID, "user:me"); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("closed twice: %v", err)
	}
	byID := p
	byID.Session = s.ID
	if _, err := w.sessions.Resolve(t.Context(), byID); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("closed session by id: %v", err)
	}
	fresh, err := w.sessions.Resolve(t.Context(), p)
	if err != nil || fresh.ID == s.ID {
		t.Errorf("%+v, %v", fresh, err)
	}
	if len(ended) != 1 || ended[0] != s.ID {
		t.Errorf("ended %v", ended)
	}
}

func TestForeignAndBadSessions(t *testing.T) {
	w := newWorld(t)
	p := w.proposal()
	s, err := w.sessions.Resolve(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.Principal, other.Session = "agent:other", s.ID
	if _, err := w.sessions.Resolve(t.Context(), other); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("foreign session: %v", err)
	}
	for _, bad := range []string{"a\x00", "\xff", "a\nb", strings.Repeat("x", maxSessionName+1)} {
		q := p
		q.Session = palyra.SessionID(bad)
		if _, err := w.sessions.Resolve(t.Context(), q); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}

func TestIdleSessionCloses(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.sessions.now = func() time.Time { return now }
	s, err := w.sessions.Resolve(t.Context(), w.proposal())
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	fresh, err := w.sessions.Resolve(t.Context(), w.proposal())
	if err != nil || fresh.ID == s.ID {
		t.Fatalf("%+v, %v", fresh, err)
	}
	now = now.Add(2 * time.Hour)
	if err := w.sessions.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if open, _ := w.sessions.List(t.Context(), false, "", 0); len(open) != 0 {
		t.Errorf("open after the sweep: %v", open)
	}
	if all, _ := w.sessions.List(t.Context(), true, "", 0); len(all) != 2 {
		t.Errorf("all: %v", all)
	}
}

func TestOpenSessionsAreBounded(t *testing.T) {
	w := newWorld(t)
	var err error
	for i := range maxOpenSessions + 1 {
		p := w.proposal()
		p.Session = palyra.SessionID(fmt.Sprintf("s%d", i))
		_, err = w.sessions.Resolve(t.Context(), p)
	}
	if palyra.CodeOf(err) != palyra.Exhausted {
		t.Errorf("session %d: %v", maxOpenSessions+1, err)
	}
}
