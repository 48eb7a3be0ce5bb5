package agentstage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
)

// What the overlay says of the entries of its upper layer.
const (
	xattrWhole = "user.overlay.opaque" // nothing of the lower layer shows through
	xattrFrom  = "user.overlay.origin" // it was there in the lower layer
)

// mostNames bounds one directory of a stage.
const mostNames = 500_000

// Choice is some of what is on a stage.
type Choice struct {
	all, picked []string        // changed paths, and those among them that are meant: sorted
	fresh       map[string]bool // directories that were made where nothing was
}

// Choose makes a choice of the changes on a stage.
func Choose(all []change.Change, pick func(path string) bool) (c Choice) {
	c.fresh = map[string]bool{}
	for _, x := range all {
		c.all = append(c.all, x.Path)
		if pick(x.Path) {
			c.picked = append(c.picked, x.Path)
		}
		if x.Was.Kind == change.Nothing && x.Now.Kind == change.Directory {
			c.fresh[x.Path] = true
		}
	}
	slices.Sort(c.all)
	slices.Sort(c.picked)
	return c
}

// Paths are those that are meant.
func (c *Choice) Paths() []string { return c.picked }

// Whole reports whether all there is is meant.
func (c *Choice) Whole() bool { return len(c.all) == len(c.picked) }

// WholeError says that something was replaced or removed as a whole, and cannot be kept or dropped in part.
type WholeError struct{ Path string }

// Error implements error.
func (e *WholeError) Error() string {
	return "agentstage: " + strconv.Quote(e.Path) + " was replaced or removed as a whole"
}

// part goes through the upper layer of a stage, together with the workspace.
type part struct {
	ctx       context.Context
	upper, ws int
	Choice
}

// count is how many of sorted paths are a path or below it.
func count(sorted []string, path string) int {
	_, self := slices.BinarySearch(sorted, path)
	from, _ := slices.BinarySearch(sorted, path+"/")
	to, _ := slices.BinarySearch(sorted, path+"0") // the character after the slash
	if self {
		return to - from + 1
	}
	return to - from
}

// is reports whether the change of a path itself is meant.
func (p *part) is(path string) bool {
	_, found := slices.BinarySearch(p.picked, path)
	return found
}

// has reports whether something at a path or below it is meant.
func (p *part) has(path string) bool { return count(p.picked, path) > 0 }

// upperEntry is one name of the upper layer.
type upperEntry struct {
	path  string
	st    unix.Stat_t
	over  bool // the workspace has something there
	dir   bool // which is a directory
	whole bool // nothing of that shows through
}

// entries lists a directory of the upper layer.
func (p *part) entries(rel string) ([]upperEntry, error) {
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	fd, err := beneath.OpenIn(p.upper, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := beneath.NamesOf(fd, mostNames)
	if err != nil {
		return nil, err
	}
	out := make([]upperEntry, 0, len(names))
	for _, n := range names {
		e := upperEntry{path: beneath.Join(rel, n)}
		if err := unix.Fstatat(fd, n, &e.st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, err
		}
		if st, missing, err := beneath.LookBelow(p.ws, e.path); err == nil && !missing {
			e.over, e.dir = true, beneath.IsDir(st)
		}
		if beneath.IsDir(&e.st) {
			own, err := beneath.Attributes(beneath.ProcName(fd, n))
			if err != nil && e.st.Mode&0o400 != 0 {
				return nil, err
			}
			e.whole = e.over && !p.fresh[e.path] && (!e.dir || slices.Contains(own, xattrWhole))
		}
		out = append(out, e)
	}
	return out, nil
}

func (e *upperEntry) white() bool { return e.st.Mode&unix.S_IFMT == unix.S_IFCHR && e.st.Rdev == 0 }

// sound refuses to divide what was replaced or removed as a whole.
func (p *part) sound(e *upperEntry) error {
	n := count(p.picked, e.path)
	if (e.white() || e.whole || !beneath.IsDir(&e.st)) && n > 0 && n < count(p.all, e.path) {
		return &WholeError{e.path}
	}
	return nil
}

// Copy puts what is meant into the upper layer of another stage, with the directories that lead there. It is called with
// the rights of the workspace's owner.
func Copy(ctx context.Context, upper, ws, to int, c Choice) error {
	k := copier{part{ctx, upper, ws, c}, to}
	if err := k.dir(""); err != nil {
		return fmt.Errorf("agentstage: copy: %w", err)
	}
	return nil
}

type copier struct {
	part
	to int
}

func (c *copier) dir(rel string) error {
	all, err := c.entries(rel)
	if err != nil {
		return err
	}
	for i := range all {
		e := &all[i]
		if err := c.sound(e); err != nil {
			return err
		}
		if !c.has(e.path) {
			continue
		}
		if err := c.one(e); err != nil {
			return fmt.Errorf("%s: %w", strconv.Quote(e.path), err)
		}
	}
	return nil
}

func (c *copier) one(e *upperEntry) error {
	switch {
	case e.white():
		return beneath.InParent(c.to, e.path, func(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFCHR, 0) })
	case beneath.IsDir(&e.st):
		return c.directory(e)
	}
	switch e.st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFLNK, unix.S_IFIFO:
	default:
		return nil // never kept
	}
	if err := beneath.CopyBelow(c.upper, e.path, c.to, e.path, &e.st); err != nil {
		return err
	}
	if e.st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	return c.attributes(e)
}

// directory copies a directory. One that the workspace has keeps the mode it has there, unless that is meant.
func (c *copier) directory(e *upperEntry) error {
	mode := e.st.Mode & 0o3777
	if st, missing, err := beneath.LookBelow(c.ws, e.path); err == nil && !missing && beneath.IsDir(st) && !c.is(e.path) {
		mode = st.Mode & 0o3777
	}
	err := beneath.InParent(c.upper, e.path, func(dir int, name string) error {
		if e.st.Mode&0o700 == 0o700 {
			return nil
		}
		return beneath.ChmodAt(dir, name, e.st.Mode&0o777|0o700)
	})
	if err == nil {
		err = beneath.InParent(c.to, e.path, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o700) })
	}
	if err == nil {
		err = c.dir(e.path)
	}
	if err == nil {
		err = c.attributes(e)
	}
	return errors.Join(err, beneath.InParent(c.to, e.path, func(dir int, name string) error {
		return errors.Join(beneath.ChmodAt(dir, name, mode),
			unix.UtimesNanoAt(dir, name, []unix.Timespec{e.st.Atim, e.st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
	}), beneath.InParent(c.upper, e.path, func(dir int, name string) error {
		if e.st.Mode&0o700 == 0o700 {
			return nil
		}
		return beneath.ChmodAt(dir, name, e.st.Mode&0o7777)
	}))
}

// attributes copies what the overlay says of an entry.
func (c *copier) attributes(e *upperEntry) error {
	return beneath.InParent(c.upper, e.path, func(from int, name string) error {
		all, err := beneath.Attributes(beneath.ProcName(from, name))
		if err != nil {
			return err
		}
		return beneath.InParent(c.to, e.path, func(to int, as string) error {
			file := beneath.ProcName(to, as)
			for _, x := range []string{xattrWhole, xattrFrom} {
				if !slices.Contains(all, x) {
					continue
				}
				mode := e.st.Mode & 0o777
				err = errors.Join(err, beneath.ChmodAt(to, as, mode|0o600|mode&0o100), unix.Lsetxattr(file, x, []byte("y"), 0))
			}
			if !beneath.IsDir(&e.st) {
				err = errors.Join(err, beneath.ChmodAt(to, as, e.st.Mode&0o7777))
			}
			return err
		})
	})
}

// Take removes what is meant from the upper layer of a stage: it was kept, or is not wanted. It is called with the rights
// of the workspace's owner.
func Take(ctx context.Context, upper, ws int, c Choice) error {
	p := part{ctx, upper, ws, c}
	if _, err := p.take(""); err != nil {
		return fmt.Errorf("agentstage: take: %w", err)
	}
	return nil
}

// take removes from a directory what is meant. It reports whether nothing is left in it.
func (p *part) take(rel string) (empty bool, err error) {
	all, err := p.entries(rel)
	if err != nil {
		return false, err
	}
	left := 0
	for i := range all {
		e := &all[i]
		if err := p.sound(e); err != nil {
			return false, err
		}
		gone := false
		switch {
		case beneath.IsDir(&e.st):
			gone, err = p.takeDir(e)
		case p.has(e.path):
			gone, err = true, beneath.InParent(p.upper, e.path, func(dir int, name string) error { return unix.Unlinkat(dir, name, 0) })
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", strconv.Quote(e.path), err)
		}
		if !gone {
			left++
		}
	}
	return left == 0, nil
}

// takeDir is take for a directory that may go itself. What the workspace has by now of one that was new shows through it
// from then on: else the rest would remove it.
func (p *part) takeDir(e *upperEntry) (gone bool, err error) {
	if !p.has(e.path) {
		return false, nil
	}
	err = beneath.InParent(p.upper, e.path, func(dir int, name string) error {
		if e.st.Mode&0o700 == 0o700 {
			return nil
		}
		return beneath.ChmodAt(dir, name, e.st.Mode&0o777|0o700)
	})
	if err != nil {
		return false, err
	}
	empty, err := p.take(e.path)
	if err != nil {
		return false, err
	}
	err = beneath.InParent(p.upper, e.path, func(dir int, name string) error {
		if empty && (e.over || p.is(e.path)) {
			gone = true
			return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		file := beneath.ProcName(dir, name)
		all, err := beneath.Attributes(file)
		if err == nil && slices.Contains(all, xattrWhole) {
			err = unix.Lremovexattr(file, xattrWhole)
		}
		return errors.Join(err, beneath.ChmodAt(dir, name, e.st.Mode&0o7777))
	})
	return gone, err
}

// Same reports whether a path of the upper layer is what the workspace has there: it was kept, and nobody took it.
func Same(upper, ws int, path string) bool {
	a, missing, err := beneath.LookBelow(upper, path)
	if missing || errors.Is(err, unix.ENOTDIR) { // it lies in something that was removed
		_, missing, err = beneath.LookBelow(ws, path)
		return err == nil && missing || errors.Is(err, unix.ENOTDIR)
	}
	if err != nil {
		return false
	}
	kind := a.Mode & unix.S_IFMT
	if kind == unix.S_IFSOCK || kind == unix.S_IFBLK || kind == unix.S_IFCHR && a.Rdev != 0 { // never kept
		return true
	}
	b, missing, err := beneath.LookBelow(ws, path)
	if white := a.Mode&unix.S_IFMT == unix.S_IFCHR && a.Rdev == 0; white && missing {
		return true
	}
	if err != nil || missing || modeKept(a) != modeKept(b) {
		return false
	}
	switch kind {
	case unix.S_IFDIR, unix.S_IFIFO:
		return true
	case unix.S_IFLNK:
		x, err := beneath.Target(upper, path)
		y, err2 := beneath.Target(ws, path)
		return err == nil && err2 == nil && x == y
	case unix.S_IFREG:
		return a.Size == b.Size && sameContent(upper, ws, path)
	}
	return false
}

// modeKept is the kind and mode of an entry, without the set-id bits of a file, which are never kept.
func modeKept(st *unix.Stat_t) uint32 {
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		return st.Mode &^ 0o6000
	}
	return st.Mode
}

func sameContent(upper, ws int, path string) bool {
	a, _, err := beneath.OpenRegular(upper, path)
	if err != nil {
		return false
	}
	defer func() { _ = a.Close() }()
	b, _, err := beneath.OpenRegular(ws, path)
	if err != nil {
		return false
	}
	defer func() { _ = b.Close() }()
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return false
		}
		if errA != nil || errB != nil {
			return errA != nil && errB != nil && !errors.Is(errors.Join(errA, errB), unix.EIO)
		}
	}
}
