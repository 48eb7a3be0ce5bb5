package stage

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
)

// Over looks at how much a run has on its stage while it goes on: a LimitError says
// that it is more than is kept, or that all runs have too much and this one the most of them. What cannot be opened, or
// is gone again, is not looked into.
func (g *Stage) Over() error {
	if g.beside != nil {
		if err := g.beside.Over(); err != nil {
			return err
		}
	}
	g.looking.Lock()
	defer g.looking.Unlock()
	if g.ended.Load() {
		return nil
	}
	return g.asOwner(func() error {
		upper, err := g.open(Upper)
		if err != nil {
			return nil
		}
		defer func() { _ = unix.Close(upper) }()
		m := meter{limits: g.of.limits, ended: &g.ended}
		err = m.count(upper)
		if g.of.sizes.Report(g.name, m.bytes+int64(m.names)*nameBytes) && err == nil {
			return tooMuchInAll(g.of.limits.All)
		}
		return err
	})
}

// lookNoMore ends a look that is under way: the run is over, and its stage may get another name.
func (g *Stage) lookNoMore() {
	g.ended.Store(true)
	g.looking.Lock()
	defer g.looking.Unlock()
}

// meter adds up what is in a tree.
type meter struct {
	limits Limits
	ended  *atomic.Bool
	names  int
	bytes  int64
	text   int // bytes of the paths of directories
}

// count goes through a tree, one directory after the other: those that wait are known
// by their paths, however many there are and however deep they lie.
func (m *meter) count(top int) error {
	for dirs := []string{""}; len(dirs) > 0 && !m.ended.Load(); {
		rel := dirs[len(dirs)-1]
		more, err := m.dir(top, rel)
		if err != nil {
			return err
		}
		dirs = append(dirs[:len(dirs)-1], more...)
	}
	return nil
}

// dir adds up a directory and returns those that are in it.
func (m *meter) dir(top int, rel string) (more []string, err error) {
	fd, err := beneath.OpenIn(top, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := listNames(fd, m.limits.Entries-m.names)
	if over := (*LimitError)(nil); errors.As(err, &over) {
		return nil, err
	}
	for _, n := range names {
		m.names++
		var st unix.Stat_t
		if unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		if m.bytes += st.Blocks * 512; m.bytes > m.limits.Bytes {
			return nil, tooMuch(m.limits.Bytes)
		}
		if beneath.IsDir(&st) && len(rel)+len(n) < mostPath {
			p := beneath.Join(rel, n)
			if m.text += len(p); m.text > mostNames {
				return nil, tooMany("paths of %d bytes together", mostNames)
			}
			more = append(more, p)
		}
	}
	return more, nil
}

// listNames lists a directory with at most so many names, sorted: equal stages give equal steps.
func listNames(fd, most int) ([]string, error) {
	names, err := beneath.NamesOf(fd, most)
	if many := (*beneath.ManyError)(nil); errors.As(err, &many) {
		err = tooMany("%d names in one directory", many.Most)
	}
	return names, err
}
