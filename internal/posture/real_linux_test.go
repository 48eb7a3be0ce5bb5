package posture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/egress"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/sandbox/confine"
)

func TestMain(m *testing.M) {
	code := m.Run()
	celltest.Clean()
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
		job.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + cell.RoomHome, "TMPDIR=" + cell.RoomTmp}
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
		Stdout: out.Bytes(), Code: x.Code, Signal: x.Signal, Limit: x.Limit, Quarantined: x.Quarantined, Enforcement: x.Enforcement,
		Flows: flows(),
	}, err
}

// job is a sandbox job; read returns when all that was printed is in out.
func (r *tiers) job(j Job, out io.Writer) (job sandbox.Job, read func(), err error) {
	in, err := os.Open(os.DevNull)
	if err != nil {
		return job, nil, err
	}
	sealed, err := image(r.t)
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
func image(t testing.TB) (*os.File, error) {
	path, _ := celltest.Cell(t)
	b, err := os.ReadFile(path)
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

// tierB opens the real tier B.
func tierB(t testing.TB, cgroup string) *tiers {
	t.Helper()
	path, digest := celltest.Cell(t)
	b, err := confine.New(confine.Config{Cell: path, Digest: digest, Cgroup: cgroup, StateID: celltest.StateID(), Log: celltest.Log(t)})
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
	dir := celltest.TempDir(t)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("%v is left in the scratch directory: %v", left, err)
		}
	})
	return Host{Runner: r, Tiers: which, Dir: dir, UID: int64(uid), GID: int64(gid), StateID: "01STATE", Now: time.Now, Log: celltest.Log(t)}
}

// users are the ones to try: ourselves and, where we are root, somebody else.
func users(t testing.TB) map[string][2]int {
	all := map[string][2]int{"own": {os.Geteuid(), os.Getegid()}}
	if os.Geteuid() == 0 {
		uid, gid := celltest.Whom(t)
		all["other"] = [2]int{uid, gid}
	}
	return all
}

// expectHeld: the tier is there and everything held.
func expectHeld(t *testing.T, p palyra.Posture, tier palyra.Tier) {
	t.Helper()
	got := tierOf(p, tier)
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
				for _, n := range tierOf(p, palyra.TierB).Notes {
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
func TestOrdinaryUser(t *testing.T) { celltest.AsOrdinary(t, "Tier|Notice|Believed|Kept", 5) }
