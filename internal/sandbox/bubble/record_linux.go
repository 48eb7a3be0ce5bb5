package bubble

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/seal"
)

// record is a file with the state of a workspace, and whether a run is under way that could change
// it. Its name means nothing; it is kept open and reused, because making a file costs more than
// everything else on the path of a call.
//
// When the daemon dies, the kernel still writes the record. When the whole machine dies, that of a
// run which began just before may not be on the disk yet.
type record struct {
	file *os.File
	name string // in the backend's directory
	size int    // of the snapshot
}

// The words that begin a record's first line.
const (
	recordWaits = "waits" // no run yet; nothing has to be swept
	recordRuns  = "runs"
	recordDone  = "done"
)

const (
	recordHead = 128 // bytes of the first line
	recordMost = 64 << 20
	maxSpares  = 8 // records that are kept for later cells
	recordEnds = ".record"
	recordNew  = ".new" // end of its name until it is complete, so that an incomplete record does not count
)

// say writes the first line.
func (r *record) say(state string, call palyra.CallID) error {
	line := fmt.Sprintf("%-*s\n", recordHead-1, fmt.Sprintf("%s %d %s", state, r.size, callText(call)))
	if len(line) != recordHead {
		return errors.New("bubble: record: the first line is too long")
	}
	_, err := r.file.WriteAt([]byte(line), 0)
	return err
}

// readRecord reads a record of an earlier daemon.
func readRecord(path string) (state string, call palyra.CallID, snapshot []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", "", nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, recordMost))
	if err != nil {
		return "", "", nil, err
	}
	return parseRecord(text)
}

func parseRecord(text []byte) (state string, call palyra.CallID, snapshot []byte, err error) {
	bad := errors.New("bubble: record: it cannot be read")
	if len(text) < recordHead {
		return "", "", nil, bad
	}
	f := strings.Fields(string(text[:recordHead]))
	if len(f) != 3 {
		return "", "", nil, bad
	}
	size, err := strconv.Atoi(f[1])
	if err != nil || size < 0 || size > len(text)-recordHead || !plainCall.MatchString(f[2]) {
		return "", "", nil, bad
	}
	switch f[0] {
	case recordWaits, recordRuns, recordDone:
		return f[0], palyra.CallID(f[2]), text[recordHead : recordHead+size], nil
	}
	return "", "", nil, bad
}

// blank returns a record to write, a spare one if there is one.
func (b *Backend) blank() (*record, error) {
	select {
	case r := <-b.spares:
		return r, nil
	default:
	}
	f, err := os.CreateTemp(b.config.Dir, "*"+recordNew) // readable by its owner only
	if err != nil {
		return nil, err
	}
	r := &record{file: f, name: filepath.Base(f.Name())}
	b.ours(r.name, true)
	return r, nil
}

// ours notes that a record of that name is this backend's, or no longer.
func (b *Backend) ours(name string, yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if yes {
		b.records[name] = true
	} else {
		delete(b.records, name)
	}
}

// complete gives a completely written record its final name.
func (b *Backend) complete(r *record) error {
	base, fresh := strings.CutSuffix(r.name, recordNew)
	if !fresh {
		return nil
	}
	b.ours(base+recordEnds, true)
	if err := os.Rename(filepath.Join(b.config.Dir, r.name), filepath.Join(b.config.Dir, base+recordEnds)); err != nil {
		b.ours(base+recordEnds, false)
		return err
	}
	b.ours(r.name, false)
	r.name = base + recordEnds
	return nil
}

// drop takes an unneeded record back.
func (b *Backend) drop(r *record) error {
	err := r.say(recordDone, "")
	if err == nil {
		select {
		case b.spares <- r:
			return nil
		default:
		}
	}
	return errors.Join(err, b.remove(r))
}

func (b *Backend) remove(r *record) error {
	b.ours(r.name, false)
	return errors.Join(r.file.Close(), os.Remove(filepath.Join(b.config.Dir, r.name)))
}

// dropSpares removes the spare records.
func (b *Backend) dropSpares() (err error) {
	for {
		select {
		case r := <-b.spares:
			err = errors.Join(err, b.remove(r))
		default:
			return err
		}
	}
}

// write stores the snapshot. For a warm cell it is flushed to disk; on the path of a call there is
// no time for that.
func (k *keeper) write(lasting bool) error {
	err := k.writeDown(k.snapshot)
	if err == nil && lasting {
		err = k.record.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("bubble: record: %w", err)
	}
	return nil
}

// writeDown fills the keeper's record, a new one if it has none.
func (k *keeper) writeDown(s *seal.Snapshot) error {
	text, err := s.Record()
	if err != nil {
		return err
	}
	if len(text) > recordMost-recordHead {
		return fmt.Errorf("%d bytes are too many", len(text))
	}
	if k.record == nil {
		if k.record, err = k.b.blank(); err != nil {
			return err
		}
	} else if err := k.record.say(recordWaits, ""); err != nil { // until it is complete
		return err
	}
	k.record.size = len(text)
	if _, err := k.record.file.WriteAt(text, recordHead); err != nil {
		return err
	}
	if err := k.record.say(recordWaits, ""); err != nil {
		return err
	}
	return k.b.complete(k.record)
}

// begin records that a run is under way, before it is.
func (k *keeper) begin(ctx context.Context, call palyra.CallID) (err error) {
	k.call = palyra.CallID(callText(call))
	k.unused = k.b.users.add(k.call)
	if k.snapshot == nil {
		return k.b.settle(k.want.room.Workspace) // what an earlier run made there is removed before anybody uses it
	}
	if err := k.enlist(ctx); err != nil {
		return err
	}
	k.b.mu.Lock()
	known := k.base.now() // the snapshot for the sweep, also when this daemon is gone
	k.b.mu.Unlock()
	if k.record == nil || !known.Same(k.snapshot) {
		err = k.writeDown(known)
	}
	if err == nil {
		err = k.watchCommits()
	}
	if err == nil {
		err = k.record.say(recordRuns, call)
	}
	if err != nil {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonSealDenied, "the run cannot be recorded, and its leftovers could be missed").
			WithRemedy("see the daemon's log; its state directory must be writable").WithCause(fmt.Errorf("bubble: record: %w", err))
	}
	return nil
}

// keep leaves a record to be swept before anything else runs in the workspace.
func (b *Backend) keep(r *record, workspace string) {
	b.mu.Lock()
	delete(b.records, r.name)
	b.owe(filepath.Join(b.config.Dir, r.name), workspace)
	b.mu.Unlock()
	_ = r.file.Close() // the kernel has what was written
}

// forget undoes begin.
func (k *keeper) forget() {
	defer k.endLayer(false)
	k.unwatch()
	if k.unused != nil {
		k.unused()
	}
	if k.commits != nil {
		k.commits.Close()
		k.commits = nil
	}
	if k.base != nil {
		k.b.leave(k.want, k.base, k.call)
		k.base = nil
	}
	if k.record == nil {
		return
	}
	if err := k.b.drop(k.record); err != nil {
		k.b.fleet.Log.Error("a record is left behind", "err", err)
	}
	k.record = nil
}

var plainCall = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// callText is a call's id as a single word.
func callText(call palyra.CallID) string {
	if plainCall.MatchString(string(call)) {
		return string(call)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(call)) // never fails
	return "x" + strconv.FormatUint(h.Sum64(), 16)
}
