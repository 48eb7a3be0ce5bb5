package repofind

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/dirents"
	"palyra/internal/trusted"
)

// maxPath is the longest path that is looked at.
const maxPath = 4_000

// Search is for one goroutine.
type Search struct {
	Since   time.Time // what changed before is not told
	Entries int       // that are looked at in all directories given to In, with all below; to open one counts as several
	Most    int       // that are told of one

	buf, fold []byte
}

// Clock is the time that the kernel gives to what changes now, or an earlier one.
func Clock() time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return time.Now().Add(-time.Second)
	}
	return time.Unix(now.Unix())
}

// Found is what a search found below one directory.
type Found struct {
	Paths  []string // in the order of the search
	More   int      // than are named
	Partly bool     // the search ended before everything that changed was looked at
	Err    error    // the directory itself could not be opened
}

// place is a directory that waits.
type place struct {
	*root
	path string
}

// root is one of the directories that were given to In.
type root struct {
	Found
	top int
}

// look is one search.
type look struct {
	*Search
	*root // the one that is looked at
	left  int
	wait  [3][]place // those called .git, others that changed, and the rest
}

// Ranks of what waits.
const (
	rankGit = iota
	rankChanged
	rankRest
)

// errEnough ends a look.
var errEnough = errors.New("repofind: enough")

// In returns what it found below each of the directories. Directories that changed and
// cannot be read are among it: what is in them is for their owner to open. All share one
// bound, so that those in which nothing changed leave it to the others.
func (s *Search) In(dirs ...string) []Found {
	if s.buf == nil {
		s.buf = make([]byte, 32<<10)
	}
	l := &look{Search: s, left: s.Entries}
	roots := make([]*root, len(dirs))
	for i, dir := range dirs {
		roots[i] = &root{}
		top, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if roots[i].Err = err; err != nil {
			continue
		}
		defer func() { _ = unix.Close(top) }()
		roots[i].top = top
		l.wait[rankChanged] = append(l.wait[rankChanged], place{roots[i], ""})
	}
	for {
		at, rank, ok := l.next()
		if !ok {
			break
		}
		l.root = at.root
		if l.directory(at.path) != nil {
			l.ended(rank)
			break
		}
	}
	out := make([]Found, len(roots))
	for i, r := range roots {
		out[i] = r.Found
	}
	return out
}

// ended notes where something that changed was not looked at.
func (l *look) ended(rank int) {
	l.Partly = l.Partly || rank != rankRest
	for _, at := range append(l.wait[rankGit], l.wait[rankChanged]...) {
		at.Partly = true
	}
}

// next is the directory to look at.
func (l *look) next() (at place, rank int, ok bool) {
	for rank := range l.wait {
		if from := &l.wait[rank]; len(*from) > 0 {
			at, *from = (*from)[0], (*from)[1:]
			return at, rank, true
		}
	}
	return place{}, 0, false
}

// Entries by which a directory is known for a repository, or for part of one.
const (
	hasHead = 1 << iota
	hasObjects
	hasRefs
	hasCommon
	hasInside // what git heeds is in it
)

// openCosts is how many entries the opening of a directory counts for, by time.
const openCosts = 8

// directory looks at the entries of one.
func (l *look) directory(at string) error {
	if l.left -= openCosts; l.left < 0 {
		return errEnough
	}
	fd := l.top
	if at != "" {
		var err error
		if fd, err = l.open(at); err != nil { // of those that wait, only what changed is worth a word
			if errors.Is(err, unix.EACCES) && l.changed(l.top, at) {
				l.report(at)
			}
			return nil
		}
		defer func() { _ = unix.Close(fd) }()
	}
	have, fresh := 0, false
	var below, inside []string
	err := dirents.List(fd, l.buf, func(name []byte, typ byte) error {
		if l.left--; l.left < 0 {
			return errEnough
		}
		bit, settles := l.mark(name)
		have |= bit
		fresh = fresh || settles && l.changed(fd, string(name))
		if bit == hasInside {
			inside = append(inside, string(name))
		}
		path := join(at, string(name))
		switch typ {
		case unix.DT_DIR:
			below = append(below, path)
		case unix.DT_UNKNOWN:
			if l.isDir(fd, string(name)) {
				below = append(below, path)
			}
		}
		if l.isOwn(typ) && l.changed(fd, string(name)) {
			l.report(path)
		}
		return nil
	})
	if have&(hasHead|hasObjects|hasRefs) == hasHead|hasObjects|hasRefs || have&(hasHead|hasCommon) == hasHead|hasCommon {
		for _, name := range inside {
			if !fresh && err == nil {
				fresh, err = l.freshIn(fd, name)
			}
		}
		if fresh {
			l.report(at)
		}
		return err // what it consists of is nobody's repository
	}
	l.deferDirs(below)
	return err
}

// freshIn reports whether an entry of a directory of a repository changed: a file that is
// written over in its place leaves the directory as it was.
func (l *look) freshIn(repo int, name string) (fresh bool, err error) {
	if l.left -= openCosts; l.left < 0 {
		return false, errEnough
	}
	fd, err := unix.Openat(repo, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil { // one that was shut changed, and one that is no directory settled it by itself
		return false, nil
	}
	defer func() { _ = unix.Close(fd) }()
	err = dirents.List(fd, l.buf, func(name []byte, _ byte) error {
		if l.left--; l.left < 0 {
			return errEnough
		}
		fresh = fresh || l.changed(fd, string(name))
		return nil
	})
	return fresh, err
}

// open opens a directory of the tree, through no link.
func (l *look) open(at string) (int, error) {
	return unix.Openat2(l.top, at, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// mark says what an entry makes of the directory it is in, and whether a change of it
// changes what git does there: that of a part without which it is none may have completed
// it, whenever the others were made. Names are folded as the file systems do that git minds.
func (l *look) mark(name []byte) (bit int, settles bool) {
	if len(name) < 3 || len(name) > 32 {
		l.fold = l.fold[:0]
		return 0, false
	}
	l.fold = trusted.Fold(l.fold[:0], name)
	switch string(l.fold) {
	case "head":
		return hasHead, true
	case "objects":
		return hasObjects, true
	case "refs":
		return hasRefs, true
	case "commondir":
		return hasCommon, true
	case "hooks", "info":
		return hasInside, true
	case "config", "config.worktree":
		return 0, true
	}
	return 0, false
}

// isOwn reports whether the entry that mark just saw is a repository by its name
// alone. A directory called .git is one by what is in it.
func (l *look) isOwn(typ byte) bool {
	switch string(l.fold) {
	case ".git":
		return typ == unix.DT_REG || typ == unix.DT_LNK || typ == unix.DT_UNKNOWN
	case ".hg", ".jj":
		return true
	}
	return false
}

// deferDirs has directories looked at later.
func (l *look) deferDirs(below []string) {
	for _, path := range below {
		rank := rankRest
		if l.changed(l.top, path) {
			rank = rankChanged
		}
		if len(path) > maxPath {
			l.Partly = l.Partly || rank == rankChanged
			continue
		}
		if l.fold = trusted.Fold(l.fold[:0], []byte(path[strings.LastIndexByte(path, '/')+1:])); string(l.fold) == ".git" {
			rank = rankGit
		}
		l.wait[rank] = append(l.wait[rank], place{l.root, path})
	}
}

// changed reports whether an entry is new, or other than it was.
func (l *look) changed(dir int, name string) bool {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) != nil {
		return false
	}
	return !time.Unix(st.Ctim.Unix()).Before(l.Since)
}

func (l *look) isDir(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

func (l *look) report(path string) {
	path = cmp.Or(path, ".")
	if len(l.Paths) >= l.Most {
		l.More++
		return
	}
	l.Paths = append(l.Paths, path)
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
