package bubble

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

	"palyra"
	"palyra/internal/seal"
	"palyra/internal/subpath"
)

// A record of a run that was not swept closes its workspace, and every directory around or in it,
// to other runs: they would find what the first one made, and take it for something that had always
// been there. An unreadable record closes all workspaces, because it could be about any.

// everywhere overlaps every workspace.
const everywhere = "/"

// owe notes that a record must be swept. The caller has Backend.mu.
func (b *Backend) owe(path, workspace string) *base {
	key := keyOwed + path
	if b.bases[key] == nil {
		b.bases[key] = &base{owed: path}
	}
	b.bases[key].workspace = workspace
	return b.bases[key]
}

// settle sweeps the owed records of a workspace, before a run begins there.
func (b *Backend) settle(workspace string) error {
	b.mu.Lock()
	var owed []*base
	for _, o := range b.bases {
		if o.owed != "" && subpath.Touch(o.workspace, workspace) {
			owed = append(owed, o)
		}
	}
	b.mu.Unlock()
	slices.SortFunc(owed, func(x, y *base) int { return strings.Compare(x.owed, y.owed) })
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	for _, o := range owed {
		if err := b.pay(ctx, o); err != nil {
			return b.closed(o, err)
		}
	}
	return nil
}

// settleWithin is how long a run waits for owed sweeps.
const settleWithin = 2 * time.Minute

// pay sweeps a record. When it returns nil, the record is settled.
func (b *Backend) pay(ctx context.Context, o *base) error {
	o.sweeping.Lock()
	defer o.sweeping.Unlock()
	b.mu.Lock()
	owed := b.bases[keyOwed+o.owed] == o
	b.mu.Unlock()
	if !owed { // another goroutine has swept it
		return nil
	}
	if err := b.sweepRecord(ctx, o); err != nil {
		return err
	}
	if err := os.Remove(o.owed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("bubble: recover: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.bases, keyOwed+o.owed)
	b.leftNow(o.workspace)
	return nil
}

// closed is the refusal of a workspace with an owed record.
func (b *Backend) closed(o *base, err error) *palyra.Error {
	b.mu.Lock()
	look := o.workspace
	b.mu.Unlock()
	e := palyra.AsError(err)
	where := fmt.Sprintf("what an earlier run in %q made there is not known", look)
	if look == everywhere {
		where, look = "what an earlier run made is not known", "the workspaces of the last runs"
	}
	if e.Reason != palyra.ReasonSealDenied {
		e = palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied, "%v", err)
	}
	why := palyra.Clip(e.Text, 300)
	return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied, "%s, so nothing may run here: %s", where, why).
		WithRemedy("every new run tries again; if it goes on, look through %s for paths that you did not make, such as .git/hooks, and "+
			"then remove %s", look, o.owed).
		WithCause(err)
}

// sweepRecords sweeps the records of an earlier daemon's runs.
func (b *Backend) sweepRecords(ctx context.Context) error {
	entries, err := os.ReadDir(b.config.Dir)
	if err != nil {
		return fmt.Errorf("bubble: recover: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(b.config.Dir, e.Name())
		b.mu.Lock()
		ours, o := b.records[e.Name()], (*base)(nil)
		if filepath.Ext(path) == recordEnds && !ours {
			o = b.owe(path, everywhere) // until it is read
		}
		b.mu.Unlock()
		switch {
		case o != nil:
			if err := b.pay(ctx, o); err != nil {
				no := b.closed(o, err)
				b.fleet.Log.Error("an earlier run is not swept; its workspace is closed", "why", no.Text, "remedy", no.Remedy, "err", err)
			}
		case filepath.Ext(path) == recordNew && !ours: // its daemon died before anything could run
			if err := os.Remove(path); err != nil {
				b.fleet.Log.Error("half a record is left behind", "err", err)
			}
		}
	}
	return nil
}

// sweepRecord does the sweep of a record.
func (b *Backend) sweepRecord(ctx context.Context, o *base) error {
	state, call, text, err := readRecord(o.owed)
	if errors.Is(err, fs.ErrNotExist) || err == nil && state != recordRuns {
		return nil
	}
	var s *seal.Snapshot
	if err == nil {
		s, err = seal.Load(text)
	}
	if err != nil {
		if lost(o.owed) {
			b.fleet.Log.Error("the machine stopped before the record of a run was on the disk; look through the workspaces of the last runs",
				"record", o.owed)
			return nil
		}
		return palyra.Errorf(palyra.Internal, palyra.ReasonSealDenied, "the state of its workspace before it cannot be read").WithCause(err)
	}
	b.mu.Lock()
	o.workspace = s.Workspace()
	b.mu.Unlock()
	defer b.users.add(call)()
	made, err := s.Sweep(ctx, b.config.Quarantine, call)
	b.told(s.Workspace(), call, made)
	if len(made) > 0 {
		b.trim(call)
		b.trimIn(s, call)
	}
	if errors.Is(err, seal.ErrGone) {
		b.fleet.Log.Warn("the workspace of an earlier run is gone; if it comes back, look through it for sealed paths", "workspace",
			s.Workspace(), "call", call, "err", err)
		return nil
	}
	if err != nil {
		return unswept(s.Workspace(), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.estrange(nil, s)
	return nil
}

// lost reports whether a record is empty because the machine stopped: it was last written before the present boot.
func lost(path string) bool {
	fi, err := os.Stat(path)
	if err != nil {
		return false
	}
	text, err := os.ReadFile(path)
	if err != nil || len(bytes.Trim(text[:min(len(text), recordHead)], "\x00")) > 0 {
		return false
	}
	stat, err := os.ReadFile("/proc/stat")
	_, line, found := strings.Cut(string(stat), "\nbtime ")
	line, _, _ = strings.Cut(line, "\n")
	boot, e := strconv.ParseInt(line, 10, 64)
	return err == nil && e == nil && found && fi.ModTime().Unix() < boot
}
