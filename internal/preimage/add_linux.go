package preimage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/fault"
	"palyra/internal/owner"
	"palyra/internal/subpath"
)

// Former is a path that is about to be changed without a stage, and what a file there has.
type Former struct {
	change.Change
	Content []byte
	AnyMode bool // as in Replacement
}

// newPrefix begins the names of what is not remembered yet.
const newPrefix = "new."

// Addition is what is about to be remembered.
type Addition struct {
	store *Store
	name  string
}

// Size is how much Add takes on disk.
func Size(all []Former) int64 {
	bytes := int64(3 * Block)
	for i := range all {
		bytes += Listed(&all[i].Change) + (all[i].Was.Size+Block-1)/Block*Block
	}
	return bytes
}

// Add writes down what is about to be replaced in a workspace of somebody's. It is found
// under its name once that is done, and Commit says so. Lose: what is new may go for it.
func (p *Store) Add(name, workspace string, id owner.Identity, all []Former, lose bool) (_ *Addition, err error) {
	if !subpath.PlainID(name) {
		return nil, fmt.Errorf("preimage: add: %q is no name", name)
	}
	a := &Addition{p, name}
	defer func() {
		if err != nil {
			a.Drop()
			err = fmt.Errorf("preimage: add: %w", err)
		}
	}()
	var st unix.Stat_t
	if err := unix.Lstat(workspace, &st); err != nil {
		return nil, err
	}
	if err := beneath.Remove(owner.As, p.Dir(), newPrefix+name); err != nil {
		return nil, err
	}
	bytes := Size(all)
	if err := p.space.Take(name, bytes, lose); err != nil {
		return nil, err
	}
	top := filepath.Join(p.path, newPrefix+name)
	if err := errors.Join(os.Mkdir(top, 0o700), os.Mkdir(filepath.Join(top, Old), 0o700)); err != nil {
		return nil, err
	}
	m := Manifest{
		Version: 1, Workspace: workspace, Dev: uint64(st.Dev), Ino: st.Ino, UID: id.UID, GID: id.GID,
		At: time.Now().UTC(), Bytes: bytes,
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Former) int { return strings.Compare(a.Path, b.Path) })
	for i, o := range all {
		e := Replacement{Path: []byte(o.Path), Was: o.Was, Now: o.Now, Step: -1, AnyMode: o.AnyMode}
		if o.Was.Kind == change.File {
			e.Step = i
			if err := writeOld(filepath.Join(top, Old, strconv.Itoa(i)), o, id); err != nil {
				return nil, err
			}
		}
		m.Changes = append(m.Changes, e)
	}
	text, err := m.Text()
	if err != nil {
		return nil, err
	}
	return a, errors.Join(own(filepath.Join(top, Old), id), os.WriteFile(filepath.Join(top, ManifestName), text, 0o600))
}

// writeOld writes what a file had.
func writeOld(path string, o Former, id owner.Identity) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(o.Content)
	if err == nil && os.Geteuid() == 0 {
		err = f.Chown(int(id.UID), int(id.GID))
	}
	return errors.Join(err, f.Chmod(os.FileMode(o.Was.Mode&0o777)), f.Close())
}

// own gives a directory of the daemon's to a workspace's owner.
func own(path string, id owner.Identity) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(id.UID), int(id.GID))
}

// Commit says that what was written down is replaced now.
func (a *Addition) Commit() error {
	dir := a.store.Dir()
	defer a.store.space.Settled(a.name)
	fault.Point("stage.added/lost")
	if err := unix.Renameat2(dir, newPrefix+a.name, dir, a.name, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("preimage: add: %w", err)
	}
	fault.Point("stage.added/kept")
	return nil
}

// Drop forgets it: nothing was replaced.
func (a *Addition) Drop() {
	_ = beneath.Remove(owner.As, a.store.Dir(), newPrefix+a.name)
	a.store.space.Settled(a.name)
}

// Sweep removes what an earlier daemon had begun to write down.
func (p *Store) Sweep() error {
	left, err := filepath.Glob(filepath.Join(p.path, newPrefix+"*"))
	for _, path := range left {
		err = errors.Join(err, beneath.Remove(owner.As, p.Dir(), filepath.Base(path)))
	}
	return err
}
