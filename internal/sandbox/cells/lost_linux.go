package cells

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

// sweepWithin bounds how long survivors are hunted.
const sweepWithin = 10 * time.Second

// end kills the tree of a lost keeper and reports how many processes of it are
// still there after a while.
func (k *Keeper) end() int {
	k.Body.Kill() // its launcher dies with it
	<-k.gone
	if k.Group != nil {
		_ = k.Group.kill() // where it cannot, the marks do
	}
	left := sweep(k.Fleet.Host.Proc, k.session, func(m uint64) bool { return m == k.Mark })
	k.Fleet.Log.Error("a cell was lost and its tree ended by other means", "launcher", k.session, "left", left)
	return left
}

// sweep stops and kills every process whose mark is ours until none is found,
// and reaps those that fell to us. session is of the launcher: zombies have no
// limits to read any more, but still a session; 0 for none.
func sweep(proc string, session int, ours func(uint64) bool) int {
	end := time.After(sweepWithin)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		found := marked(proc, ours)
		for _, s := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // stopped first, none of them makes another
			for _, pid := range found {
				strike(proc, pid, s, ours)
			}
		}
		reapSession(proc, session)
		for _, pid := range found {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // not our child: somebody else's to reap
		}
		if len(found) == 0 || !Pause(wait, end) {
			return len(found)
		}
	}
}

// marked lists the processes with a mark of ours.
func marked(proc string, ours func(uint64) bool) []int {
	var out []int
	for _, pid := range processes(proc) {
		if m, ok := markOf(proc, pid); ok && ours(m) {
			out = append(out, pid)
		}
	}
	return out
}

// markOf reads the mark of a process. A process without one has no limit there;
// a zombie has none at all.
func markOf(proc string, pid int) (uint64, bool) {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "limits"))
	if err != nil {
		return 0, false
	}
	_, line, ok := strings.Cut(string(b), "\nMax file locks")
	f := strings.Fields(line)
	if !ok || len(f) < 2 {
		return 0, false
	}
	m, err := strconv.ParseUint(f[1], 10, 64) // the hard one
	return m, err == nil
}

// strike signals a process that still has the mark; a number that was given
// away in the meantime is not hit.
func strike(proc string, pid int, s unix.Signal, ours func(uint64) bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if m, ok := markOf(proc, pid); ok && ours(m) {
		_ = unix.PidfdSendSignal(fd, s, nil, 0) // it ended: that is what was wanted
	}
}

// reapSession reaps zombies of a launcher's session that are children of ours.
// A child that somebody in the daemon started himself is never in it.
func reapSession(proc string, session int) {
	if session <= 0 {
		return
	}
	for _, pid := range processes(proc) {
		if st, ok := statOf(proc, pid); ok && st.state == "Z" && st.parent == os.Getpid() && st.session == session {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

type stat struct {
	state           string
	parent, session int
}

// statOf reads /proc/PID/stat, whose second field may hold anything.
func statOf(proc string, pid int) (stat, bool) {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	i := strings.LastIndex(string(b), ") ")
	if err != nil || i < 0 {
		return stat{}, false
	}
	f := strings.Fields(string(b)[i+2:])
	if len(f) < 4 {
		return stat{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	session, err2 := strconv.Atoi(f[3])
	return stat{f[0], parent, session}, errors.Join(err1, err2) == nil
}

// Recover ends what carries this state's marks or is in its cgroups and is not of
// this fleet, and removes the cgroups.
func (f *Fleet) Recover(ctx context.Context) error {
	groups := f.leftGroups()
	for _, g := range groups {
		_ = g.kill() // where it cannot, the marks do
		for _, pid := range g.members() {
			_ = unix.Kill(pid, unix.SIGKILL) // a cgroup of ours holds runs only
		}
	}
	if left := sweep(f.Host.Proc, 0, f.Foreign); left > 0 {
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
