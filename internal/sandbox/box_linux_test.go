package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"palyra"
)

// TestMain handles hangups, so that they are as by default in what the fake backend
// starts, also where our parent ignores them (nohup).
func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	goleak.VerifyTestMain(m)
}

// stranger is a uid that no system knows. A suite that is root works for it, one
// that is not for itself: programs never run as root unless a test says so.
const stranger = 54321

func ordinary() int {
	if uid := os.Geteuid(); uid != 0 {
		return uid
	}
	return stranger
}

// box is a runner with a fake backend, a workspace and a plan in it.
type box struct {
	t      testing.TB
	base   string // passable by everybody
	ws     string
	dir    string
	back   *fake
	crowd  *audience
	r      *Runner
	log    *lockedBuffer
	plan   palyra.Plan
	stdin  []byte
	size   func(palyra.Plan) (int, int)
	launch func(palyra.Launch, *palyra.Call) (palyra.Launch, *palyra.Call)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func passable(t testing.TB) string {
	t.Helper()
	base, err := os.MkdirTemp("", "sandbox")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	return base
}

func newBox(t testing.TB) *box { return newBoxFor(t, ordinary()) }

func newBoxFor(t testing.TB, uid int) *box {
	t.Helper()
	b := &box{t: t, base: passable(t), crowd: &audience{}, log: &lockedBuffer{}}
	b.ws, b.dir = filepath.Join(b.base, "work"), filepath.Join(b.base, "rooms")
	b.ok(os.Mkdir(b.ws, 0o755))
	if os.Geteuid() == 0 {
		b.ok(os.Chown(b.ws, uid, uid))
	}
	holds := palyra.Enforcement{
		Mode: "strict", Mechanisms: []string{"cell", "seccomp"},
		Limits: map[string]palyra.Hold{"memory": "polled", "output": "cap"},
	}
	b.back = &fake{t: t, tier: palyra.TierB, probe: holds}
	b.plan = palyra.Plan{
		Tool: "palyra.process.run", Arguments: []byte(`{}`), Tier: palyra.TierB, Cwd: b.ws, Enforcement: holds,
		Workspace: palyra.WorkspaceRef{Path: b.ws, Owner: int64(uid), Known: true}, Limits: palyra.Limits{WallMS: 60_000},
	}
	b.sh("true")
	r, err := New(Config{
		Backends: []Backend{b.back}, Dir: b.dir, Streams: b.crowd, Grace: 5 * time.Second, Now: time.Now,
		Stdin: func(palyra.Plan) ([]byte, error) { return b.stdin, nil },
		Size: func(p palyra.Plan) (int, int) {
			if b.size == nil {
				return 0, 0
			}
			return b.size(p)
		},
		Log: slog.New(slog.NewTextHandler(b.log, nil)),
	})
	b.ok(err)
	b.r = r
	t.Cleanup(func() {
		for _, f := range b.back.held {
			b.ok(f.Close())
		}
		b.ok(r.Close())
	})
	return b
}

func (b *box) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// sh makes the plan run a shell command.
func (b *box) sh(command string) {
	b.t.Helper()
	b.program("/bin/sh", "sh", "-c", command)
}

func (b *box) program(path string, argv ...string) {
	b.t.Helper()
	real, err := filepath.EvalSymlinks(path)
	b.ok(err)
	data, err := os.ReadFile(real)
	b.ok(err)
	b.plan.Executable = palyra.Executable{Path: real, Digest: palyra.SumBytes(data)}
	b.plan.Argv = argv
}

// file makes an executable file of the workspace's owner.
func (b *box) file(name string, data []byte) string {
	b.t.Helper()
	path := filepath.Join(b.ws, name)
	b.ok(os.WriteFile(path, data, 0o755))
	if os.Geteuid() == 0 {
		b.ok(os.Chown(path, int(b.plan.Workspace.Owner), int(b.plan.Workspace.Owner)))
	}
	return path
}

const callID = palyra.CallID("01JABCDEFGHJKMNPQRSTVWXYZ0")

func (b *box) confirmed() (palyra.Launch, *palyra.Call) {
	b.t.Helper()
	digest, err := b.plan.Digest()
	b.ok(err)
	c := &palyra.Call{ID: callID, Plan: b.plan, Digest: digest, Verdict: palyra.Verdict{Effect: palyra.Allow}}
	g, err := palyra.NewGrant("grant", c, time.Now())
	b.ok(err)
	l, err := g.Confirm(b.plan)
	b.ok(err)
	if b.launch != nil {
		l, c = b.launch(l, c)
	}
	return l, c
}

// run runs the plan. Whatever comes of it, no descriptor and no room stays.
func (b *box) run() palyra.Result { b.t.Helper(); return b.runIn(b.t.Context()) }

func (b *box) runIn(ctx context.Context) palyra.Result {
	b.t.Helper()
	l, c := b.confirmed()
	before := descriptors(b.t)
	res := b.r.Run(ctx, l, c)
	b.swept()
	if after := descriptors(b.t); len(after) > len(before)+len(b.back.held) {
		b.t.Errorf("descriptors stay open: %v, before %v", after, before)
	}
	if left, err := os.ReadDir(b.dir); err != nil || len(left) > 0 {
		b.t.Errorf("rooms stay: %v, %v", left, err)
	}
	if res.Started.IsZero() || res.Finished.Before(res.Started) {
		b.t.Errorf("from %v to %v", res.Started, res.Finished)
	}
	return res
}

// swept waits until no removal is under way.
func (b *box) swept() {
	for range maxSweeps {
		b.r.sweeps <- struct{}{}
	}
	for range maxSweeps {
		<-b.r.sweeps
	}
}

func descriptors(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.Contains(to, "anon_inode") && !strings.Contains(to, "/proc/") { // the poller, and our own look
			out = append(out, to)
		}
	}
	return out
}

// finished runs the plan and expects that nothing went wrong.
func (b *box) finished() palyra.Result {
	b.t.Helper()
	res := b.run()
	if res.Refusal != nil || res.Failure != nil {
		b.t.Fatalf("refusal %+v, failure %+v, stderr %s, log %s", res.Refusal, res.Failure, res.Stderr, b.log)
	}
	return res
}

// refused runs the plan and expects that nothing ran.
func (b *box) refused(code palyra.Code, reason palyra.Reason, text string) palyra.Refusal {
	b.t.Helper()
	res := b.run()
	if n := len(b.back.started()); n > 0 {
		b.t.Errorf("%d programs ran", n)
	}
	if res.Refusal == nil {
		b.t.Fatalf("not refused: %+v", res)
	}
	if r := *res.Refusal; r.Code != code || r.Reason != reason || !strings.Contains(r.Text, text) {
		b.t.Errorf("refused with %s %s %q, want %s %s …%s…", r.Code, r.Reason, r.Text, code, reason, text)
	}
	return *res.Refusal
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s is %s, want %s", what, g, w)
	}
}
