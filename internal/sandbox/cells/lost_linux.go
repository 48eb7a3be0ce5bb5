package cells

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"palyra"
)

// Ender is a Body whose whole tree ends with one process of it, whose end can be seen before everything is reaped.
type Ender interface {
	// Harmless lists the processes that can make no file and no process, even when taken over, and
	// end at once when they are killed.
	Harmless() []int
	// Ended waits for that one process; false: it is unknown, or did not end in time.
	Ended(within time.Duration) bool
}

// quell ends a cell that has sent its last report, and returns how many processes are left of its
// tree. It does not trust the cell's word: either the kernel says that only harmless, killed
// processes are in its cgroups, which is known at once, or it waits for the end.
func (k *Keeper) quell() int {
	k.Body.Kill()
	b, ok := k.Body.(Ender)
	var harmless []int // where cells are not in their cgroups, nobody may be
	if ok {
		harmless = b.Harmless()
	}
	if k.Group.only(harmless) || ok && b.Ended(stopSlack) {
		return 0
	}
	k.close() // another process may hold the cell's end of the socket
	select {
	case <-k.gone:
	case <-time.After(stopSlack):
		k.Fleet.Log.Error("a cell was killed and does not end", "pid", k.Body.Pid())
		return 1
	}
	if k.Group == nil || len(k.Group.members()) == 0 {
		return 0
	}
	k.Fleet.Log.Error("a cell said that nothing was left of its run, and it was not so", "pid", k.Body.Pid())
	return k.end()
}

// end kills the tree of a lost keeper and returns how many processes of it are still there after a while.
func (k *Keeper) end() int {
	k.Body.Kill() // its launcher dies with it
	k.close()
	<-k.gone
	if k.Group != nil {
		_ = k.Group.kill() // where it cannot, pids and marks do
		k.Group.strike()
	}
	h := hunt{proc: k.Fleet.Host.Proc, session: k.session, ours: func(m uint64) bool { return m == k.Mark }, uid: os.Geteuid()}
	left := h.sweep()
	k.Fleet.Log.Error("a cell was lost and its tree ended by other means", "launcher", k.session, "left", left)
	return left
}

// Recover ends processes in this state's cgroups or with its marks that are not of this fleet, and removes the
// cgroups. Membership of a cgroup is certain; a mark may be somebody else's copy (see look).
func (f *Fleet) Recover(ctx context.Context) error {
	groups := f.leftGroups()
	left := endGroups(groups)
	left += hunt{proc: f.Host.Proc, ours: f.Foreign, uid: os.Geteuid(), lenient: os.Geteuid() == 0, log: f.Log}.sweep()
	if left > 0 {
		return palyra.Errorf(palyra.Internal, palyra.ReasonInterrupted, "%d processes of an earlier daemon could not be ended", left).
			WithRemedy("they are stuck in the kernel: look at them with ps and restart the machine if need be")
	}
	var errs []error
	for _, g := range groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		errs = append(errs, g.remove(removeWithin))
	}
	return errors.Join(errs...)
}

// endGroups kills the processes in groups until there are none, and returns how many are left.
func endGroups(groups []*Group) (left int) {
	end := time.After(sweepWithin)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		left = 0
		for _, g := range groups {
			_ = g.kill() // where it cannot, strike does
			left += g.strike()
		}
		if left == 0 || !Pause(wait, end) {
			return left
		}
	}
}

// leftGroups are the groups that another backend of this state made.
func (f *Fleet) leftGroups() []*Group {
	names := map[string]*Group{}
	for _, d := range f.Groups.Dirs() {
		entries, err := os.ReadDir(d)
		if err != nil {
			f.Log.Warn("cgroups cannot be listed", "err", fmt.Errorf("cells: recover: %w", err))
		}
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), f.name+"-") {
				names[e.Name()] = &Group{f.Groups, e.Name()}
			}
		}
	}
	var out []*Group
	for _, g := range names {
		out = append(out, g)
	}
	return out
}
