package posture

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/egress"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/confine"
)

// Where the cell was built, for the tests of an ordinary user that TestMain of
// root starts.
const (
	cellVar = "PALYRA_TEST_CELL"
	baseVar = "PALYRA_TEST_BASE"
)

var built, base string

func TestMain(m *testing.M) {
	code, err := func() (int, error) {
		if built, base = os.Getenv(cellVar), os.Getenv(baseVar); built != "" {
			return m.Run(), nil
		}
		var err error
		if base, err = os.MkdirTemp("", "palyra-posture-"); err != nil {
			return 1, err
		}
		defer func() { _ = os.RemoveAll(base) }()
		if err := os.Chmod(base, 0o711); err != nil {
			return 1, err
		}
		built = filepath.Join(base, "palyra-cell")
		cmd := exec.Command("go", "build", "-o", built, "palyra/cmd/palyra-cell")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build the cell: %w\n%s", err, out)
		}
		return m.Run(), nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// tiers runs probes through real backends, as the daemon does.
type tiers struct {
	t        testing.TB
	backends map[palyra.Tier]sandbox.Backend
	guard    *egress.Guard      // nil: no doors
	change   func(*sandbox.Job) // nil: nothing
}

func (r *tiers) Promise(ctx context.Context, tier palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	return r.backends[tier].Probe(ctx, l)
}

func (r *tiers) Run(ctx context.Context, tier palyra.Tier, j Job) (Exit, error) {
	var out bytes.Buffer
	job, read, err := r.job(j, &out)
	if err != nil {
		return Exit{}, err
	}
	flows := func() []palyra.EgressFlow { return nil }
	if tier == palyra.TierC {
		job.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + sandbox.RoomHome, "TMPDIR=" + sandbox.RoomTmp}
		if j.Network && r.guard != nil {
			g, err := r.guard.Open(ctx, nil, palyra.Plan{})
			if err != nil {
				return Exit{}, err
			}
			flows = func() []palyra.EgressFlow { all, _ := g.Close(); return all }
			job.Doors, job.Open, job.Env = g.Doors(), g.Serve, append(job.Env, g.Env()...)
		}
	}
	if r.change != nil {
		r.change(&job)
	}
	p, err := r.backends[tier].Start(ctx, job)
	if err != nil {
		read()
		_ = flows()
		return Exit{}, fmt.Errorf("%w (%w)", err, palyra.AsError(err).Cause)
	}
	stop := context.AfterFunc(ctx, func() { p.Stop("timeout", 0) })
	defer stop()
	x, err := p.Wait()
	read()
	if err != nil {
		r.t.Logf("wait: %v: %v", err, palyra.AsError(err).Cause)
	}
	return Exit{
		Stdout: out.Bytes(), Code: x.Code, Signal: x.Signal, Limit: x.Limit, Quarantined: x.Quarantined, Enforcement: x.Enforcement, Flows: flows(),
	}, err
}

// job is a sandbox job; read returns when all that was printed is in out.
func (r *tiers) job(j Job, out io.Writer) (job sandbox.Job, read func(), err error) {
	in, err := os.Open(os.DevNull)
	if err != nil {
		return job, nil, err
	}
	sealed, err := image()
	if err != nil {
		return job, nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return job, nil, err
	}
	errs, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return job, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(out, io.LimitReader(from, 64<<10))
		_ = from.Close()
	}()
	return sandbox.Job{
		Call: j.Call, Path: j.Path, Sealed: sealed, Argv: j.Argv, Cwd: j.Workspace, Workspace: j.Workspace, Private: j.Private,
		Env: []string{"PATH=/usr/bin:/bin", "HOME=" + j.Private + "/home", "TMPDIR=" + j.Private + "/tmp"},
		UID: j.UID, GID: j.GID, Limits: j.Limits, Seals: j.Seals, Stdin: in, Stdout: to, Stderr: errs,
	}, func() { <-done }, nil
}

// image is the cell as a sealed file.
func image() (*os.File, error) {
	b, err := os.ReadFile(built)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("palyra-cell", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "palyra-cell")
	if _, err := f.Write(b); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	return f, err
}

type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func logTo(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(logWriter{t}, nil)) }

var state struct {
	sync.Mutex
	n int
}

func stateID() string {
	state.Lock()
	defer state.Unlock()
	state.n++
	return fmt.Sprintf("posture-%d-%d", os.Getpid(), state.n)
}

func digestOf(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// tierB opens the real tier B.
func tierB(t testing.TB, cgroup string) *tiers {
	t.Helper()
	b, err := confine.New(confine.Config{Cell: built, Digest: digestOf(t, built), Cgroup: cgroup, StateID: stateID(), Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return &tiers{t: t, backends: map[palyra.Tier]sandbox.Backend{palyra.TierB: b}}
}

// host is this machine with a scratch directory of its own.
func host(t testing.TB, r Runner, uid, gid int, which ...palyra.Tier) Host {
	t.Helper()
	dir, err := os.MkdirTemp(base, "scratch-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("%v is left in the scratch directory: %v", left, err)
		}
		_ = os.RemoveAll(dir)
	})
	return Host{Runner: r, Tiers: which, Dir: dir, UID: int64(uid), GID: int64(gid), StateID: "01STATE", Now: time.Now, Log: logTo(t)}
}

// users are the ones to try: ourselves and, where we are root, somebody else.
func users(t testing.TB) map[string][2]int {
	all := map[string][2]int{"own": {os.Geteuid(), os.Getegid()}}
	if os.Geteuid() == 0 {
		uid, gid := ordinary(t)
		all["other"] = [2]int{uid, gid}
	}
	return all
}

func ordinary(t testing.TB) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup("palyra-test")
	if err != nil {
		if out, err := exec.Command("useradd", "--system", "--no-create-home", "--shell", "/bin/sh", "palyra-test").CombinedOutput(); err != nil {
			t.Fatalf("useradd: %v: %s", err, out)
		}
		if u, err = user.Lookup("palyra-test"); err != nil {
			t.Fatal(err)
		}
	}
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid
}

// expectHeld: the tier is there and everything held.
func expectHeld(t *testing.T, p palyra.Posture, tier palyra.Tier) {
	t.Helper()
	got := of(p, tier)
	if !got.Available || got.Tier != tier || !p.Held() {
		t.Errorf("%+v", got)
	}
	var want []string
	for _, pr := range probes() {
		if pr.tiers == nil || tier == palyra.TierC {
			want = append(want, pr.name)
		}
	}
	if len(got.Probes) != len(want) {
		t.Errorf("%d probes, want %v", len(got.Probes), want)
	}
	for _, pr := range got.Probes {
		t.Logf("%-24s %v %s", pr.Name, pr.Held, pr.Detail)
		if !pr.Held || pr.Remedy != "" || pr.Detail == "" {
			t.Errorf("%+v", pr)
		}
	}
}

// TestTierB: the real tier B holds against every probe, with cgroups and without,
// for ourselves and for others.
func TestTierB(t *testing.T) {
	for name, who := range users(t) {
		for _, cgroup := range []string{confine.CgroupAuto, confine.CgroupOff} {
			t.Run(name+"/"+cgroup, func(t *testing.T) {
				p, err := Check(t.Context(), host(t, tierB(t, cgroup), who[0], who[1], palyra.TierB))
				if err != nil {
					t.Fatal(err)
				}
				expectHeld(t, p, palyra.TierB)
				noted := false
				for _, n := range of(p, palyra.TierB).Notes {
					noted = noted || strings.Contains(n, "Delegate=yes")
				}
				if cgroup == confine.CgroupOff && !noted {
					t.Error("nobody says that a cgroup would be better")
				}
			})
		}
	}
}

// TestOrdinaryUser runs every other test as somebody who may do nothing special.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: what only root can do: the tests themselves run as an ordinary user")
	}
	uid, gid := ordinary(t)
	dir, err := os.MkdirTemp(base, "user-")
	if err != nil {
		t.Fatal(err)
	}
	copied := func(from, name string) string {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	work := filepath.Join(dir, "work")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(work, 0o755), os.Chown(work, uid, gid)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied("/proc/self/exe", "posture.test"), "-test.v", "-test.timeout=5m", "-test.run=Tier|Notice|Believed|Kept")
	cmd.Dir = work
	cmd.Env = append(os.Environ(), cellVar+"="+copied(built, "palyra-cell"), baseVar+"="+work, "TMPDIR="+work, "HOME="+work)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as uid %d: %v\n%s", uid, err, out)
	}
	if n := strings.Count(string(out), "--- PASS"); n < 5 {
		t.Errorf("only %d tests passed as uid %d", n, uid)
	}
}
