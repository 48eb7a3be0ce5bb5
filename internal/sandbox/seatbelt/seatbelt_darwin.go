package seatbelt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox"
)

// Driver is tier C on macOS.
type Driver struct {
	config Config
	uid    int64
	no     *palyra.Error // why the tier cannot be used; nil: it can
	facts  map[string]string

	mu     sync.Mutex
	closed bool
	live   map[*process]bool
	work   sync.WaitGroup
}

var _ interface {
	sandbox.Backend
	sandbox.Walled
} = (*Driver)(nil)

// New returns tier C as far as this host has it; Probe reports how far.
func New(c Config) (*Driver, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, errors.New("seatbelt: new: the directory is missing or not absolute")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(c.Dir, passMode); err != nil {
		return nil, fmt.Errorf("seatbelt: new: %w", err)
	}
	b := &Driver{config: c, uid: int64(os.Geteuid()), live: map[*process]bool{}, facts: map[string]string{}}
	if release, err := unix.Sysctl("kern.osproductversion"); err == nil {
		b.facts["macos"] = release
	}
	if release, err := unix.Sysctl("kern.osrelease"); err == nil {
		b.facts["kernel"] = release
	}
	if b.no = b.try(); b.no != nil {
		c.Log.Warn("tier C cannot be used", "reason", b.no.Reason, "why", b.no.Text, "remedy", b.no.Remedy, "err", b.no.Cause)
	}
	return b, nil
}

// Executor implements sandbox.Backend.
func (*Driver) Executor() string { return Executor }

// Tier implements sandbox.Backend.
func (*Driver) Tier() palyra.Tier { return palyra.TierC }

// Room implements sandbox.Walled: the private home replaces the room's, and the guard's proxy is the only way out.
func (*Driver) Room() bool { return true }

// Facts returns what the tier rests on here, for posture.
func (b *Driver) Facts() map[string]string { return b.facts }

// Probe implements sandbox.Backend.
func (b *Driver) Probe(_ context.Context, l palyra.Limits) (palyra.Enforcement, error) {
	if b.no != nil {
		return palyra.Enforcement{}, b.no
	}
	return enforcement(withDefaults(l)), nil
}

// try checks that the program that applies a profile is the system's own, and applies one that allows nothing and
// one that allows a program: the tier is refused if the first runs anything or the second does not.
func (b *Driver) try() *palyra.Error {
	for _, p := range []string{sandboxExec, shell} {
		if no := systemFile(p); no != nil {
			return no
		}
	}
	if code := tryProfile("(version 1)(deny default)"); code == 0 {
		return unavailable("a profile that denies everything let a program run").
			WithRemedy("run palyrad outside of any other sandbox, on macOS 12 or newer")
	}
	if code := tryProfile("(version 1)(allow default)"); code != 0 {
		return unavailable("sandbox-exec cannot apply a profile here (exit code %d)", code).
			WithRemedy("run palyrad outside of any other sandbox, on macOS 12 or newer")
	}
	return nil
}

// tryProfile runs a program that does nothing and returns its exit code, or -1.
func tryProfile(text string) int {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return -1
	}
	defer func() { _ = null.Close() }()
	p, err := os.StartProcess(sandboxExec, []string{sandboxExec, "-p", text, "/usr/bin/true"},
		&os.ProcAttr{Dir: "/", Env: []string{}, Files: []*os.File{null, null, null}})
	if err != nil {
		return -1
	}
	s, err := p.Wait()
	if err != nil {
		return -1
	}
	return s.ExitCode()
}

// systemFile refuses a file that is not root's, or that others can write.
func systemFile(path string) *palyra.Error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return unavailable("%s is not there", path).WithRemedy("it is part of macOS: repair the system").WithCause(err)
	}
	if st.Uid != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&(unix.S_IWGRP|unix.S_IWOTH|unix.S_ISUID|unix.S_ISGID) != 0 {
		return unavailable("%s is not the system's own program", path).WithRemedy("it is part of macOS: repair the system")
	}
	return nil
}

func unavailable(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, format, args...)
}

// Start implements sandbox.Backend. The context bounds only the starting.
func (b *Driver) Start(ctx context.Context, j sandbox.Job) (sandbox.Process, error) {
	defer j.CloseFiles()
	if b.no != nil {
		return nil, b.no
	}
	if !b.enter() {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping")
	}
	defer b.work.Done()
	if err := check(j, b.uid); err != nil {
		return nil, err
	}
	if err := checkVolume(j); err != nil {
		return nil, err
	}
	j.Limits = lowered(withDefaults(j.Limits))
	if err := sandbox.CheckPromise(applied(j), j.Expect); err != nil {
		return nil, err
	}
	p, err := b.start(ctx, j)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// checkVolume refuses a workspace whose path is not its real one, or on a file system that ignores
// characters in names: no profile could express the sealed names.
func checkVolume(j sandbox.Job) error {
	if real, err := filepath.EvalSymlinks(j.Workspace); err != nil || real != j.Workspace {
		return palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied, "the workspace is reached through a link").
			WithRemedy("register it by its real path, %q", palyra.Clip(real, 256)).WithCause(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(j.Workspace, &st); err != nil {
		return spawnFailed("the workspace cannot be looked at").WithCause(err)
	}
	if kind := unix.ByteSliceToString(st.Fstypename[:]); kind != "apfs" {
		return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied,
			"the workspace is on a file system of type %q, where other names than those that are sealed can mean the same", kind).
			WithRemedy("use a workspace on APFS")
	}
	return nil
}

// lowered lowers limits to the daemon's own: nobody but root can raise one.
func lowered(l palyra.Limits) palyra.Limits {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err == nil && own.Max < uint64(l.OpenFiles) {
		l.OpenFiles = int64(own.Max)
	}
	return l
}

func (b *Driver) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.work.Add(1)
	}
	return !b.closed
}

func (b *Driver) track(p *process, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if on {
		b.live[p] = true
	} else {
		delete(b.live, p)
	}
}

// Close implements sandbox.Backend: it ends whatever still runs, and waits.
func (b *Driver) Close() error {
	b.mu.Lock()
	b.closed = true
	running := slices.Collect(maps.Keys(b.live))
	b.mu.Unlock()
	for _, p := range running {
		p.Stop(string(palyra.ReasonStopping), 0)
	}
	b.work.Wait()
	return nil
}
