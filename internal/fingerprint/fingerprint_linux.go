package fingerprint

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// question is what was asked about a path.
type question uint8

const (
	what   question = iota // what lies there itself
	listed                 // what it leads to, a directory whose names were read
	target                 // which file it leads to
	mount                  // how the file system is mounted
)

// answer is what the kernel said. Of what does not count for a question nothing is in it.
type answer struct {
	dev, ino       uint64
	size           int64
	mtime, ctime   int64 // nanoseconds
	flags          int64 // of the mount
	mode, uid, gid uint32
	errno          unix.Errno
}

type look struct {
	path string
	of   question
}

// Print is what one look saw. The zero value is of a look that saw nothing yet; a nil one remembers nothing.
// It is safe for concurrent use once it is filled.
type Print struct {
	seen   map[look]answer
	unsure bool
}

// Unsure notes that something counted that no path answers for.
func (p *Print) Unsure() {
	if p != nil {
		p.unsure = true
	}
}

// At notes what lies at a path itself, or the error of looking there.
func (p *Print) At(path string, st *unix.Stat_t, err error) { p.note(what, path, st, err) }

// Listed notes a directory that a path leads to and whose names were read, or the error of looking there.
func (p *Print) Listed(path string, st *unix.Stat_t, err error) { p.note(listed, path, st, err) }

// Target notes which file a path leads to, or the error of looking there.
func (p *Print) Target(path string, st *unix.Stat_t, err error) { p.note(target, path, st, err) }

// Mount notes how the file system of a path is mounted.
func (p *Print) Mount(path string, fs *unix.Statfs_t, err error) {
	if p != nil {
		p.add(look{path, mount}, mounted(fs, err))
	}
}

func (p *Print) note(q question, path string, st *unix.Stat_t, err error) {
	if p != nil {
		p.add(look{path, q}, answerOf(q, st, err))
	}
}

func (p *Print) add(l look, is answer) {
	if was, known := p.seen[l]; known && was != is {
		p.unsure = true
		return
	}
	if p.seen == nil {
		p.seen = map[look]answer{}
	}
	p.seen[l] = is
}

// Settled reports whether the Print can hold, and nothing that answers with its times changed shortly before the look
// began.
func (p *Print) Settled(began time.Time) bool {
	if p == nil || p.unsure {
		return false
	}
	before := began.Add(-settled).UnixNano()
	for _, a := range p.seen {
		if a.ctime > before {
			return false
		}
	}
	return true
}

// Holds reports whether every path still gives its answer.
func (p *Print) Holds() bool {
	if p == nil || p.unsure {
		return false
	}
	for l, was := range p.seen {
		if ask(l) != was {
			return false
		}
	}
	return true
}

// ask looks at a path again.
func ask(l look) answer {
	if l.of == mount {
		var fs unix.Statfs_t
		err := unix.Statfs(l.path, &fs)
		return mounted(&fs, err)
	}
	var st unix.Stat_t
	stat := unix.Stat
	if l.of == what {
		stat = unix.Lstat
	}
	err := stat(l.path, &st)
	return answerOf(l.of, &st, err)
}

func mounted(fs *unix.Statfs_t, err error) answer {
	if err != nil {
		return answer{errno: errnoOf(err)}
	}
	return answer{flags: fs.Flags}
}

func answerOf(q question, st *unix.Stat_t, err error) answer {
	if err != nil {
		return answer{errno: errnoOf(err)}
	}
	a := answer{dev: uint64(st.Dev), ino: st.Ino}
	if q == target {
		return a
	}
	a.mode, a.uid, a.gid = st.Mode, st.Uid, st.Gid
	if q == listed || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		a.size, a.mtime, a.ctime = st.Size, st.Mtim.Nano(), st.Ctim.Nano()
	}
	return a
}

// errnoOf is the kernel's number of an error. Anything else is none that a look gives, and so never the same.
func errnoOf(err error) unix.Errno {
	if e := unix.Errno(0); errors.As(err, &e) && e != 0 {
		return e
	}
	return ^unix.Errno(0)
}
