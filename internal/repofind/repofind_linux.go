package repofind

import (
	"errors"
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
	Entries int       // that are looked at in one directory given to In, with all below; to open one counts as several
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

// look is the search of one directory.
type look struct {
	*Search
	top         int
	left        int
	first, then []string // directories that wait: those that changed, and the others
	found       []string
	more        int
}

// errEnough ends a look.
var errEnough = errors.New("repofind: enough")

// In returns what it found below a directory, in the order of the search, and how many
// more than it names. Directories that changed and cannot be read are among them: what
// is in them is for their owner to open.
func (s *Search) In(dir string) (found []string, more int, err error) {
	top, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = unix.Close(top) }()
	if s.buf == nil {
		s.buf = make([]byte, 32<<10)
	}
	l := &look{Search: s, top: top, left: s.Entries, then: []string{""}}
	for {
		at, ok := l.next()
		if !ok || l.directory(at) != nil {
			return l.found, l.more, nil
		}
	}
}

// next is the directory to look at.
func (l *look) next() (at string, ok bool) {
	from := &l.first
	if len(l.first) == 0 {
		from = &l.then
	}
	if len(*from) == 0 {
		return "", false
	}
	at, *from = (*from)[0], (*from)[1:]
	return at, true
}

// Entries by which a directory is known for a repository, or for part of one.
const (
	hasHead = 1 << iota
	hasObjects
	hasRefs
	hasCommon
)

// openCosts is how many entries the opening of a directory counts for, by time.
const openCosts = 8

// directory looks at the entries of one.
func (l *look) directory(at string) error {
	if l.left -= openCosts; l.left < 0 {
		return errEnough
	}
	fd, err := l.open(at)
	if err != nil { // of those that wait, only what changed is worth a word
		if errors.Is(err, unix.EACCES) && l.changed(l.top, at) {
			l.tell(at)
		}
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	have, fresh := 0, false
	var below []string
	err = dirents.List(fd, l.buf, func(name []byte, typ byte) error {
		if l.left--; l.left < 0 {
			return errEnough
		}
		bit, settles := l.mark(name)
		have |= bit
		fresh = fresh || settles && l.changed(fd, string(name))
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
			l.tell(path)
		}
		return nil
	})
	if have&(hasHead|hasObjects|hasRefs) == hasHead|hasObjects|hasRefs || have&(hasHead|hasCommon) == hasHead|hasCommon {
		if fresh {
			l.tell(at)
		}
		return err // what it consists of is nobody's repository
	}
	l.wait(below)
	return err
}

// open opens a directory of the tree, through no link.
func (l *look) open(at string) (int, error) {
	if at == "" {
		at = "."
	}
	return unix.Openat2(l.top, at, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// mark says what an entry makes of the directory it is in, and whether a change of it
// changes what git does there. Names are folded as the file systems do that git minds.
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
		return hasObjects, false
	case "refs":
		return hasRefs, false
	case "commondir":
		return hasCommon, true
	case "config", "config.worktree", "hooks":
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

// wait has directories looked at later.
func (l *look) wait(below []string) {
	for _, path := range below {
		switch {
		case len(path) > maxPath:
		case l.changed(l.top, path):
			l.first = append(l.first, path)
		default:
			l.then = append(l.then, path)
		}
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

func (l *look) tell(path string) {
	if path == "" {
		path = "."
	}
	if len(l.found) >= l.Most {
		l.more++
		return
	}
	l.found = append(l.found, path)
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
