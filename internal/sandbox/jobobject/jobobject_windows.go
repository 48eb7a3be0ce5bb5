package jobobject

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/windows"

	"palyra"
	"palyra/internal/sandbox"
)

// Driver is tier C on Windows.
type Driver struct {
	config Config
	system system
	no     *palyra.Error // why the tier cannot be used; nil: it can
	facts  map[string]string

	mu     sync.Mutex
	closed bool
	live   map[*process]bool
	given  map[string]bool // workspaces whose access lists are complete
	work   sync.WaitGroup
}

var _ sandbox.Backend = (*Driver)(nil)

// New returns tier C as far as this host has it; Probe reports how far.
func New(c Config) (*Driver, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	v := windows.RtlGetVersion()
	b := &Driver{
		config: c, live: map[*process]bool{}, given: map[string]bool{},
		facts: map[string]string{"windows": fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)},
	}
	if b.no = b.try(v); b.no != nil {
		c.Log.Warn("tier C cannot be used", "reason", b.no.Reason, "why", b.no.Text, "remedy", b.no.Remedy, "err", b.no.Cause)
	}
	return b, nil
}

// try makes a token and a job once, and discards them.
func (b *Driver) try(v *windows.OsVersionInfoEx) *palyra.Error {
	if v.MajorVersion < 10 {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "tier C needs Windows 10 or newer").WithRemedy("update the system")
	}
	if !b.config.HostNetwork {
		return networkRefusal()
	}
	root, err := windows.GetSystemWindowsDirectory()
	if err != nil || !clean(root) {
		return unavailable("the directory of Windows is not known").WithRemedy("see the daemon's log").WithCause(err)
	}
	b.system = system{root}
	t, err := makeToken(tokenPlan{
		restrict: []string{everyone, users, restricted}, deny: powerful, integrity: lowIntegrity,
		flags: noPrivileges | luaToken, owner: everyone,
	})
	if err != nil {
		return unavailable("no restricted token can be made here").WithRemedy("see the daemon's log").WithCause(err)
	}
	_ = t.Close()
	job, err := makeJob(limits(palyra.Limits{}))
	if err != nil {
		return unavailable("no job object can be made here").WithRemedy("see the daemon's log").WithCause(err)
	}
	_ = windows.CloseHandle(job)
	return nil
}

// Executor implements sandbox.Backend.
func (*Driver) Executor() string { return Executor }

// Tier implements sandbox.Backend.
func (*Driver) Tier() palyra.Tier { return palyra.TierC }

// Facts returns what the tier rests on here, for posture.
func (b *Driver) Facts() map[string]string { return maps.Clone(b.facts) }

// Probe implements sandbox.Backend.
func (b *Driver) Probe(context.Context, palyra.Limits) (palyra.Enforcement, error) {
	if b.no != nil {
		return palyra.Enforcement{}, b.no
	}
	return enforcement(), nil
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
	if err := sandbox.CheckPromise(enforcement(), j.Expect); err != nil {
		return nil, err
	}
	p, err := resolve(j, b.config.StateID, b.system)
	if err != nil {
		return nil, err
	}
	if err := b.admit(p.access, j.Workspace); err != nil {
		return nil, spawnFailed("the run could not be given its directories").WithCause(err)
	}
	if err := ctx.Err(); err != nil { // the last check before something runs
		return nil, err
	}
	proc, err := b.launch(p, j)
	if err != nil {
		return nil, err
	}
	return proc, nil
}

// admit gives access, to a workspace once: that goes through all of its files.
func (b *Driver) admit(entries []access, workspace string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.given[workspace] {
		entries = slices.DeleteFunc(slices.Clone(entries), func(a access) bool { return a.path == workspace })
	}
	if err := give(entries); err != nil {
		return err
	}
	b.given[workspace] = true
	return nil
}

func spawnFailed(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonSpawnFailed, format, args...).WithRemedy("see the daemon's log")
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

// Recover implements sandbox.Backend. A job ends with the daemon that held it, so nothing is left.
func (*Driver) Recover(context.Context) error { return nil }

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
