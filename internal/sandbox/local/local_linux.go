package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/dirents"
	"palyra/internal/subpath"
)

// packaged are the directories of /usr that package managers fill. Their content is as public as the packages.
var packaged = strings.Fields(`bin sbin lib lib32 lib64 libx32 libexec include share games`)

// settings are directories like /etc: root writes tokens into their files and leaves them readable to everybody.
var settings = []string{"/usr/local/etc"}

const (
	mostEntries = 300_000 // read below one entry of a place; a larger entry is hidden
	mostParts   = 32      // hidden below one entry; one with more is hidden itself
	mostHidden  = 256     // hidden in one place; one with more is hidden itself
	mostRest    = 1_024   // most paths into which a tree is split
	mostBeside  = 500     // most names in a directory with something hidden; one with more is hidden itself
)

const (
	checkAfter = 5 * time.Second // how long a look counts without a check
	wholeAfter = time.Minute     // how long if no directory changed: modes of files change unnoticed
	share      = 100             // looking takes at most one part in so many of the time
	mostAfter  = 5 * time.Minute // unless that would be longer
)

// Places is the local part of a system. The zero value is the machine's own.
type Places struct {
	top   string // "/" except in tests
	owner uint32 // root except in tests

	mu     sync.Mutex
	hidden []string
	dirs   []stamp // of every directory that was read
	check  time.Time
	whole  time.Time
}

// stamp tells apart two directories, and one directory before and after its names change.
type stamp struct {
	path       string
	dev, ino   uint64
	sec, nsec  int64
	mode, user uint32
}

// Hidden returns the real paths that no run may see, each with everything below it; none lies in another. They are
// sorted and must not be changed. Looks are repeated when directories change, and from time to time.
func (p *Places) Hidden() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.check) {
		return p.hidden
	}
	whole := p.dirs == nil || !now.Before(p.whole) || p.changed()
	p.check = next(now, checkAfter)
	if whole {
		now = time.Now()
		l := look{owner: p.owner}
		l.all(p.root())
		p.hidden, p.dirs = slices.Clip(l.hidden), l.dirs
		p.whole = next(now, wholeAfter)
	}
	return p.hidden
}

// Again looks at everything anew and reports whether the hidden paths differ from was: others may
// have looked meanwhile, so the caller says which list it used.
func (p *Places) Again(was []string) (other bool) {
	p.mu.Lock()
	p.check, p.dirs = time.Time{}, nil
	p.mu.Unlock()
	return !slices.Equal(was, p.Hidden())
}

// next is the time of the look after one that began at a time.
func next(began time.Time, after time.Duration) time.Time {
	now := time.Now()
	return now.Add(max(after, min(share*now.Sub(began), mostAfter)))
}

func (p *Places) root() string {
	if p.top == "" {
		return "/"
	}
	return p.top
}

// changed reports whether a directory has changed.
func (p *Places) changed() bool {
	for _, d := range p.dirs {
		var st unix.Stat_t
		if unix.Lstat(d.path, &st) != nil || stampOf(d.path, &st) != d {
			return true
		}
	}
	return false
}

func stampOf(path string, st *unix.Stat_t) stamp {
	return stamp{path, uint64(st.Dev), st.Ino, int64(st.Ctim.Sec), int64(st.Ctim.Nsec), st.Mode, st.Uid}
}

// look is one look at all places.
type look struct {
	owner  uint32
	hidden []string
	dirs   []stamp
	left   int // entries that may still be read
	buf    []byte
}

// all looks at every place of a system.
func (l *look) all(top string) {
	l.place(filepath.Join(top, "opt"))
	usr := filepath.Join(top, "usr")
	names, err := l.names(usr)
	if err != nil {
		l.hidden = append(l.hidden, usr)
		return
	}
	for _, n := range names {
		if !slices.Contains(packaged, n) {
			l.place(filepath.Join(usr, n))
		}
	}
	for _, s := range settings {
		l.empty(filepath.Join(top, s))
	}
	slices.Sort(l.hidden)
	l.hidden = outermost(l.hidden)
}

// place looks at one place, whose path may be a link.
func (l *look) place(path string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		l.unseen(path, err)
		return
	}
	var st unix.Stat_t
	if unix.Lstat(real, &st) != nil || !l.public(&st) {
		l.hidden = append(l.hidden, real)
		return
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	before := len(l.hidden)
	names, err := l.names(real)
	if err != nil {
		l.hidden = append(l.hidden, real)
		return
	}
	for _, n := range names {
		l.left = mostEntries
		l.entry(filepath.Join(real, n))
	}
	if n := len(l.hidden) - before; n > mostHidden || n > 0 && loose(&st) {
		l.hidden = append(l.hidden[:before], real)
	}
}

// unseen hides a place that cannot be read, unless it does not exist. A dangling link needs no cover.
func (l *look) unseen(path string, err error) {
	var st unix.Stat_t
	if errors.Is(err, os.ErrNotExist) || unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return
	}
	l.hidden = append(l.hidden, path)
}

// entry looks at an entry of a place and everything below it.
func (l *look) entry(path string) {
	before := len(l.hidden)
	l.walk(path)
	if l.left < 0 || len(l.hidden)-before > mostParts {
		l.hidden = append(l.hidden[:before], path)
	}
}

// walk adds the paths to hide at path and below.
func (l *look) walk(path string) {
	if l.left--; l.left < 0 {
		return
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); l.judge(path, &st, err) {
		l.below(path, loose(&st))
	}
}

// judge hides what is not public, and reports whether there is anything below to look at.
func (l *look) judge(path string, st *unix.Stat_t, err error) bool {
	switch {
	case errors.Is(err, unix.ENOENT):
		return false
	case err != nil || !l.public(st):
		l.hidden = append(l.hidden, path)
		return false
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// below adds the paths to hide in a directory. It is open only while it is read itself: there are as many
// descriptors as ever, however deep the directories lie.
func (l *look) below(path string, loosely bool) {
	type child struct {
		path  string
		loose bool
	}
	before, names := len(l.hidden), 0
	var dirs []child
	var st unix.Stat_t
	err := l.each(path, func(dir int, name []byte, typ byte) error {
		if names++; names == mostEntries {
			return unix.E2BIG
		}
		if l.left--; l.left < 0 || typ == unix.DT_LNK {
			return nil
		}
		n := string(name)
		err := unix.Fstatat(dir, n, &st, unix.AT_SYMLINK_NOFOLLOW)
		if whole := st.Mode&unix.S_IFMT == unix.S_IFREG && err == nil && l.public(&st); !whole && l.judge(path+"/"+n, &st, err) {
			dirs = append(dirs, child{path + "/" + n, loose(&st)})
		}
		return nil
	})
	if err != nil {
		l.hidden = append(l.hidden[:before], path)
		return
	}
	for _, d := range dirs {
		if l.left < 0 {
			return
		}
		l.below(d.path, d.loose)
	}
	if len(l.hidden) > before && (names > mostBeside || loosely) {
		l.hidden = append(l.hidden[:before], path)
	}
}

// each calls f for what is in a directory, and records its stamp first, so that a change from then on shows.
func (l *look) each(path string, f func(dir int, name []byte, typ byte) error) error {
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	if l.buf == nil {
		l.buf = make([]byte, 32<<10)
	}
	if err := dirents.List(dir, l.buf, func(name []byte, typ byte) error { return f(dir, name, typ) }); err != nil {
		return err
	}
	l.dirs = append(l.dirs, stampOf(path, &st))
	return nil
}

// names lists a directory.
func (l *look) names(path string) (names []string, err error) {
	err = l.each(path, func(_ int, name []byte, _ byte) error {
		if names = append(names, string(name)); len(names) == mostEntries {
			return unix.E2BIG
		}
		return nil
	})
	return names, err
}

// empty hides a directory unless it is empty.
func (l *look) empty(path string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		l.unseen(path, err)
		return
	}
	if names, err := l.names(real); err != nil || len(names) > 0 {
		l.hidden = append(l.hidden, real)
	}
}

// public reports whether everybody may see a file. For a link its target decides.
func (l *look) public(st *unix.Stat_t) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return true
	case unix.S_IFDIR:
		return st.Uid == l.owner && st.Mode&0o007 == 0o005
	case unix.S_IFREG:
		return st.Uid == l.owner && st.Mode&0o004 != 0
	}
	return false
}

// loose reports whether a group can change the names in a directory: a name could then stand for
// another file when it is covered.
func loose(st *unix.Stat_t) bool {
	return st.Mode&0o020 != 0 && st.Mode&unix.S_ISVTX == 0 && st.Gid != 0
}

// outermost drops paths below others of the sorted list.
func outermost(paths []string) (out []string) {
	for _, p := range paths {
		if !slices.ContainsFunc(out, func(o string) bool { return subpath.Within(o, p) }) {
			out = append(out, p)
		}
	}
	return out
}

// below returns those of the hidden paths that are tree, lie in it or contain it.
func below(hidden []string, tree string) (out []string) {
	for _, h := range hidden {
		if subpath.Touch(h, tree) {
			out = append(out, h)
		}
	}
	return out
}

// Rest returns what is left of a tree without the hidden paths: the tree itself if there are none,
// else paths in it that together hold the rest, the uppermost if they are too many. Directories
// that hold something hidden are not among them.
func Rest(tree string, hidden []string) []string {
	out := rest(tree, hidden)
	if len(out) > mostRest {
		depth := func(path string) int { return strings.Count(path, "/") }
		slices.SortStableFunc(out, func(a, b string) int { return depth(a) - depth(b) })
		out = out[:mostRest]
	}
	return out
}

func rest(tree string, hidden []string) (out []string) {
	hidden = below(hidden, tree)
	if len(hidden) == 0 {
		return []string{tree}
	}
	if slices.ContainsFunc(hidden, func(h string) bool { return subpath.Within(h, tree) }) {
		return nil
	}
	entries, err := os.ReadDir(tree)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 { // its target is covered elsewhere
			out = append(out, rest(filepath.Join(tree, e.Name()), hidden)...)
		}
	}
	return out
}
