package confine

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"palyra/internal/cell"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/refusal"
)

// keeper is a running cell with the rules that it made ahead.
type keeper struct {
	*cells.Keeper
	b     *Driver
	rules []cell.Rule // made ahead; nil: none
	ahead []identity  // of the files that they were made for
	since time.Time   // when they were made
}

// open starts a cell and waits until it is ready.
func (b *Driver) open(ctx context.Context) (*keeper, error) {
	k, err := b.fleet.Open(func(k *cells.Keeper, control, logs *os.File) (cells.Body, error) {
		args := []string{"supervise"}
		if k.Group != nil {
			args = append(args, k.Group.Places()...)
		}
		return k.Exec(control, logs, args...)
	})
	if err != nil {
		return nil, err
	}
	if err := ready(ctx, k); err != nil {
		k.Discard()
		return nil, err
	}
	return &keeper{Keeper: k, b: b}, nil
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

// prepare has the launcher make rules ahead that every job needs. A cell that cannot ends, and is
// found dead when its turn comes.
func (k *keeper) prepare() {
	filter, err := k.b.fleet.Filter(cells.Subject{})
	if err != nil {
		return // no job will get further
	}
	room := cells.Masks(k.b.fleet.Host.ABI)
	k.since = time.Now()
	k.rules = k.b.rules()
	room.Rules, k.ahead = k.rules, identities(k.rules)
	f, err := cell.WriteSpec(cell.Spec{
		Version: cell.Version, Path: "/", Argv: []string{"-"}, Env: []string{}, Cwd: "/", Landlock: room, Filter: filter,
		Watch: cell.Watch{EveryMS: watchEveryMS},
	})
	if err == nil {
		err = errors.Join(k.Conn.Send(cell.Order{Kind: cell.OrderPrepare}, int(f.Fd())), f.Close())
	}
	if err != nil {
		k.b.fleet.Log.Warn("a cell could not be prepared", "err", err)
	}
}

// aheadFor is how long rules made ahead count.
const aheadFor = time.Minute

// anew reports whether a run must not use the rules made ahead.
func (k *keeper) anew() bool {
	return k.rules == nil || time.Since(k.since) > aheadFor || !slices.Equal(k.ahead, identities(k.rules))
}

// base returns what every run may do with paths of the system, and whether the rules must be made anew.
func (k *keeper) base() (rules []cell.Rule, anew bool) {
	if k.anew() {
		return k.b.rules(), true
	}
	return k.rules, false
}
