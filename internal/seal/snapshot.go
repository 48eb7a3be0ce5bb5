package seal

import (
	"os"
	"slices"
	"strings"
	"time"

	"palyra/internal/cell"
)

// Snapshot is what a workspace had at one moment, as far as sealing goes. It is
// for one goroutine at a time.
type Snapshot struct {
	workspace   string
	root        ident
	limits      Limits
	match       *Matcher
	start       []place                // how far names have come on the way to the workspace; sorted
	above       []string               // the repositories on that way
	began       time.Time              // when it was looked for
	odd         map[string]watchedPath // what is known instead of an entry; of the kind none: nothing. Never changed, only replaced
	hold        *os.File               // the workspace, wherever it is moved to; nil: it is opened by its path
	quarantines map[string]bool        // calls whose quarantine is in the workspace and not held from runs under way; never changed
	moved       []string               // what the last sweep took away for good
	shared      string                 // a file that has a second name, of those looked at
	sharing     int                    // directories that have such files
	bare        map[string]bool        // directories below node_modules into which a link leads from outside; never changed
	old         bool                   // loaded from a record of version 1: links, rebases and heeded files were not looked at
	dirs        []node                 // parents first, the children of one together; empty after Load
	entries     []watchedPath          // what is sealed, kept or watched; those of one directory together
}

// ident is a file's identity as long as it exists.
type ident struct{ dev, ino uint64 }

// stamp is a time of the file system.
type stamp struct {
	sec  int64
	nsec uint32
}

// node is a directory.
type node struct {
	parent     int32
	name       string
	id         ident
	ctime      stamp
	state      int32 // which names have begun on the way here
	flags      flags
	child, kid int32 // index of the first directory in it, and how many
	entry, n   int32 // the same of entries
	base       int32 // the same directory in the snapshot before, or -1
	many       int32 // entries that count for the limit
	linked     bool  // a file in it has a second name
}

type flags uint8

const (
	racy    flags = 1 << iota // its ctime does not tell whether it changed
	inside                    // below a sealed path
	modules                   // below node_modules
	repo                      // git takes it for a repository
	same                      // nothing was added or removed since the snapshot before
	gone                      // it was not there any more when its turn came
	held                      // it is an entry of its own
)

// kind is why an entry is one.
type kind uint8

const (
	sealed kind = iota + 1 // nothing may change
	kept                   // a directory that stays and may be written in
	inner                  // a file below a sealed directory
	mount                  // another file system
	shut                   // a directory of somebody else's into which neither we nor the run can look
	deep                   // a directory too far down to be named
	link                   // a symbolic link that no name is about
	noted                  // a file that others heed and runs may write
	midway                 // a directory in which git keeps what it is in the middle of
)

// watchedPath is a path that is watched.
type watchedPath struct {
	path  string
	dir   int32 // the directory it is in; a repository is in itself
	kind  kind
	id    ident
	mode  uint32 // with the type
	links uint32
	size  uint64
	mtime stamp
	ctime stamp
	born  stamp  // a number is given to another file when the first is gone
	text  []byte // of a small sealed file, or where a link leads; nil when it is not known
}

// path returns the path of a directory below the workspace, "" for that itself.
func (s *Snapshot) path(i int32) string {
	n := 0
	for d := i; d != 0; d = s.dirs[d].parent {
		n += len(s.dirs[d].name) + 1
	}
	if n == 0 {
		return ""
	}
	b := make([]byte, n)
	for d := i; d != 0; d = s.dirs[d].parent {
		name := s.dirs[d].name
		n -= len(name) + 1
		copy(b[n:], name)
		b[n+len(name)] = '/'
	}
	return string(b[:len(b)-1])
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// Sealed lists the sealed and kept paths.
func (s *Snapshot) Sealed() []string {
	var out []string
	for _, e := range s.entries {
		if e.counts() && e.path != "." {
			out = append(out, e.path)
		}
	}
	slices.Sort(out)
	return out
}

func (s *Snapshot) mounts() []cell.Seal {
	var out []cell.Seal
	seen := make(map[string]bool, len(s.entries))
	add := func(path string, readOnly bool, id ident) {
		if !seen[path] {
			seen[path] = true
			out = append(out, cell.Seal{Path: path, ReadOnly: readOnly, Dev: id.dev, Ino: id.ino})
		}
	}
	for _, e := range s.entries {
		if e.counts() && e.path != "." && !e.isLink() { // a link is looked at after the run
			add(e.path, e.kind != kept, e.id)
		}
	}
	for _, e := range s.entries {
		if !e.counts() || len(s.dirs) == 0 {
			continue
		}
		for d := e.dir; d != 0; d = s.dirs[d].parent {
			p := s.path(d)
			if seen[p] {
				continue
			}
			add(p, false, s.dirs[d].id)
		}
	}
	slices.SortFunc(out, func(a, b cell.Seal) int { return comparePaths(a.Path, b.Path) })
	return out
}

// comparePaths sorts what is in a directory behind it, whatever its name is.
func comparePaths(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// byPath finds entries.
func (s *Snapshot) byPath() map[string]watchedPath {
	m := make(map[string]watchedPath, len(s.entries))
	for _, e := range s.entries {
		m[e.path] = e
	}
	return m
}

// counts reports whether an entry is held in its place.
func (e watchedPath) counts() bool {
	return e.kind != inner && e.kind != link && e.kind != midway && e.kind != noted
}

// isLink reports whether an entry is a symbolic link.
func (e watchedPath) isLink() bool { return e.mode&typeBits == linkBits }

// The bits of a mode that say what a file is, the same on every system that has links.
const (
	typeBits = 0o170000
	linkBits = 0o120000
)
