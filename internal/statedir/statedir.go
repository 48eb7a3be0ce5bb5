// Package statedir looks at the files of a state before any of them is opened,
// and puts an old state aside where somebody wants a new one.
//
// Words: the store is state.db with its write-ahead log; what is left of a state is everything else that only a
// state has: that log, the daemon's signing keys and kept outputs. An operator key is a person's and no state's.
//
// Promises: a store that is gone while something of it is left is refused, because opening it would begin a new
// state in the place of the old one and throw the log away; nothing is ever removed here. It cannot tell that a
// whole state was exchanged for an older copy, nor that the newest frames of the log were taken away.
//
// Its words are those of docs/words.md.
package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/durable"
)

// Files says where a state has its files.
type Files struct {
	State     string // the store's file; its log is beside it
	Keys      string // the directory of signing keys
	Artifacts string // the directory of kept outputs
}

// paths are the paths of a state's files; the engine keeps two beside the store's.
func (f Files) paths() []string {
	return []string{f.Artifacts, f.Keys, f.State, f.State + "-wal", f.State + "-shm"}
}

// There reports whether the store's file has anything in it.
func (f Files) There() (bool, error) { return filled(f.State) }

// Left names what is left of a state besides the store's file: of a new one there is nothing.
func (f Files) Left() ([]string, error) {
	var left []string
	for _, path := range []string{f.State + "-wal", f.Artifacts} {
		is, err := filled(path)
		if err != nil {
			return nil, err
		}
		if is {
			left = append(left, path)
		}
	}
	keys, err := filepath.Glob(filepath.Join(quote(f.Keys), "*.key*"))
	if err != nil {
		return nil, fmt.Errorf("statedir: keys: %w", err)
	}
	return append(left, keys...), nil
}

// quote makes a path mean itself in a pattern.
func quote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Check refuses a store that is gone, or empty, while something of its state is
// left. The first start of all has nothing there yet.
func (f Files) Check() error {
	there, err := f.There()
	if err != nil || there {
		return err
	}
	left, err := f.Left()
	if err != nil || len(left) == 0 {
		return err
	}
	return Gone(f.State, left)
}

// Gone is the refusal of a store that is not the one its files belong to.
func Gone(state string, left []string) error {
	const most = 3
	names := left[:min(len(left), most)]
	more := ""
	if n := len(left) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonStateGone, "the state %s is gone or empty, and this is left of it: %s%s", state,
		strings.Join(names, ", "), more).
		WithRemedy("put the file back from a backup, with its -wal if there is one; to begin a new state on purpose: palyra up " +
			"--new-state, which keeps what is left beside it")
}

// asideMark is between the name of a file of an old state and when it was put aside.
const asideMark = ".before-"

// PutAside renames everything of the state, so that the next start finds none.
// Each file stays in its directory, under its name with the time behind it. After
// a crash half way the rest is still refused, or put aside by the next call.
func (f Files) PutAside(at time.Time) ([]string, error) {
	stamp := asideMark + at.UTC().Format("20060102T150405.000Z")
	var moved []string
	for _, path := range f.paths() {
		is, err := filled(path)
		if err != nil {
			return moved, err
		}
		if !is {
			continue
		}
		if err := os.Rename(path, path+stamp); err != nil {
			return moved, fmt.Errorf("statedir: put aside: %w", err)
		}
		moved = append(moved, path+stamp)
		if err := durable.SyncDir(filepath.Dir(path)); err != nil {
			return moved, fmt.Errorf("statedir: put aside: %w", err)
		}
	}
	return moved, nil
}

// Aside names what was put aside of earlier states, by its base names, sorted.
func (f Files) Aside() ([]string, error) {
	var names []string
	for _, path := range f.paths() {
		found, err := filepath.Glob(quote(path) + asideMark + "*")
		if err != nil {
			return nil, fmt.Errorf("statedir: aside: %w", err)
		}
		for _, p := range found {
			names = append(names, filepath.Base(p))
		}
	}
	slices.Sort(names)
	return names, nil
}

// filled reports whether there is a file with a byte in it, or a directory with
// an entry. What is neither, a link for example, counts: it is somebody's.
func filled(path string) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("statedir: look: %w", err)
	case info.Mode().IsRegular():
		return info.Size() > 0, nil
	case !info.IsDir():
		return true, nil
	}
	d, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("statedir: look: %w", err)
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(1)
	if len(entries) > 0 {
		return true, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("statedir: look: %w", err)
	}
	return false, nil
}
