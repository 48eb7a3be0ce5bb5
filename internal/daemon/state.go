package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/journal"
	"palyra/internal/keyring"
	"palyra/internal/statedir"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

func (d *records) stateFiles() statedir.Files {
	p := d.Settings.Paths
	return statedir.Files{State: p.State, Keys: p.Keys, Artifacts: artifactDir(p.State)}
}

func artifactDir(state string) string { return filepath.Join(filepath.Dir(state), "artifacts") }

// records is a state that was opened, with its keys and its journal.
type records struct {
	Config
	stateID  string
	instance palyra.ID
	started  time.Time
	lock     *durable.Held
	db       *store.DB
	ring     *keyring.Ring
	journal  *journal.Journal
}

func newRecords(c Config) records { return records{Config: c, instance: newID(), started: now()} }

// closeWithin is how long the last lines of the journal may take.
const closeWithin = 5 * time.Second

// close gives back what was opened.
func (d *records) close() error {
	var errs []error
	if d.journal != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		errs = append(errs, d.journal.Close(ctx))
	}
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Release())
	}
	return errors.Join(errs...)
}

// checkState refuses a store that is gone while other files of its state are left, and returns those; a new
// state has none. The lock is held by now.
func (d *records) checkState() (left []string, err error) {
	files := d.stateFiles()
	if d.NewState {
		moved, err := files.PutAside(now())
		if err != nil {
			return nil, err
		}
		d.Log.Warn("a new state was asked for; what was there is kept", "as", moved)
	}
	if err := files.Check(); err != nil {
		return nil, err
	}
	if left, err = files.Left(); err != nil || len(left) == 0 {
		return left, err
	}
	return left, d.checkNamed(files, left)
}

// checkNamed refuses a store without its log in which nothing was ever recorded, beside keys of an earlier one. It
// only reads the store: a store that was written to would no longer fit its log when that is put back.
func (d *records) checkNamed(files statedir.Files, left []string) error {
	if there, err := files.There(); err != nil || !there || slices.Contains(left, files.State+"-wal") {
		return err
	}
	engine, err := sqlite.OpenCopy(files.State)
	if err != nil {
		return err
	}
	defer func() { _ = engine.Close() }()
	db, err := store.Open(context.Background(), engine)
	if err != nil {
		return nil // the store itself says what is wrong with it
	}
	defer func() { _ = db.Close() }()
	var id string
	err = db.Read(context.Background(), func(tx *store.Tx) error {
		var n int
		if err := tx.Get(`SELECT COUNT(*) FROM sqlite_schema WHERE type='table' AND name='state'`, nil, &n); err != nil || n == 0 {
			return err
		}
		return tx.Get(`SELECT id FROM state WHERE one=1`, nil, &id)
	})
	if id == "" && (err == nil || errors.Is(err, store.ErrNoRows)) {
		return statedir.Gone(files.State, left)
	}
	return nil
}

// recordBegin records as a new state's first line that files of earlier ones lie beside it.
func (d *records) recordBegin(ctx context.Context) error {
	page, err := d.journal.Entries(ctx, palyra.EntryFilter{From: 1, Limit: 1})
	if err != nil || len(page) > 0 {
		return err
	}
	beside, err := d.stateFiles().Aside()
	if err != nil || len(beside) == 0 {
		return err
	}
	for i, name := range beside {
		beside[i] = strings.ToValidUTF8(name, "\ufffd")
	}
	_, err = d.journal.Record(ctx, palyra.StateBegun{State: d.stateID, Beside: beside})
	return err
}

// lowDisk is how much space must be left for the record before the status says
// that it runs out. A call takes a few KiB, a checkpoint of the store some MiB.
const lowDisk = 16 << 20

// diskProblem says that there is no space for the record, or little.
func (d *Daemon) diskProblem() []string {
	dir := filepath.Dir(d.Settings.Paths.State)
	free, err := durable.Free(dir)
	switch {
	case err != nil && !errors.Is(err, errors.ErrUnsupported):
		return []string{"the space left for the record cannot be told: " + err.Error()}
	case err != nil || free >= lowDisk:
		return nil
	}
	return []string{fmt.Sprintf("the disk under %s is full or nearly so (%d KiB left): calls and decisions that cannot be recorded "+
		"are refused; remedy: make space; 'palyra down' works all the same", dir, free>>10)}
}
