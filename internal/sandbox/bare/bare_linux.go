package bare

import (
	"context"
	"errors"
	"os"
	"sync"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/refusal"
)

const (
	watchEveryMS = 200  // interval of the cell's looks
	spareTasks   = 1024 // for the user's other work, which grows after the count and shares the limit
	nobody       = 65534
)

// Driver starts programs in bare cells.
type Driver struct {
	fleet *cells.Fleet
	no    *palyra.Error // why nothing can be started; nil: it can

	mu     sync.Mutex
	image  *os.File // of the program, from its first start on
	config Config
}

// New returns a driver; Ready says whether it can be used.
func New(c Config) (*Driver, error) {
	f, err := cells.NewFleet(cells.Config{
		Tier: palyra.TierB, Cell: c.Cell, Digest: c.Digest, Cgroup: c.Cgroup, StateID: c.StateID, Kind: c.Kind, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	d := &Driver{fleet: f, config: c}
	if d.no = f.Prepare(); d.no != nil {
		return d, nil
	}
	if _, err := os.Stat(c.Program); c.ProgramDigest == "" || err != nil {
		d.no = refusal.Unavailable("%s is not installed, or this palyrad was built without it", c.Name).WithRemedy("%s", c.Remedy).WithCause(err)
	}
	return d, nil
}

// program opens the image of the program once more. It is read when it is needed first: it is large.
func (d *Driver) program() (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.image == nil {
		f, no := cells.Image(d.config.Name, d.config.Program, d.config.ProgramDigest)
		if no != nil {
			return nil, no
		}
		d.image = f
	}
	return cells.Again(d.image, os.O_RDONLY)
}

// Ready says why nothing can be started; nil: it can.
func (d *Driver) Ready() error {
	if d.no != nil {
		return d.no
	}
	return nil
}

// Enforcement is what holds for every program.
func (d *Driver) Enforcement() palyra.Enforcement {
	own := []string{"no_network", "no_files", "no_exec"}
	if d.fleet.Host.ABI >= cells.LandlockScope {
		own = append(own, "landlock_signal_scope", "landlock_abstract_scope")
	}
	return d.fleet.Enforcement(d.fleet.Groups, own...)
}

// Start starts the program with its two pipes and these limits. The context bounds the start.
func (d *Driver) Start(ctx context.Context, l palyra.Limits) (*Program, error) {
	if d.no != nil {
		return nil, d.no
	}
	if !d.fleet.Enter() {
		return nil, d.fleet.Stopping()
	}
	defer d.fleet.Leave()
	k, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	p, j, err := d.pipes(cells.WithDefaults(l))
	if err != nil {
		k.Discard()
		if e := (*palyra.Error)(nil); errors.As(err, &e) {
			return nil, e
		}
		return nil, refusal.SpawnFailed("no descriptors are left").WithCause(err)
	}
	defer j.CloseFiles()
	if err := d.launch(ctx, k, p, j); err != nil {
		p.closePipes()
		return nil, err
	}
	return p, nil
}

// open starts a cell and waits until it is ready.
func (d *Driver) open(ctx context.Context) (*cells.Keeper, error) {
	k, err := d.fleet.Open(func(k *cells.Keeper, control, logs *os.File) (cells.Body, error) {
		args := []string{"supervise"}
		if k.Group != nil {
			args = append(args, k.Group.Places()...)
		}
		return k.Exec(control, logs, args...)
	})
	if err != nil {
		return nil, err
	}
	r, err := k.Next(ctx)
	if err == nil && (r.Kind != cell.ReportReady || r.Version != cell.Version || r.Launcher <= 0) {
		cell.CloseAll(r.Files)
		err = refusal.Unavailable("palyra-cell speaks another version").WithRemedy(refusal.CellRemedy)
	}
	if err != nil {
		k.Discard()
		return nil, err
	}
	k.Session(r.Launcher)
	return k, nil
}

// pipes makes the streams of a program. What it writes to stderr goes where cells write.
func (d *Driver) pipes(l palyra.Limits) (*Program, sandbox.Job, error) {
	var p Program
	var j sandbox.Job
	var err [4]error
	j.Limits = l
	j.Stdin, p.in, err[0] = os.Pipe()
	p.out, j.Stdout, err[1] = os.Pipe()
	j.Stderr, err[2] = cells.Again(d.fleet.Logs(), os.O_WRONLY)
	j.Sealed, err[3] = d.program()
	if err := errors.Join(err[:]...); err != nil {
		j.CloseFiles()
		p.closePipes()
		return nil, j, err
	}
	return &p, j, nil
}

// launch gives the program to a cell.
func (d *Driver) launch(ctx context.Context, k *cells.Keeper, p *Program, j sandbox.Job) error {
	s, err := d.spec(k, j.Limits)
	if err == nil {
		err = k.Limit(j.Limits, cells.LaunchTasks)
	}
	if err != nil {
		k.Discard()
		return err
	}
	holds := d.Enforcement()
	terms := cells.Terms{Holds: holds, Explain: func(r cell.Report) error { return refusal.NotStarted(r) }}
	if p.proc, err = k.Run(ctx, s, j, terms); err != nil {
		return err
	}
	d.fleet.Go(func() {
		<-p.proc.Done()
		p.closePipes()
	})
	return nil
}

// spec writes the program down for a cell: nobody's, without any path, variable or socket.
func (d *Driver) spec(k *cells.Keeper, l palyra.Limits) (cell.Spec, error) {
	owner := d.fleet.UID
	if owner == 0 {
		owner = nobody
	}
	c := k.Cgroups()
	filter, err := d.fleet.Filter(cells.Subject{Owner: uint32(owner), Group: uint32(owner), Polled: c.Memory == ""})
	if err != nil {
		return cell.Spec{}, err
	}
	s := cell.Spec{
		Version: cell.Version, Path: "/", Sealed: true, Argv: []string{d.config.Name}, Env: []string{}, Cwd: "/",
		Landlock: cells.Masks(d.fleet.Host.ABI), Filter: filter,
		Watch: cell.Watch{EveryMS: watchEveryMS, CPUMS: l.CPUMS, Counters: k.Counters()},
	}
	if d.fleet.UID == 0 {
		s.Identity = &cell.Identity{UID: nobody, GID: nobody}
	}
	var tasks int64
	if c.Pids == "" {
		tasks = d.fleet.Tasks(owner) + l.Processes + spareTasks
		s.Watch.Processes = l.Processes
	}
	if c.Memory == "" {
		s.Watch.Memory = l.MemoryBytes
	}
	s.Rlimits = k.Rlimits(l, tasks)
	return s, nil
}

// Recover ends what an earlier daemon left behind.
func (d *Driver) Recover(ctx context.Context) error {
	if d.no != nil {
		return nil // nothing could be started here, so nothing is left
	}
	return d.fleet.Recover(ctx)
}

// Close ends every program, and waits for that.
func (d *Driver) Close() error {
	err := d.fleet.Close(func() {})
	if d.image != nil {
		err = errors.Join(err, d.image.Close())
	}
	return err
}

// Program is a running program.
type Program struct {
	in, out *os.File
	proc    *cells.Process
}

// Streams are the pipes to its stdin and from its stdout.
func (p *Program) Streams() (in, out *os.File) { return p.in, p.out }

// Kill ends it and everything in its cell. It does not wait.
func (p *Program) Kill(reason string) { p.proc.Stop(reason, 0) }

// Done is closed when nothing of it is left.
func (p *Program) Done() <-chan struct{} { return p.proc.Done() }

// Limit is the name of the limit that ended it, once it is done; empty: none did.
func (p *Program) Limit() string {
	x, _ := p.proc.Wait()
	return x.Limit
}

func (p *Program) closePipes() { cell.CloseAll([]*os.File{p.in, p.out}) }
