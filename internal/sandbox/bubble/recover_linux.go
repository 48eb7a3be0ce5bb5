package bubble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox/cells"
	"palyra/internal/seal"
)

// Recover implements sandbox.Backend: rooms of this state that an earlier daemon
// left are ended, and then what their runs made of sealed paths is taken away.
func (b *Backend) Recover(ctx context.Context) error {
	var errs []error
	if b.no == nil { // otherwise nothing could be started here, nor can be found
		errs = append(errs, b.endRooms(ctx), b.fleet.Recover(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return err // what lives could make more while we sweep
	}
	return b.sweepRecords(ctx)
}

// endWithin bounds how long rooms are waited for.
const endWithin = 10 * time.Second

// endRooms kills every room with a mark of this state that is not of this backend:
// its first process, with which the kernel ends the rest, and bubblewrap.
func (b *Backend) endRooms(ctx context.Context) error {
	end := time.After(endWithin)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		left := strikeMarked(b.fleet.Host.Proc, b.fleet.Foreign)
		if left == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !cells.Pause(wait, end) {
			return palyra.Errorf(palyra.Internal, palyra.ReasonInterrupted, "%d processes of an earlier daemon's rooms could not be ended", left).
				WithRemedy("they are stuck in the kernel: look at them with ps and restart the machine if need be")
		}
	}
}

// strikeMarked kills the processes with a mark of ours on their command line and
// says how many there were.
func strikeMarked(proc string, ours func(uint64) bool) (found int) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if m, ok := markOf(proc, pid); ok && ours(m) {
			found++
			strike(proc, pid, ours)
		}
	}
	return found
}

// strike kills a process that still is what it was found to be: a number that was
// given away in the meantime is not hit.
func strike(proc string, pid int, ours func(uint64) bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if m, ok := markOf(proc, pid); ok && ours(m) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it ended: that is what was wanted
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)     // not our child: somebody else's to reap
	}
}

// markOf reads the mark of a process off its command line. A zombie has none.
func markOf(proc string, pid int) (uint64, bool) {
	line, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return 0, false
	}
	return parseMark(line)
}

// parseMark reads a command line that ends as a cell's does. Bubblewrap's own ends
// with its cell's.
func parseMark(line []byte) (uint64, bool) {
	words := bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0})
	n := len(words)
	if n < 3 || string(words[n-2]) != cell.InsideArg {
		return 0, false
	}
	m, err := strconv.ParseUint(string(words[n-1]), 16, 64)
	return m, err == nil && markText(m) == string(words[n-1])
}

// sweepRecords looks for what the runs of an earlier daemon made.
func (b *Backend) sweepRecords(ctx context.Context) error {
	entries, err := os.ReadDir(b.config.Dir)
	if err != nil {
		return fmt.Errorf("bubble: recover: %w", err)
	}
	var errs []error
	for _, e := range entries {
		b.mu.Lock()
		ours := b.records[e.Name()]
		b.mu.Unlock()
		path := filepath.Join(b.config.Dir, e.Name())
		switch ext := filepath.Ext(e.Name()); {
		case ours:
		case ext == recordEnds:
			errs = append(errs, b.sweepRecord(ctx, path))
		case ext == recordNew:
			errs = append(errs, os.Remove(path)) // its daemon died before it could say that anything runs
		}
	}
	return errors.Join(errs...)
}

// sweepRecord does what a record says, and removes it then.
func (b *Backend) sweepRecord(ctx context.Context, path string) error {
	state, call, text, err := readRecord(path)
	var s *seal.Snapshot
	if err == nil && state == recordRuns {
		s, err = seal.Load(text)
	}
	if err != nil {
		return palyra.Errorf(palyra.Internal, palyra.ReasonSealDenied, "what the workspace of an earlier run had before it cannot be read").
			WithRemedy("look through the workspaces of the last runs for paths that you did not make, such as .git/hooks, and then remove %s", path).WithCause(err)
	}
	if s != nil {
		made, err := s.Sweep(ctx, b.config.Quarantine, call)
		b.told("of an earlier run", call, made)
		if err != nil {
			return unswept("of call "+string(call), err)
		}
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("bubble: recover: %w", err)
	}
	return nil
}
