package sandbox

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/repofind"
)

// wall is the fake backend of a tier whose runs have a room of their own.
type wall struct{ *fake }

func (wall) Room() bool { return true }

// watchman is a guard that remembers.
type watchman struct {
	mode   string
	err    error
	opened []palyra.CallID
	closed int
	door   cell.Listener

	sockets int // handed over
}

func (w *watchman) Mechanisms() []string     { return []string{Guarded} }
func (w *watchman) Mode() palyra.NetworkMode { return palyra.NetworkMode(w.mode) }

func (w *watchman) Open(_ context.Context, c *palyra.Call, _ palyra.Plan) (Gateway, error) {
	if w.err != nil {
		return nil, w.err
	}
	if c != nil {
		w.opened = append(w.opened, c.ID)
	}
	return w, nil
}

func (w *watchman) Doors() []cell.Listener   { return []cell.Listener{w.door} }
func (w *watchman) Serve(s []*os.File) error { closeAll(s...); w.sockets += len(s); return nil }
func (*watchman) Env() []string              { return []string{"HTTPS_PROXY=http://x:secret@198.18.0.1:3128"} }

func (w *watchman) Flows() ([]palyra.EgressFlow, int64) {
	return []palyra.EgressFlow{{Host: "example.org", Port: 443, Verdict: "allow"}}, 3
}

func (w *watchman) Close() ([]palyra.EgressFlow, int64) {
	w.closed++
	return w.Flows()
}

// walledBox is a box whose tier has rooms and a guard.
func walledBox(t *testing.T) (*box, *watchman) {
	b := newBox(t)
	w := &watchman{mode: "preflight", door: cell.Listener{Addr: netip.MustParseAddrPort("198.18.0.1:3128")}}
	b.back.walled = true
	b.r.backends[palyra.TierB] = wall{b.back}
	b.r.Guard, b.r.Caches = w, filepath.Join(b.base, "caches")
	b.plan.Enforcement.Mode = "preflight"
	b.plan.Enforcement.Mechanisms = []string{"cell", Guarded, "seccomp"}
	return b, w
}

func TestAWalledRunGoesThroughItsGateway(t *testing.T) {
	b, w := walledBox(t)
	b.plan.Egress = []string{"example.org:443"}
	b.plan.Env = []palyra.EnvVar{{Name: "PATH", Value: "/usr/bin:/bin"}}
	b.sh(`echo "$HOME $TMPDIR $HTTPS_PROXY $PATH"`)
	res := b.finished()
	want(t, "what it sees", strings.TrimSpace(string(res.Stdout)), cell.RoomHome+" "+cell.RoomTmp+
		" http://x:secret@198.18.0.1:3128 /usr/bin:/bin")
	want(t, "doors", b.back.started()[0].Doors, []cell.Listener{w.door})
	want(t, "the guard's questions", w.opened, []palyra.CallID{callID})
	want(t, "closings", w.closed, 1)
	want(t, "flows", res.Egress, []palyra.EgressFlow{{Host: "example.org", Port: 443, Verdict: "allow"}})
	want(t, "more flows", res.Omitted, 3)
	want(t, "mode", res.Enforcement.Mode, "preflight")
	if !slices.Contains(res.Enforcement.Mechanisms, Guarded) {
		t.Errorf("mechanisms %v", res.Enforcement.Mechanisms)
	}
}

// Sealed paths that others changed during a run are told to whoever keeps the
// record, and only then.
func TestChangedSealsAreTold(t *testing.T) {
	b, _ := walledBox(t)
	var told []string
	b.r.Changed = func(_ context.Context, c *palyra.Call, paths []string) {
		told = append(append(told, string(c.ID)), paths...)
	}
	b.sh("true")
	b.finished()
	want(t, "told of nothing", len(told), 0)
	b.back.changed = []string{".envrc", ".git/config"}
	res := b.finished()
	want(t, "told", told, []string{string(callID), ".envrc", ".git/config"})
	want(t, "quarantined", len(res.Quarantined), 0)
	var left []palyra.Remnant
	b.r.Left = func(_ context.Context, c *palyra.Call, list []palyra.Remnant) { left = list }
	b.back.left = []palyra.Remnant{{Kind: palyra.RemnantCommitted, Path: ".envrc", More: 3}}
	res = b.finished()
	want(t, "left", left, b.back.left)
	want(t, "in the result", res.Left, b.back.left)
}

func TestAGuardThatRefuses(t *testing.T) {
	b, w := walledBox(t)
	w.err = palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "not that host")
	want(t, "layer", b.refused(palyra.Denied, palyra.ReasonEgressDenied, "not that host").Layer, palyra.LayerEgress)
}

func TestAGatewayIsClosedWhenNothingStarts(t *testing.T) {
	b, w := walledBox(t)
	b.back.startErr = palyra.Errorf(palyra.Unavailable, palyra.ReasonSpawnFailed, "no")
	b.refused(palyra.Unavailable, palyra.ReasonSpawnFailed, "no")
	want(t, "closings", w.closed, 1)
}

func TestCachesOfAWalledRun(t *testing.T) {
	b, _ := walledBox(t)
	cache := filepath.Join(b.r.Caches, "abc", "go")
	b.plan.Mounts = []palyra.Mount{{Source: "/usr/share", Target: "/x"}, {Source: cache, Target: "/y", Writable: true}}
	b.finished()
	fi, err := os.Stat(cache)
	b.ok(err)
	want(t, "mode", fi.Mode().Perm(), os.FileMode(0o700))
	want(t, "mounts", b.back.started()[0].Mounts, b.plan.Mounts)
	long := time.Now().Add(-1000 * time.Hour)
	b.ok(os.Chtimes(filepath.Dir(cache), long, long))
	b.finished() // a second time it is there
	fi, err = os.Stat(filepath.Dir(cache))
	b.ok(err)
	want(t, "that it was used shows", fi.ModTime().After(long.Add(time.Hour)), true)

	for name, below := range map[string]string{"elsewhere": "/../../x", "the root itself": "", "back out": "/../x", "beside": "2/x"} {
		t.Run(name, func(t *testing.T) {
			b, _ := walledBox(t)
			b.plan.Mounts = []palyra.Mount{{Source: b.r.Caches + below, Target: "/y", Writable: true}}
			b.refused(palyra.Denied, palyra.ReasonBadProfile, "would be writable")
		})
	}
}

// A repository that a run makes in a cache is told, and so is one that it changes; one
// that was there is not. It stays, for it may be a package manager's.
func TestARepositoryInACache(t *testing.T) {
	b, _ := walledBox(t)
	cache := filepath.Join(b.r.Caches, "abc", "cargo")
	b.plan.Mounts = []palyra.Mount{{Source: cache, Target: "/y", Writable: true}}
	plant := func(at string) {
		b.ok(os.MkdirAll(filepath.Join(cache, at, "objects"), 0o755))
		b.ok(os.MkdirAll(filepath.Join(cache, at, "refs"), 0o755))
		b.ok(os.WriteFile(filepath.Join(cache, at, "HEAD"), nil, 0o644))
	}
	b.back.onStart = func(Job) { plant("git/db/x"); plant("r\xff/.git") }
	for _, told := range [][]palyra.Remnant{
		{{Kind: palyra.RemnantCache, Path: "cargo/r\xff/.git"}, {Kind: palyra.RemnantCache, Path: "cargo/git/db/x"}},
		nil,
	} {
		var heard []palyra.Remnant
		b.r.Left = func(_ context.Context, _ *palyra.Call, left []palyra.Remnant) { heard = left }
		res := b.finished()
		sort := func(x, y palyra.Remnant) int { return strings.Compare(y.Path, x.Path) }
		slices.SortFunc(res.Left, sort)
		slices.SortFunc(heard, sort)
		want(t, "left", res.Left, told)
		want(t, "told", heard, told)
		b.back.onStart = nil
		for was := time.Now(); !repofind.Clock().After(was); { // until the next run begins later
		}
	}
	if _, err := os.Stat(filepath.Join(cache, "r\xff/.git/HEAD")); err != nil {
		t.Error(err)
	}
}

// A cache that a run shuts is told, and hides nothing of the others.
func TestACacheThatIsShut(t *testing.T) {
	b, _ := walledBox(t)
	at := func(name string) string { return filepath.Join(b.r.Caches, "abc", name) }
	for _, name := range []string{"cargo", "go"} {
		b.plan.Mounts = append(b.plan.Mounts, palyra.Mount{Source: at(name), Target: "/" + name, Writable: true})
	}
	b.back.onStart = func(Job) {
		b.ok(os.Remove(at("cargo"))) // as root no mode shuts it
		b.ok(os.WriteFile(at("cargo"), nil, 0))
		b.ok(os.Mkdir(filepath.Join(at("go"), ".hg"), 0o755))
	}
	left := b.finished().Left
	want(t, "left", left, []palyra.Remnant{
		{Kind: palyra.RemnantUnsearched, Path: "cargo"}, {Kind: palyra.RemnantCache, Path: "go/.hg"},
	})
}

// Nothing that a run of the cache's owner could put there leads the daemon away.
func TestACacheThatIsALink(t *testing.T) {
	b, _ := walledBox(t)
	b.ok(os.MkdirAll(filepath.Join(b.r.Caches, "abc"), 0o711))
	b.ok(os.Symlink("/etc", filepath.Join(b.r.Caches, "abc", "go")))
	b.plan.Mounts = []palyra.Mount{{Source: filepath.Join(b.r.Caches, "abc", "go"), Target: "/y", Writable: true}}
	res := b.run()
	if res.Refusal == nil || len(b.back.started()) > 0 {
		t.Errorf("it ran: %+v", res)
	}
}

func TestAWalledProgramIsCopiedIntoMemory(t *testing.T) {
	b, _ := walledBox(t)
	path := b.file("tool", []byte("#!/bin/sh\necho hi\n"))
	b.program(path, path)
	b.plan.Executable.Sealed = true
	b.plan.Enforcement.Mechanisms = append(b.plan.Enforcement.Mechanisms, Sealed)
	b.run()
	if j := b.back.started(); len(j) != 1 || j[0].Path != path || j[0].Sealed == nil || j[0].Private != "" {
		t.Errorf("jobs %+v", j)
	}
}

func TestPostureCanBeDemanded(t *testing.T) {
	b, _ := walledBox(t)
	held := true
	b.r.Posture = func(palyra.Tier) (palyra.Digest, bool) { return "sha256:p", held }
	want(t, "posture", b.finished().Posture, "sha256:p")
	held = false
	b.finished() // it is not demanded
	b.r.Probed = true
	if r := b.run().Refusal; r == nil || r.Reason != palyra.ReasonPosture {
		t.Errorf("refusal %+v", r)
	}
	if _, err := b.r.Promise(t.Context(), palyra.TierB, palyra.Limits{}); palyra.AsError(err).Reason != palyra.ReasonPosture {
		t.Errorf("promise: %v", err)
	}
	held = true
	b.finished()
}

// Trying a tier out runs Palyra's own program and nothing else.
func TestATrialRunsOurOwnProgramOnly(t *testing.T) {
	b, w := walledBox(t)
	data, err := os.ReadFile("/bin/echo")
	b.ok(err)
	trial := Trial{
		Call: callID, Path: filepath.Join(b.ws, "x"), Argv: []string{"echo", "hello"}, Workspace: b.ws, UID: int64(ordinary()),
		GID: int64(ordinary()), Network: true,
	}
	if _, err := b.r.Try(t.Context(), palyra.TierB, trial); err == nil {
		t.Error("without a program of our own something ran")
	}
	b.r.Own = palyra.Executable{Path: "/bin/echo", Digest: palyra.SumBytes(data)}
	got, err := b.r.Try(t.Context(), palyra.TierB, trial)
	b.ok(err)
	want(t, "output", string(got.Stdout), "hello\n")
	want(t, "flows", len(got.Flows), 1)
	want(t, "closings", w.closed, 2)
	b.r.Own.Digest = palyra.SumBytes([]byte("another"))
	if _, err := b.r.Try(t.Context(), palyra.TierB, trial); err == nil {
		t.Error("another program was run")
	}
	if _, err := b.r.Try(t.Context(), palyra.TierC, trial); err == nil {
		t.Error("a tier that is not there was tried")
	}
}

// The cache's owner reaches it, whatever the daemon's umask is.
func TestACacheCanBeReached(t *testing.T) {
	b, _ := walledBox(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	cache := filepath.Join(b.r.Caches, "abc", "go")
	b.ok(makeCaches(b.r.Caches, []string{cache}, identity{ordinary(), ordinary()}))
	b.ok(runAs(identity{ordinary(), ordinary()}, func() error { return os.WriteFile(filepath.Join(cache, "x"), nil, 0o600) }))
}

// However many runs begin at once, each finds caches that are its user's; so does one after a daemon that was ended
// while it gave a cache away.
func TestACacheIsMadeBesideOthers(t *testing.T) {
	b, _ := walledBox(t)
	who := identity{ordinary(), ordinary()}
	for round := range 50 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for _, name := range []string{"go", "npm", "pip"} {
					if err := makeCaches(b.r.Caches, []string{filepath.Join(b.r.Caches, strconv.Itoa(round), name)}, who); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	left := filepath.Join(b.r.Caches, "0", "left")
	b.ok(os.Mkdir(left, 0o700))
	if os.Geteuid() == 0 {
		b.ok(os.Chmod(filepath.Dir(left), 0o700))
	}
	b.ok(makeCaches(b.r.Caches, []string{left}, who))
	b.ok(runAs(who, func() error { return os.WriteFile(filepath.Join(left, "x"), nil, 0o600) }))
}

// insiders is whoever answers runs that are agents.
type insiders struct {
	served []int64
	ended  int
	err    error
}

func (i *insiders) Serve(_ *palyra.Call, uid int64, socket *os.File) (func(), error) {
	closeAll(socket)
	if i.err != nil {
		return nil, i.err
	}
	i.served = append(i.served, uid)
	return func() { i.ended++ }, nil
}

// A run that is an agent itself has a door of its own, beside the guard's, that
// is closed with it.
func TestARunThatIsAnAgent(t *testing.T) {
	b, w := walledBox(t)
	in := &insiders{}
	b.r.Agents = in
	b.plan.AgentSocket, b.plan.UnixSockets = true, true
	b.back.onStart = func(j Job) { // as a backend does
		var files []*os.File
		for range j.Doors {
			f, err := os.Open(os.DevNull)
			b.ok(err)
			files = append(files, f)
		}
		b.ok(j.Open(files))
	}
	b.sh(`echo "$PALYRA_HOME"`)
	res := b.finished()
	want(t, "its home", strings.TrimSpace(string(res.Stdout)), cell.RoomPalyra)
	want(t, "doors", b.back.started()[0].Doors, []cell.Listener{w.door, {Path: agentSocket}})
	want(t, "who is served", in.served, []int64{int64(ordinary())})
	want(t, "ends", in.ended, 1)
	want(t, "sockets of the guard", w.sockets, 1)

	b.r.Agents = nil
	if r := b.run().Refusal; r == nil || r.Reason != palyra.ReasonTierUnavailable {
		t.Errorf("refusal %+v", r)
	}
}

// A workspace that could not be looked through after the run is no success.
func TestASweepThatFails(t *testing.T) {
	b, _ := walledBox(t)
	b.back.lost = palyra.Errorf(palyra.Unavailable, palyra.ReasonSealDenied, "not looked through")
	res := b.run()
	if res.Failure == nil || res.Failure.Reason != palyra.ReasonSealDenied || res.ExitCode == 0 {
		t.Errorf("%+v", res)
	}
}
