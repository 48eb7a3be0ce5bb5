package confine

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/ruleset"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/refusal"
)

// keeper is a running cell with the rules that were made ahead for it.
type keeper struct {
	*cells.Keeper
	b     *Driver
	rules []cell.Rule // made ahead; nil: none
	ahead []identity  // of the files that they were made for
	sight *sight      // of the directories that lead to them
	since time.Time   // when they were made

	line   *cell.Conn // to its launcher
	user   *user      // whom that became; nil: nobody yet
	became cell.Spec  // what it became
	set    ruleset.Set
}

// user is whom a run is for.
type user struct{ uid, gid int64 }

// userOf is whom a job is for.
func userOf(j sandbox.Job) user { return user{j.UID, j.GID} }

// open starts a cell and waits until it is ready.
func (b *Driver) open(ctx context.Context) (*keeper, error) {
	ours, theirs, err := cell.Pair()
	if err != nil {
		return nil, err
	}
	line, err := cell.NewConn(ours)
	if err != nil {
		return nil, errors.Join(err, theirs.Close())
	}
	inner, err := b.fleet.Open(func(k *cells.Keeper, control, logs *os.File) (cells.Body, error) {
		defer func() { _ = theirs.Close() }()
		args := []string{"supervise", cell.LaunchArg}
		if k.Group != nil {
			args = append(args, k.Group.Places()...)
		}
		return k.ExecWith([]*os.File{control, theirs}, logs, args...)
	})
	if err != nil {
		return nil, errors.Join(err, line.Close())
	}
	k := &keeper{Keeper: inner, b: b, line: line}
	if err := ready(ctx, inner); err != nil {
		k.Discard()
		return nil, err
	}
	return k, nil
}

// Discard ends a keeper without a program.
func (k *keeper) Discard() {
	k.drop()
	k.Keeper.Discard()
}

// drop closes what is needed for a run alone.
func (k *keeper) drop() {
	_ = k.line.Close()
	k.set.Forget()
}

// ready waits for the first report.
func ready(ctx context.Context, k *cells.Keeper) error {
	r, err := k.Next(ctx)
	if err != nil {
		return err
	}
	cell.CloseAll(r.Files)
	if r.Kind != cell.ReportReady || r.Version != cell.Version || r.Launcher <= 0 {
		return refusal.Unavailable("palyra-cell speaks another version").WithRemedy(refusal.CellRemedy)
	}
	k.Session(r.Launcher)
	return nil
}

// prepare makes rules ahead that every job needs. Without them the next job says why it cannot be started.
func (k *keeper) prepare() {
	room := cells.Masks(k.b.fleet.Host.ABI)
	k.since = time.Now()
	k.rules = k.b.rules()
	k.sight = lookAt(k.b.mounts, k.rules)
	room.Rules, k.ahead = k.rules, identities(k.rules)
	if err := k.set.Complete(&room); err != nil {
		k.b.fleet.Log.Warn("a cell could not be prepared", "err", err)
	}
}

// become has the launcher become a user. A cell that cannot ends.
func (k *keeper) become(u user) error {
	filter, err := k.b.fleet.Filter(cells.Subject{Owner: uint32(u.uid), Group: uint32(u.gid), Polled: k.Cgroups().Memory == ""})
	if err != nil {
		return err
	}
	k.became = cell.Spec{
		Version: cell.Version, Path: "/", Argv: []string{"-"}, Env: []string{}, Cwd: "/", Filter: filter,
		Landlock: cells.Masks(k.b.fleet.Host.ABI), Rlimits: k.RoomRlimits(), Watch: cell.Watch{EveryMS: watchEveryMS, Counters: k.Counters()},
	}
	if k.b.fleet.UID == 0 {
		k.became.Identity = &cell.Identity{UID: int(u.uid), GID: int(u.gid)}
	}
	f, err := cell.WriteSpec(k.became)
	if err != nil {
		return refusal.SpawnFailed("the job cannot be written down").WithCause(err)
	}
	defer func() { _ = f.Close() }()
	k.user, k.Give = &u, k.give
	return cells.Stale(k.Conn.Send(cell.Order{Kind: cell.OrderBecome}, int(f.Fd())))
}

// give hands a job to a launcher that became its user: the limits to the supervisor, and then the run to the launcher.
func (k *keeper) give(s cell.Spec, fds []int) error {
	image, err := cell.Given(&s, &k.became)
	if err != nil {
		return refusal.SpawnFailed("the job cannot be written down").WithCause(err)
	}
	defer func() { _ = image.Close() }()
	err = k.set.Complete(&s.Landlock)
	if f := new(ruleset.Fault); errors.As(err, &f) {
		r := cell.Report{Kind: cell.ReportFailed, Step: "landlock", Text: f.What}
		if n := unix.Errno(0); errors.As(f.Err, &n) {
			r.Errno = int(n)
		}
		return explain(r)
	}
	if err = k.Conn.Send(cell.Order{Kind: cell.OrderWatch, Watch: &s.Watch}); err == nil {
		all := append(append([]int{k.set.FD()}, fds[:streams]...), int(image.Fd()))
		err = k.line.SendBytes([]byte{cell.LineRun}, append(all, fds[streams:]...)...)
	}
	return cells.Stale(err)
}

// streams are how many every program has.
const streams = 3

// aheadFor is how long rules made ahead count.
const aheadFor = time.Minute

// anew reports whether a run must not use the rules made ahead.
func (k *keeper) anew() bool {
	if k.rules == nil || time.Since(k.since) > aheadFor {
		return true
	}
	return !k.sight.same(k.b.mounts) && !slices.Equal(k.ahead, identities(k.rules))
}

// base returns what every run may do with paths of the system, and whether the rules must be made anew.
func (k *keeper) base() (rules []cell.Rule, anew bool) {
	if k.anew() {
		return k.b.rules(), true
	}
	return k.rules, false
}
