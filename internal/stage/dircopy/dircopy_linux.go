package dircopy

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/subpath"
)

// The bounds of what one Copier copies.
const (
	mostCopied = 64 << 20 // bytes
	mostNamed  = 20_000
)

// Copier copies directories of one workspace.
type Copier struct {
	Workspace, Upper int                                        // descriptors
	UID              int64                                      // whose the files are; others are not copied
	Stays            func(path string) (sealed, kept bool)      // what must stay as it is; nil: nothing
	Way              func(dir string) (missing bool, err error) // makes the directories of the stage that lead to one
	Mark             string                                     // the attribute of a directory that lets nothing show through
	Modes            uint32                                     // bits of a directory's mode that are copied

	bytes int64
	named int
}

// item is something in a directory that is copied, which comes before what is in it.
type item struct {
	path string
	st   unix.Stat_t
}

// Whole copies one directory. What is no directory, is too large, or has something in it that cannot be copied or that
// must stay, is passed over.
func (c *Copier) Whole(ctx context.Context, dir string) error {
	if dir == "" || dir != path.Clean(dir) || !subpath.Within(".", dir) || dir == "." || c.taken(dir) {
		return nil
	}
	items, ok := c.look(ctx, dir)
	if !ok {
		return nil
	}
	if missing, err := c.Way(path.Dir(dir)); err != nil || missing {
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
func (c *Copier) taken(dir string) bool {
	_, missing, err := beneath.LookBelow(c.Upper, dir)
	return err != nil || !missing
}

// look lists what is in a directory; not ok: it cannot be copied.
func (c *Copier) look(ctx context.Context, dir string) (items []item, ok bool) {
	st, missing, err := beneath.LookBelow(c.Workspace, dir)
	if err != nil || missing {
		return nil, false
	}
	items = []item{{dir, *st}}
	for i := 0; i < len(items); i++ {
		if ctx.Err() != nil || !c.copies(&items[i], i == 0) {
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

func (c *Copier) list(dir string) (items []item, ok bool) {
	fd, err := beneath.OpenIn(c.Workspace, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, false
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := beneath.NamesOf(fd, mostNamed-c.named)
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
func (c *Copier) copies(i *item, top bool) bool {
	if c.Stays != nil {
		if sealed, kept := c.Stays(i.path); sealed || kept {
			return false
		}
	}
	c.named++
	if c.bytes += i.st.Size; c.bytes > mostCopied || c.named > mostNamed || int64(i.st.Uid) != c.UID {
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

func (c *Copier) copy(i *item) error {
	if beneath.IsDir(&i.st) {
		return beneath.InParent(c.Upper, i.path, func(dir int, name string) error { return unix.Mkdirat(dir, name, 0o700) })
	}
	return beneath.CopyBelow(c.Workspace, i.path, c.Upper, i.path, &i.st)
}

// shut gives a directory its mode and time; the topmost lets nothing of the workspace show through.
func (c *Copier) shut(i *item, top bool) error {
	if !beneath.IsDir(&i.st) {
		return nil
	}
	return beneath.InParent(c.Upper, i.path, func(dir int, name string) error {
		var err error
		if top {
			err = unix.Lsetxattr(beneath.ProcName(dir, name), c.Mark, []byte("y"), 0)
		}
		return errors.Join(err, beneath.ChmodAt(dir, name, i.st.Mode&c.Modes),
			unix.UtimesNanoAt(dir, name, []unix.Timespec{i.st.Atim, i.st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
	})
}
