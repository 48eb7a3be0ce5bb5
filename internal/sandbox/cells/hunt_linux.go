package cells

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sweepWithin bounds how long survivors are hunted.
const sweepWithin = 10 * time.Second

// hunt is for processes with a mark of ours.
type hunt struct {
	proc    string
	ours    func(uint64) bool
	uid     int  // the daemon's
	session int  // of the launcher: zombies have no limits to read any more, but still a session; 0 for none
	lenient bool // who copies marks and comes again and again is not ours
	log     *slog.Logger
}

// patience is how often a process is struck before it counts as stuck.
const patience = 20

// sweep stops and kills every process whose mark is ours until none is found,
// and reaps those that fell to us. It reports how many are left.
func (h hunt) sweep() int {
	end := time.After(sweepWithin)
	struck := map[prey]int{}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		found := h.strikeAll()
		reapSession(h.proc, h.session)
		stuck := 0
		for _, p := range found {
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil) // not our child: somebody else's to reap
			if struck[p]++; struck[p] >= patience {
				stuck++
			}
		}
		switch {
		case len(found) == 0:
			return 0
		case Pause(wait, end):
		case h.lenient:
			h.log.Warn("processes with marks of this daemon keep appearing; somebody copies them", "found", len(found), "stuck", stuck)
			return stuck
		default:
			return len(found)
		}
	}
}

// prey is a process that cannot be taken for a later one of the same number.
type prey struct {
	pid   int
	start string // in ticks since boot
}

// strikeAll stops and then kills those that there are: stopped first, none of them
// makes another.
func (h hunt) strikeAll() (found []prey) {
	for _, pid := range processes(h.proc) {
		if m, ok := markOf(h.proc, pid); !ok || !h.ours(m) {
			continue
		}
		if p, ok := h.strike(pid, unix.SIGSTOP); ok {
			found = append(found, p)
		}
	}
	for _, p := range found {
		h.strike(p.pid, unix.SIGKILL)
	}
	return found
}

// strike signals a process that is ours; a number that was given away in the
// meantime is not hit. It reports whether it was one: what we may not signal is
// somebody else's.
func (h hunt) strike(pid int, s unix.Signal) (prey, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return prey{}, false
	}
	defer func() { _ = unix.Close(fd) }()
	p, ok := h.look(pid)
	if !ok {
		return p, false
	}
	err = unix.PidfdSendSignal(fd, s, nil, 0) // it ended: that is what was wanted
	return p, !errors.Is(err, unix.EPERM)
}

// look makes sure that a process is of a run. Marks can be read by everybody, and
// put on by everybody on processes of their own. Whoever does must not have others
// killed by it: ours have given up for good to gain rights by exec, so what such a
// mark is on was started by who put it there; and a daemon that is not root has
// none but its own.
func (h hunt) look(pid int) (prey, bool) {
	p := prey{pid: pid}
	m, marked := markOf(h.proc, pid)
	st, ok := statOf(h.proc, pid)
	b, err := os.ReadFile(filepath.Join(h.proc, strconv.Itoa(pid), "status"))
	if !marked || !h.ours(m) || !ok || err != nil {
		return p, false
	}
	p.start = st.start
	if nnp := statusOf(b, "NoNewPrivs:"); len(nnp) != 1 || nnp[0] != "1" {
		return p, false
	}
	uids := statusOf(b, "Uid:")
	for _, u := range uids {
		if h.uid != 0 && u != strconv.Itoa(h.uid) {
			return p, false
		}
	}
	return p, len(uids) > 0
}

// statusOf is what a /proc/PID/status says behind a name.
func statusOf(status []byte, name string) []string {
	_, rest, found := strings.Cut(string(status), "\n"+name)
	if !found {
		return nil
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
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
	start           string // in ticks since boot
}

// statOf reads /proc/PID/stat, whose second field may hold anything.
func statOf(proc string, pid int) (stat, bool) {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	i := strings.LastIndex(string(b), ") ")
	if err != nil || i < 0 {
		return stat{}, false
	}
	f := strings.Fields(string(b)[i+2:])
	const start = 19
	if len(f) <= start {
		return stat{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	session, err2 := strconv.Atoi(f[3])
	return stat{f[0], parent, session, f[start]}, errors.Join(err1, err2) == nil
}
