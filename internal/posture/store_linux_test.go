package posture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// strict is a tier that refuses everything, but work in the workspace. It may
// leak something.
type strict struct {
	mu    sync.Mutex
	leak  string // act that works
	runs  int
	gone  map[palyra.Tier]bool
	enter chan struct{} // not nil: a run waits for it
}

func (f *strict) Promise(_ context.Context, tier palyra.Tier, _ palyra.Limits) (palyra.Enforcement, error) {
	if f.gone[tier] {
		return palyra.Enforcement{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "there is no bwrap").
			WithRemedy("apt install bubblewrap")
	}
	return palyra.Enforcement{
		Mode: "strict", Mechanisms: []string{"cgroup_v2", "landlock_abi_7"},
		Limits: map[string]palyra.Hold{"memory": "cgroup"},
	}, nil
}

func (f *strict) Run(ctx context.Context, _ palyra.Tier, j Job) (Exit, error) {
	f.mu.Lock()
	f.runs++
	leak := f.leak
	f.mu.Unlock()
	if f.enter != nil {
		select {
		case <-f.enter:
		case <-ctx.Done():
			return Exit{}, ctx.Err()
		}
	}
	nonce, act := j.Argv[2], j.Argv[3]
	switch {
	case act == "work":
		b, err := os.ReadFile(j.Argv[4])
		if err == nil {
			err = os.WriteFile(j.Argv[5], b, 0o600)
		}
		return Exit{Stdout: fmt.Appendf(nil, `{"nonce":%q,"act":"work","done":true,"text":%q}`+"\n", nonce, b)}, err
	case act == leak:
		return Exit{Stdout: fmt.Appendf(nil, `{"nonce":%q,"act":%q,"done":true}`+"\n", nonce, act)}, nil
	case act == "memory" || act == "fork":
		return Exit{Signal: "SIGKILL", Limit: map[string]string{"memory": "memory", "fork": "processes"}[act]}, nil
	}
	return Exit{Stdout: fmt.Appendf(nil, `{"nonce":%q,"act":%q,"done":false,"error":"EPERM"}`+"\n", nonce, act)}, nil
}

func (f *strict) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs
}

// journal keeps events, or fails.
type journal struct {
	mu     sync.Mutex
	fail   error
	events []palyra.Event
}

func (j *journal) Append(_ *store.Tx, e palyra.Event) (palyra.Position, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		return palyra.Position{}, j.fail
	}
	j.events = append(j.events, e)
	return palyra.Position{Seq: int64(len(j.events))}, nil
}

// facts can change.
type facts struct {
	mu  sync.Mutex
	now map[string]string
}

func (f *facts) get() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return map[string]string{"bwrap_digest": f.now["bwrap_digest"], "cell_digest": f.now["cell_digest"]}
}

func (f *facts) set(name, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now[name] = value
}

// bench is a store on a strict tier.
type bench struct {
	t       *testing.T
	tier    *strict
	journal *journal
	facts   *facts
	db      *store.DB
	dir     string
	store   *Store
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		t: t, tier: &strict{}, journal: &journal{}, facts: &facts{now: map[string]string{"bwrap_digest": "1", "cell_digest": "1"}},
		dir: t.TempDir(),
	}
	engine, err := sqlite.Open(filepath.Join(b.dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	if b.db, err = store.Open(t.Context(), engine, Schema()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.db.Close() })
	if err := os.Mkdir(filepath.Join(b.dir, "scratch"), 0o711); err != nil {
		t.Fatal(err)
	}
	b.open()
	return b
}

func (b *bench) config() Config {
	return Config{
		Host: Host{
			Runner: b.tier, Tiers: []palyra.Tier{palyra.TierB, palyra.TierC}, Facts: b.facts.get, Dir: filepath.Join(b.dir, "scratch"),
			UID: int64(os.Geteuid()), GID: int64(os.Getegid()), StateID: "01STATE", Now: time.Now,
		},
		DB: b.db, Journal: b.journal, Signer: func() Signer { return keyOf(1) },
	}
}

// open opens the store, as a daemon does that starts again.
func (b *bench) open() {
	b.t.Helper()
	s, err := New(b.t.Context(), b.config())
	if err != nil {
		b.t.Fatal(err)
	}
	b.store = s
}

func (b *bench) check(tiers ...palyra.Tier) palyra.SignedPosture {
	b.t.Helper()
	p, err := b.store.Check(b.t.Context(), tiers, "user:alice")
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) want(tier palyra.Tier, digest palyra.Digest, held bool) {
	b.t.Helper()
	if d, h, _ := b.store.Current(tier); d != digest || h != held {
		b.t.Errorf("tier %s is %s %t, want %s %t", tier, d, h, digest, held)
	}
}

func TestCheckIsKept(t *testing.T) {
	b := newBench(t)
	b.want(palyra.TierB, "", false)
	p := b.check()
	if !p.Posture.Held() || !p.Current || len(p.Posture.Tiers) != 2 {
		t.Fatalf("%+v", p)
	}
	b.want(palyra.TierB, p.Digest, true)
	b.want(palyra.TierC, p.Digest, true)
	_, _, names := b.store.Current(palyra.TierC)
	if !slices.Contains(names, "egress") || len(names) != len(probes()) {
		t.Errorf("%v", names)
	}
	want := palyra.PostureChecked{Posture: p.Digest, By: "user:alice", Held: []palyra.Tier{palyra.TierB, palyra.TierC}, Failed: []string{}}
	if d := cmp.Diff([]palyra.Event{want}, b.journal.events); d != "" {
		t.Error(d)
	}
	b.open()
	b.want(palyra.TierC, p.Digest, true)
	got, err := b.store.Get(t.Context(), p.Digest)
	if d := cmp.Diff(p, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	last, err := b.store.Last(t.Context())
	if d := cmp.Diff([]palyra.SignedPosture{p}, last); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	if left, err := os.ReadDir(filepath.Join(b.dir, "scratch")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestOneTierAtATime(t *testing.T) {
	b := newBench(t)
	all := b.check()
	b.tier.leak = "read"
	bad := b.check(palyra.TierC, palyra.TierC)
	if len(bad.Posture.Tiers) != 1 || bad.Posture.Held() {
		t.Errorf("%+v", bad.Posture)
	}
	b.want(palyra.TierB, all.Digest, true)
	b.want(palyra.TierC, bad.Digest, false)
	if _, _, names := b.store.Current(palyra.TierC); slices.Contains(names, "secret") || !slices.Contains(names, "egress") {
		t.Errorf("%v", names)
	}
	e, _ := b.journal.events[1].(palyra.PostureChecked)
	if d := cmp.Diff([]string{"C/secret", "C/symlink_read"}, e.Failed); d != "" || len(e.Held) != 0 {
		t.Errorf("%+v", e)
	}
	last, err := b.store.Last(t.Context())
	if err != nil || len(last) != 2 || last[0].Digest != all.Digest || last[1].Digest != bad.Digest {
		t.Errorf("%v %v", last, err)
	}
}

func TestUnavailable(t *testing.T) {
	b := newBench(t)
	b.tier.gone = map[palyra.Tier]bool{palyra.TierC: true}
	p := b.check()
	c := tierOf(p.Posture, palyra.TierC)
	if c.Available || c.Remedy != "apt install bubblewrap" || c.Reason != palyra.ReasonTierUnavailable || c.Text == "" || p.Posture.Held() ||
		len(c.Probes) > 0 {
		t.Errorf("%+v", c)
	}
	b.want(palyra.TierB, p.Digest, true)
	b.want(palyra.TierC, p.Digest, false)
	if e, _ := b.journal.events[0].(palyra.PostureChecked); !slices.Equal(e.Failed, []string{"C"}) ||
		!slices.Equal(e.Held, []palyra.Tier{palyra.TierB}) {
		t.Errorf("%+v", e)
	}
}

// TestFactsChange: a posture holds for the machine it was found on, as it was.
func TestFactsChange(t *testing.T) {
	b := newBench(t)
	old := b.check()
	b.facts.set("bwrap_digest", "2")
	b.want(palyra.TierC, "", false)
	got, err := b.store.Get(t.Context(), old.Digest)
	if err != nil || got.Current {
		t.Errorf("%+v %v", got, err)
	}
	b.open()
	b.want(palyra.TierC, "", false)
	b.facts.set("bwrap_digest", "1")
	b.want(palyra.TierC, old.Digest, true)
	c := b.config()
	c.StateID = "01OTHER"
	if b.store, err = New(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b.want(palyra.TierC, "", false)
}

// TestNotKept: what the journal does not take is not in force.
func TestNotKept(t *testing.T) {
	b := newBench(t)
	b.journal.fail = errors.New("the disk is full")
	if _, err := b.store.Check(t.Context(), nil, "user:alice"); !errors.Is(err, b.journal.fail) {
		t.Errorf("%v", err)
	}
	b.want(palyra.TierB, "", false)
	b.open()
	b.want(palyra.TierB, "", false)
	if last, err := b.store.Last(t.Context()); err != nil || len(last) != 0 {
		t.Errorf("%v %v", last, err)
	}
}

func TestCancelled(t *testing.T) {
	b := newBench(t)
	b.tier.enter = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.store.Check(ctx, nil, "user:alice")
		done <- err
	}()
	b.tier.enter <- struct{}{} // one is under way
	late, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, err := b.store.Check(late, nil, "user:bob"); !errors.Is(err, context.Canceled) {
		t.Errorf("another did not wait: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if len(b.journal.events) != 0 {
		t.Errorf("half a result was kept: %v", b.journal.events)
	}
}

func TestBadRequests(t *testing.T) {
	b := newBench(t)
	for _, tier := range []palyra.Tier{"", "A", "b", "C\x00", palyra.TierBuiltin} {
		if _, err := b.store.Check(t.Context(), []palyra.Tier{palyra.TierB, tier}, "user:alice"); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%q: %v", tier, err)
		}
	}
	if _, err := b.store.Get(t.Context(), "sha256:00"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("%v", err)
	}
	if b.tier.count() != 0 {
		t.Error("something ran")
	}
	for name, change := range map[string]func(*Config){
		"no runner":  func(c *Config) { c.Runner = nil },
		"no tiers":   func(c *Config) { c.Tiers = nil },
		"no clock":   func(c *Config) { c.Now = nil },
		"no dir":     func(c *Config) { c.Dir = "" },
		"no db":      func(c *Config) { c.DB = nil },
		"no journal": func(c *Config) { c.Journal = nil },
		"no signer":  func(c *Config) { c.Signer = nil },
		"no user":    func(c *Config) { c.UID = -1 },
	} {
		c := b.config()
		if change(&c); true {
			if _, err := New(t.Context(), c); err == nil {
				t.Error(name)
			}
		}
	}
}

// TestNothingCanBePlanted: then nothing is held, and it says so.
func TestNothingCanBePlanted(t *testing.T) {
	b := newBench(t)
	c := b.config()
	c.Dir = filepath.Join(b.dir, "nowhere")
	p, err := Check(t.Context(), c.Host)
	if err != nil {
		t.Fatal(err)
	}
	for _, tier := range p.Tiers {
		if len(tier.Failed()) != len(tier.Probes) || len(tier.Probes) == 0 || !strings.Contains(tier.Probes[0].Detail, "planted") {
			t.Errorf("%+v", tier)
		}
	}
	if b.tier.count() != 0 {
		t.Error("something ran")
	}
}

// TestLeftovers: what a killed daemon left is taken away by the next.
func TestLeftovers(t *testing.T) {
	b := newBench(t)
	left := filepath.Join(b.dir, "scratch", scratchPrefix+"123", "workspace")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(b.dir, filepath.Join(left, "out")); err != nil {
		t.Fatal(err)
	}
	b.open()
	if _, err := os.Stat(filepath.Dir(left)); !errors.Is(err, os.ErrNotExist) {
		t.Error("it is still there")
	}
	if _, err := os.Stat(filepath.Join(b.dir, "state.db")); err != nil {
		t.Error("more than that is gone")
	}
}

// TestDamaged: a posture that cannot be read is none, and the daemon starts.
func TestDamaged(t *testing.T) {
	b := newBench(t)
	p := b.check()
	err := b.db.Write(t.Context(), "test.damage", func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE postures SET envelope = ? WHERE digest = ?`, []byte("{}"), string(p.Digest))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.open()
	b.want(palyra.TierB, "", false)
	if _, err := b.store.Get(t.Context(), p.Digest); err == nil {
		t.Error("it was read")
	}
}

// TestRun: a start tries out what is not current, and so does a change later.
// (Time is not real here, so nothing real can be planted: nothing holds.)
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.store.Dir = filepath.Join(b.dir, "nowhere")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.store.Run(ctx) }()
		checks := func() int {
			synctest.Wait()
			b.journal.mu.Lock()
			defer b.journal.mu.Unlock()
			return len(b.journal.events)
		}
		if n := checks(); n != 1 {
			t.Errorf("%d at the start", n)
		}
		<-time.After(3 * checkInterval)
		if n := checks(); n != 1 {
			t.Errorf("%d without a change", n)
		}
		b.facts.set("bwrap_digest", "2")
		<-time.After(checkInterval)
		if n := checks(); n != 2 {
			t.Errorf("%d after a change", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRunRefreshes(t *testing.T) {
	b := newBench(t)
	if err := b.store.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, held, _ := b.store.Current(palyra.TierB)
	if e, _ := b.journal.events[0].(palyra.PostureChecked); !held || e.By != "system:daemon" {
		t.Errorf("%+v", e)
	}
	n := b.tier.count()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.store.Run(ctx); err != nil || b.tier.count() != n {
		t.Errorf("what is current was tried again: %v", err)
	}
	b.open()
	b.facts.set("cell_digest", "2")
	if err := b.store.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, held, _ := b.store.Current(palyra.TierB); again == first || !held {
		t.Errorf("%s", again)
	}
}

// BenchmarkCurrent is on the path of every call.
func BenchmarkCurrent(b *testing.B) {
	h := Host{Runner: &strict{}, Tiers: []palyra.Tier{palyra.TierC}, Dir: "/", Now: time.Now, Facts: (&facts{now: map[string]string{}}).get}
	if err := h.check(); err != nil {
		b.Fatal(err)
	}
	p := palyra.Posture{Facts: h.facts()}
	for _, pr := range probes() {
		p.Tiers = append(p.Tiers, palyra.TierPosture{Tier: palyra.TierC, Available: true, Probes: []palyra.Probe{{Name: pr.name, Held: true}}})
	}
	s := &Store{Config: Config{Host: h}, last: map[palyra.Tier]palyra.SignedPosture{palyra.TierC: {Digest: "d", Posture: p}}}
	for b.Loop() {
		if _, held, _ := s.Current(palyra.TierC); !held {
			b.Fatal("not held")
		}
	}
}
