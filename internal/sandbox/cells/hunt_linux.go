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

// sweepWithin is how long survivors are hunted.
const sweepWithin = 10 * time.Second

// hunt looks for processes with a mark of ours.
type hunt struct {
	proc    string
	ours    func(uint64) bool
	uid     int  // the daemon's
	session int  // of the launcher: zombies have no limits to read any more, but still a session; 0: none
	lenient bool // processes that copy marks and keep coming back are not ours
	log     *slog.Logger
}

// patience is how often a process is killed before it counts as stuck.
const patience = 20

// sweep stops and kills every process with a mark of ours until none is found, and reaps those that
// became our children. It returns how many are left.
func (h hunt) sweep() int {
	end := time.After(sweepWithin)
	struck := map[prey]int{}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		found := h.strikeAll()
		reapSession(h.proc, h.session)
		stuck := 0
		for _, p := range found {
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil) // another parent reaps it
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

// prey identifies a process even if its pid is reused.
type prey struct {
	pid   int
	start string // in ticks since boot
}

// strikeAll stops and then kills the processes: once all are stopped, none of them makes another.
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

// strike signals a process that is ours; a reused pid is not hit. It reports whether it was ours: a
// process that we may not signal is not.
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
	err = unix.PidfdSendSignal(fd, s, nil, 0) // an error means that it has ended already
	return p, !errors.Is(err, unix.EPERM)
}

// look makes sure that a process belongs to a run. Everybody can read marks, and put them on processes of their
// own, and must not have others killed by that: processes of runs have no_new_privs, so a process with such a mark
// was started by whoever put it there; and a daemon that is not root has only processes of its own user.
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

// statusOf returns the fields behind a name in /proc/PID/status.
func statusOf(status []byte, name string) []string {
	_, rest, found := strings.Cut(string(status), "\n"+name)
	if !found {
		return nil
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
}

// markOf reads the mark of a process. A process without one has no such limit; a zombie has no limits at all.
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
	m, err := strconv.ParseUint(f[1], 10, 64) // the hard limit
	return m, err == nil
}

// reapSession reaps zombies of a launcher's session that are our children. A child that another
// part of the daemon started is never in it.
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

// statOf reads /proc/PID/stat, whose second field may hold any bytes.
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
