package confine

import (
	"context"
	"errors"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/local"
)

// Driver is tier B on Linux.
type Driver struct {
	fleet *cells.Fleet
	local *local.Places      // paths of the system that no run may see
	holds palyra.Enforcement // for every run, with the fleet's cgroups
	no    *palyra.Error      // why the tier cannot be used; nil: it can
	pool  pool

	mounts *mounts
}

// New returns tier B as far as this host has it; Probe reports how far. It makes the process a
// subreaper, so that processes of a lost cell can be found and reaped.
func New(c Config) (*Driver, error) {
	if c.Warm < 0 {
		return nil, errors.New("confine: new: a negative number of cells")
	}
	f, err := cells.NewFleet(cells.Config{
		Tier: palyra.TierB, Cell: c.Cell, Digest: c.Digest, Cgroup: c.Cgroup, StateID: c.StateID,
		Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	b := &Driver{fleet: f, local: c.Places, mounts: newMounts()}
	if b.local == nil {
		b.local = &local.Places{}
	}
	b.pool.init(b, c.Warm)
	if b.no = f.Prepare(); b.no != nil {
		f.Log.Warn("tier B cannot be used", "reason", b.no.Reason, "why", b.no.Text, "remedy", b.no.Remedy, "err", b.no.Cause)
		return b, nil
	}
	b.holds = enforcement(f, f.Groups)
	_ = b.local.Hidden() // the first look takes long, and no call should wait for it
	b.pool.start()
	return b, nil
}

// Executor implements sandbox.Backend.
func (*Driver) Executor() string { return executor }

// Tier implements sandbox.Backend.
func (*Driver) Tier() palyra.Tier { return palyra.TierB }

// Probe implements sandbox.Backend. It does not know the run's user; Exit has that.
func (b *Driver) Probe(context.Context, palyra.Limits) (palyra.Enforcement, error) {
	if b.no != nil {
		return palyra.Enforcement{}, b.no
	}
	return cells.Clone(b.holds), nil
}

// Start implements sandbox.Backend. The context bounds only the starting; once the order to run is given, Start
// returns a Process, even one that is already being stopped, because something may have run.
func (b *Driver) Start(ctx context.Context, j sandbox.Job) (sandbox.Process, error) {
	defer j.CloseFiles()
	if b.no != nil {
		return nil, b.no
	}
	if !b.fleet.Enter() {
		return nil, b.fleet.Stopping()
	}
	defer b.fleet.Leave()
	if err := b.check(j); err != nil {
		return nil, err
	}
	j.Limits = cells.WithDefaults(j.Limits)
	for tries := b.pool.size + 1; ; tries-- {
		k, err := b.pool.take(ctx, userOf(j))
		if err != nil {
			return nil, err
		}
		p, err := b.launch(ctx, k, j)
		if errors.Is(err, cells.ErrStale) && tries > 0 {
			continue // it died while it was idle; the next one, or a new one
		}
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}

// launch gives a job to a keeper.
func (b *Driver) launch(ctx context.Context, k *keeper, j sandbox.Job) (*cells.Process, error) {
	e := applied(enforcement(b.fleet, k.Cgroups()), j)
	if err := sandbox.CheckPromise(e, j.Expect); err != nil {
		b.pool.giveBack(k)
		return nil, err
	}
	var s cell.Spec
	var err error
	if k.user == nil {
		err = k.become(userOf(j))
	}
	if err == nil {
		s, err = b.spec(j, k)
	}
	if err == nil {
		err = k.Limit(j.Limits, cells.LaunchTasks)
	}
	if err != nil {
		k.Discard()
		return nil, err
	}
	p, err := k.Run(ctx, s, j, cells.Terms{Holds: e, Explain: explain})
	k.drop()
	b.pool.note(userOf(j))
	b.pool.refillSoon()
	if err != nil || j.Limits.Processes >= cells.LaunchTasks {
		return p, err
	}
	if err := k.Limit(j.Limits, 0); err != nil { // the cell counts as well, so nothing escapes
		b.fleet.Log.Error("a small limit of processes is only polled", "err", palyra.AsError(err).Cause)
	}
	return p, nil
}

// Recover implements sandbox.Backend.
func (b *Driver) Recover(ctx context.Context) error {
	if b.no != nil {
		return nil // nothing could be started here, so nothing is left
	}
	return b.fleet.Recover(ctx)
}

// Close implements sandbox.Backend: it ends idle cells and whatever still runs, and waits for both.
func (b *Driver) Close() error {
	err := b.fleet.Close(b.pool.drain)
	b.mounts.close()
	return err
}
