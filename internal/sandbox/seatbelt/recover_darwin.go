package seatbelt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"palyra"
)

// Recover implements sandbox.Backend: it ends earlier runs, sweeps after them and removes their places.
func (b *Driver) Recover(ctx context.Context) error {
	entries, err := os.ReadDir(b.config.Dir)
	if err != nil {
		return fmt.Errorf("seatbelt: recover: %w", err)
	}
	var errs []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if !ok || e.IsDir() || b.running(name) {
			continue
		}
		if err := b.recoverOne(ctx, filepath.Join(b.config.Dir, name)); err != nil {
			errs = append(errs, fmt.Errorf("seatbelt: recover: %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (b *Driver) running(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.live {
		if filepath.Base(p.run.place.root) == name {
			return true
		}
	}
	return false
}

func (b *Driver) recoverOne(ctx context.Context, root string) error {
	text, err := os.ReadFile(root + recordSuffix)
	if err != nil {
		return err
	}
	rec, err := readRecord(text)
	if err != nil {
		return err
	}
	names, err := parseNames(rec.Seals)
	if err != nil {
		return err
	}
	r := &jobRun{Driver: b, place: place{root: root}}
	r.job.Limits = withDefaults(palyra.Limits{})
	if rec.Pid != 0 {
		p := &process{run: r, pid: rec.Pid, tree: newTree(ident{rec.Pid, rec.Start})}
		if _, err := p.end(); err != nil {
			return err
		}
	}
	made, err := sweep(ctx, rec.Workspace, names, rec.Marks, rec.Call)
	if err != nil {
		return err
	}
	if len(made) > 0 {
		b.config.Log.Warn("an earlier run left sealed paths; they were moved away", "call", string(rec.Call), "paths", made)
	}
	r.clean()
	return nil
}
