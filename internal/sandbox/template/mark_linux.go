package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
)

const procPath = "/proc"

// endWithin bounds how long rooms are waited for.
const endWithin = 10 * time.Second

// End kills every room with a mark of this state that is not of this daemon: its first
// process, with which the kernel ends the rest, and bubblewrap. A process that survives the kill is
// an error; one that keeps coming back belongs to somebody who copies marks, and is not ours.
func (s *Set) End(ctx context.Context) error {
	end := time.After(endWithin)
	struck := map[process]int{}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		found := strikeAll(procPath, s.config.Fleet.Foreign)
		if len(found) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		stuck := 0
		for _, p := range found {
			if struck[p]++; struck[p] >= patience {
				stuck++
			}
		}
		if pause(wait, end) {
			continue
		}
		if stuck == 0 {
			s.config.Log.Warn("processes that look like rooms of this daemon keep appearing; somebody starts them", "uids", uidsOf(found))
			return nil
		}
		return palyra.Errorf(palyra.Internal, palyra.ReasonInterrupted, "%d processes of an earlier daemon's rooms could not be ended", stuck).
			WithRemedy("they are stuck in the kernel: look at them with ps and restart the machine if need be")
	}
}

// patience is how often a process is killed before it counts as stuck.
const patience = 20

// process identifies a process even if its pid is reused.
type process struct {
	pid, uid int
	start    string // in ticks since boot
}

func uidsOf(all []process) (uids []int) {
	for _, p := range all {
		uids = append(uids, p.uid)
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// strikeAll kills the rooms' processes with a mark of ours and returns them.
func strikeAll(proc string, ours func(uint64) bool) (found []process) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if m, ok := MarkOf(proc, pid); !ok || !ours(m) {
			continue
		}
		if p, ok := strike(proc, pid, ours); ok {
			found = append(found, p)
		}
	}
	return found
}

// strike kills a process that is still the one that was found, so that a reused pid is not hit. It
// reports whether it was one of ours: one that we have no right to kill is not.
func strike(proc string, pid int, ours func(uint64) bool) (process, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return process{}, false
	}
	defer func() { _ = unix.Close(fd) }()
	p, ok := look(proc, pid)
	if !ok {
		return process{}, false
	}
	if m, ok := MarkOf(proc, pid); !ok || !ours(m) {
		return process{}, false
	}
	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // an error means that it has ended already
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)       // another parent reaps it
	return p, !errors.Is(err, unix.EPERM)
}

// look checks who a process with a mark is. Anybody can write a mark on a command line: ours run as
// us, or as others for root, and are bubblewrap or the cell.
func look(proc string, pid int) (process, bool) {
	p := process{pid: pid}
	dir := filepath.Join(proc, strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	_, line, found := strings.Cut(string(status), "\nUid:")
	f := strings.Fields(line)
	if err != nil || !found || len(f) < 2 {
		return p, false
	}
	if p.uid, err = strconv.Atoi(f[1]); err != nil { // the effective uid
		return p, false
	}
	if us := os.Geteuid(); us != 0 && p.uid != us {
		return p, false
	}
	exe, err := os.Readlink(filepath.Join(dir, "exe")) // not readable for every process of one's own
	if err == nil && !roomExe(exe) || errors.Is(err, fs.ErrNotExist) {
		return p, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	_, rest, found := strings.Cut(string(stat[max(bytes.LastIndexByte(stat, ')'), 0):]), ") ")
	f = strings.Fields(rest)
	const start = 19 // index after the name
	if err != nil || !found || len(f) <= start {
		return p, false
	}
	p.start = f[start]
	return p, true
}

// roomExe reports whether a process of a room can have that executable: the cell is in memory, and
// bubblewrap may have been replaced since.
func roomExe(exe string) bool {
	exe = strings.TrimSuffix(exe, " (deleted)")
	return strings.HasPrefix(exe, "/memfd:") || strings.Contains(filepath.Base(exe), "bwrap") ||
		strings.Contains(filepath.Base(exe), "bubblewrap")
}

// MarkText is the form of a mark on a cell's command line.
func MarkText(m uint64) string { return fmt.Sprintf("%016x", m) }

// MarkOf reads the mark of a process from its command line. A zombie has none.
func MarkOf(proc string, pid int) (uint64, bool) {
	line, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return 0, false
	}
	return parseMark(line)
}

// parseMark reads a command line that ends as a cell's does. Bubblewrap's own ends with its cell's.
func parseMark(line []byte) (uint64, bool) {
	words := bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0})
	n := len(words)
	if n < 3 || string(words[n-2]) != cell.InsideArg {
		return 0, false
	}
	m, err := strconv.ParseUint(string(words[n-1]), 16, 64)
	return m, err == nil && MarkText(m) == string(words[n-1])
}

// pause waits before another try; false: the time is over.
func pause(d time.Duration, end <-chan time.Time) bool {
	select {
	case <-time.After(d):
		return true
	case <-end:
		return false
	}
}
