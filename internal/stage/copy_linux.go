package stage

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/subpath"
)

// The bounds of what CopyDirs copies.
const (
	mostCopied = 64 << 20 // bytes
	mostNamed  = 20_000
)

// CopyDirs puts whole copies of directories into the stage, before it is mounted: an overlay cannot rename a
// directory that lies in the workspace, and can one that lies on the stage. What is no directory, is too large, or
// has something in it that cannot be copied or that names says must stay, is passed over.
func (g *Stage) CopyDirs(ctx context.Context, dirs []string, names Names) error {
	if len(dirs) == 0 {
		return nil
	}
	c := dirCopier{ctx: ctx, names: names}
	err := g.inBoth(func(ws, upper int) error {
		c.placer = placer{g, ws, upper}
		for _, dir := range dirs {
			if err := c.whole(dir); err != nil {
				return fmt.Errorf("%s: %w", change.Quoted(dir), err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("stage: copy: %w", err)
	}
	return nil
}

// inBoth calls f as the owner with the workspace and the upper layer.
func (g *Stage) inBoth(f func(ws, upper int) error) error {
	return g.asOwner(func() error {
		ws, err := g.openWorkspace()
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(ws) }()
		upper, err := g.open(Upper)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(upper) }()
		return f(ws, upper)
	})
}

type dirCopier struct {
	placer
	ctx   context.Context
	names Names
	bytes int64
	named int
}

// item is something in a directory that is copied, which comes before what is in it.
type item struct {
	path string
	st   unix.Stat_t
}

// whole copies one directory.
func (c *dirCopier) whole(dir string) error {
	if dir == "" || dir != path.Clean(dir) || !subpath.Within(".", dir) || dir == "." || c.taken(dir) {
		return nil
	}
	items, ok := c.look(dir)
	if !ok {
		return nil
	}
	if _, missing, err := c.way(path.Dir(dir)); err != nil || missing {
		return err
	}
	for i := range items {
		if err := c.copy(&items[i]); err != nil {
			return err
		}
	}
	for i := len(items) - 1; i >= 0; i-- { // what is in them is there
		if err := c.shut(&items[i], i == 0); err != nil {
			return err
		}
	}
	return nil
}

// taken reports whether something of a directory, or all of it, lies on the stage already.
func (c *dirCopier) taken(dir string) bool {
	_, missing, err := beneath.LookBelow(c.upper, dir)
	return err != nil || !missing
}

// look lists what is in a directory; not ok: it cannot be copied.
func (c *dirCopier) look(dir string) (items []item, ok bool) {
	st, missing, err := beneath.LookBelow(c.ws, dir)
	if err != nil || missing {
		return nil, false
	}
	items = []item{{dir, *st}}
	for i := 0; i < len(items); i++ {
		if c.ctx.Err() != nil || !c.copies(&items[i], i == 0) {
			return nil, false
		}
		if !beneath.IsDir(&items[i].st) {
			continue
		}
		more, ok := c.list(items[i].path)
		if !ok {
			return nil, false
		}
		items = append(items, more...)
	}
	return items, true
}

func (c *dirCopier) list(dir string) (items []item, ok bool) {
	fd, err := beneath.OpenIn(c.ws, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, false
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := listNames(fd, mostNamed-c.named)
	for _, n := range names {
		st, missing, lookErr := beneath.LookAt(fd, n)
		if lookErr != nil || missing {
			return nil, false
		}
		items = append(items, item{dir + "/" + n, st})
	}
	return items, err == nil
}

// copies reports whether something can be copied as it is.
func (c *dirCopier) copies(i *item, top bool) bool {
	if c.names != nil {
		if sealed, kept := c.names(i.path); sealed || kept {
			return false
		}
	}
	c.named++
	if c.bytes += i.st.Size; c.bytes > mostCopied || c.named > mostNamed || int64(i.st.Uid) != c.id.UID {
		return false
	}
	switch i.st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return i.st.Mode&0o700 == 0o700
	case unix.S_IFREG:
		return !top && i.st.Mode&0o400 != 0
	case unix.S_IFLNK:
		return !top
	}
	return false
}

func (c *dirCopier) copy(i *item) error {
	if beneath.IsDir(&i.st) {
		return beneath.InParent(c.upper, i.path, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o700) })
	}
	return beneath.CopyBelow(c.ws, i.path, c.upper, i.path, &i.st)
}

// shut gives a directory its mode and time; the topmost lets nothing of the workspace show through.
func (c *dirCopier) shut(i *item, top bool) error {
	if !beneath.IsDir(&i.st) {
		return nil
	}
	return beneath.InParent(c.upper, i.path, func(dir int, name string) error {
		var err error
		if top {
			err = unix.Lsetxattr(beneath.ProcName(dir, name), xattrWhole, []byte("y"), 0)
		}
		return errors.Join(err, beneath.ChmodAt(dir, name, i.st.Mode&modeBits),
			unix.UtimesNanoAt(dir, name, []unix.Timespec{i.st.Atim, i.st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
	})
}
