package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/gitfile"
	"palyra/internal/preimage"
	"palyra/internal/stage/steps"
)

// DiffersError says that a workspace is not as a run left it, so that what the run
// replaced cannot be put back without taking somebody's later work.
type DiffersError struct {
	Paths []string // some of them, for people
	More  int
}

// Error implements error.
func (e *DiffersError) Error() string {
	text := "stage: changed since: " + strings.Join(e.Paths, ", ")
	if e.More > 0 {
		text += fmt.Sprintf(" and %d more", e.More)
	}
	return text
}

// Revert makes a stage on which a run is undone: to keep it puts back what the run replaced or removed, and removes
// what it made. Its workspace must be as the run left it, at every path that the run changed; else the error is a
// DiffersError. What is remembered stays.
func (s *Stages) Revert(ctx context.Context, p *preimage.Store, name string) (*Stage, error) {
	m, err := p.Read(name)
	if err != nil {
		return nil, err
	}
	g, err := s.Make(m.Workspace, m.Owner())
	if err != nil {
		return nil, err
	}
	if (g.root != beneath.Ident{Dev: m.Dev, Ino: m.Ino}) {
		err = errGone
	} else {
		err = g.revert(ctx, p, name, m)
	}
	if err != nil {
		g.Drop()
		return nil, fmt.Errorf("stage: revert: %w", err)
	}
	return g, nil
}

// Compare looks whether the workspace is as the run left it, at every path that the run changed: else the error is a
// DiffersError. Nothing is copied.
func (s *Stages) Compare(ctx context.Context, p *preimage.Store, name string) error {
	m, err := p.Read(name)
	if err != nil {
		return err
	}
	g := &Stage{of: s, workspace: m.Workspace, id: m.Owner(), root: beneath.Ident{Dev: m.Dev, Ino: m.Ino}}
	return g.asOwner(func() error {
		ws, err := g.openWorkspace()
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(ws) }()
		v := reverter{placer: placer{g, ws, -1}, reader: &reader{Stage: g, ctx: ctx, ws: ws, upper: -1}, all: m.Changes}
		return v.compare()
	})
}

func (g *Stage) revert(ctx context.Context, p *preimage.Store, name string, m preimage.Manifest) error {
	away, done, err := p.OpenOld(ctx, name)
	if err != nil {
		return err
	}
	defer done()
	return g.inBoth(func(ws, upper int) error {
		v := reverter{placer: placer{g, ws, upper}, reader: &reader{Stage: g, ctx: ctx, ws: ws, upper: upper}, away: away, all: m.Changes}
		if err := v.compare(); err != nil {
			return err
		}
		for i := range v.all {
			if err := v.restore(&v.all[i]); err != nil {
				return fmt.Errorf("%s: %w", change.Quoted(string(v.all[i].Path)), err)
			}
		}
		return v.shutAll()
	})
}

// reverter fills the upper layer of a stage that undoes a run.
type reverter struct {
	placer
	reader *reader
	away   int // what the run replaced
	all    []preimage.Replacement
	shut   map[string]bool // paths that have something else in the place of a directory: nothing is below them
	dirs   []string        // that were made
	modes  []uint32        // that they had
}

// compare looks whether the workspace is as the run left it.
func (v *reverter) compare() (err error) {
	differs := &DiffersError{}
	defer func() { err = errors.Join(err, v.reader.shutNow(&steps.Worker{})) }()
	for i := range v.all {
		same, err := v.still(&v.all[i])
		if err != nil {
			return err
		}
		if same {
			continue
		}
		if len(differs.Paths) < change.MostTold {
			differs.Paths = append(differs.Paths, change.Quoted(string(v.all[i].Path)))
		} else {
			differs.More++
		}
	}
	if len(differs.Paths) > 0 {
		return differs
	}
	return nil
}

// still reports whether a path is what the run made of it. A directory that it made has
// nothing in it that it did not put there.
func (v *reverter) still(e *preimage.Replacement) (bool, error) {
	p := string(e.Path)
	if p == "" {
		var st unix.Stat_t
		err := unix.Fstat(v.ws, &st)
		return st.Mode&modeBits == e.Now.Mode, err
	}
	if v.stays(e) {
		return true, nil
	}
	var now State
	st, missing, err := beneath.LookBelow(v.ws, p)
	if err == nil && !missing && e.Left != nil {
		return e.Left.Same(st), nil
	}
	if err == nil && !missing && beneath.IsDir(st) {
		err = v.reader.ajar(p, st)
	}
	if err == nil && !missing {
		now, err = v.reader.state(v.ws, p, st)
	}
	if errors.Is(steps.Replaced(err), steps.ErrTaken) { // a parent is another thing now
		return e.Now.Kind == Nothing, nil
	}
	if e.AnyMode {
		now.Mode = e.Now.Mode
	}
	if err != nil || now != e.Now {
		return false, err
	}
	if now.Kind != Directory || e.Was.Kind == Directory {
		return true, nil
	}
	fd, err := beneath.OpenIn(v.ws, p, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.EACCES) { // its owner shut it; what is in it shows when it is removed
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := listNames(fd, v.of.limits.Entries)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(names, func(n string) bool { return !v.made(p + "/" + n) }), nil
}

// stays reports whether the run put something into the objects of a repository that it did not make. That is left for
// git to remove once nothing needs it: commits of other work trees may, and those that somebody made since.
func (v *reverter) stays(e *preimage.Replacement) bool {
	store, is := gitfile.Object(string(e.Path))
	if !is || e.Was.Kind != Nothing || e.Now.Kind == Nothing {
		return false
	}
	i, found := v.find(store)
	return !found || v.all[i].Was.Kind != Nothing
}

// find finds what became of a path.
func (v *reverter) find(p string) (int, bool) {
	return slices.BinarySearchFunc(v.all, p, func(e preimage.Replacement, p string) int { return strings.Compare(string(e.Path), p) })
}

// made reports whether the run left something at a path.
func (v *reverter) made(p string) bool {
	i, found := v.find(p)
	return found && v.all[i].Now.Kind != Nothing
}

// restore puts one path of the stage as it was before the run.
func (v *reverter) restore(e *preimage.Replacement) error {
	p := string(e.Path)
	if p == "" {
		delete(v.parents, "") // its mode counts
		return beneath.Chmod(v.upper, e.Was.Mode|0o700)
	}
	if v.belowShut(p) {
		return nil
	}
	if _, missing, err := v.way(pathDir(p)); err != nil || missing {
		return errors.Join(err, errIf(missing, unix.ENOENT))
	}
	switch e.Was.Kind {
	case Directory:
		return v.directory(p, e)
	case Nothing, Socket, Device: // a socket without its program helps nobody
		if e.Now.Kind == Nothing || v.stays(e) {
			return nil
		}
		v.close(p, e)
		return beneath.InParent(v.upper, p, func(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFCHR, 0) })
	}
	v.close(p, e)
	return v.copyBack(p, e)
}

// close says that a path which was a directory has nothing below it on the stage.
func (v *reverter) close(p string, e *preimage.Replacement) {
	if e.Now.Kind != Directory {
		return
	}
	if v.shut == nil {
		v.shut = map[string]bool{}
	}
	v.shut[p] = true
}

// belowShut reports whether a path lies in one that has nothing below it.
func (v *reverter) belowShut(p string) bool {
	for len(v.shut) > 0 && p != "" {
		if p = beneath.Parent(p); v.shut[p] {
			return true
		}
	}
	return false
}

// directory makes one, in the place of what is there.
func (v *reverter) directory(p string, e *preimage.Replacement) error {
	return beneath.InParent(v.upper, p, func(dir int, name string) error {
		err := unix.Mkdirat(dir, name, 0o700)
		if _, made := v.parents[p]; made && errors.Is(err, unix.EEXIST) {
			err = nil
		}
		if err == nil && e.Now.Kind != Nothing && e.Now.Kind != Directory {
			err = unix.Lsetxattr(beneath.ProcName(dir, name), xattrWhole, []byte("y"), 0)
		}
		if err != nil {
			return err
		}
		v.parents[p] = open700
		v.dirs = append(v.dirs, p)
		v.modes = append(v.modes, e.Was.Mode)
		return beneath.ChmodAt(dir, name, open700)
	})
}

// open700 is the mode of a directory that is being filled.
const open700 = 0o700

// shutAll gives the directories that were made the modes they had.
func (v *reverter) shutAll() error {
	for i, p := range slices.Backward(v.dirs) {
		delete(v.parents, p)
		if err := beneath.InParent(v.upper, p, func(dir int, name string) error { return beneath.ChmodAt(dir, name, v.modes[i]) }); err != nil {
			return err
		}
	}
	return nil
}

// copyBack copies what was at a path to the stage. What is not what it was is not put back.
func (v *reverter) copyBack(p string, e *preimage.Replacement) error {
	at, st, err := preimage.Find(v.away, e)
	if err != nil {
		return err
	}
	if err := beneath.CopyBelow(v.away, at, v.upper, p, st); err != nil {
		return err
	}
	st, _, err = beneath.LookBelow(v.upper, p)
	if err != nil {
		return err
	}
	if st.Mode&0o777 != e.Was.Mode && e.Was.Kind != Link {
		if err := beneath.InParent(v.upper, p, func(dir int, name string) error { return beneath.ChmodAt(dir, name, e.Was.Mode) }); err != nil {
			return err
		}
		st.Mode = st.Mode&^0o777 | e.Was.Mode
	}
	got, err := v.reader.state(v.upper, p, st)
	if e.Was.Digest == "" { // nobody could read it then
		got.Digest = ""
	}
	if err == nil && got != e.Was {
		err = errors.New("its remembered state was changed")
	}
	return err
}

func errIf(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// pathDir is the directory of a path as way has it.
func pathDir(p string) string {
	if dir := beneath.Parent(p); dir != "" {
		return dir
	}
	return "."
}
