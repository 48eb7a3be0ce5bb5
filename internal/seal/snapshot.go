package seal

import (
	"os"
	"slices"
	"strings"
	"time"

	"palyra/internal/cell"
	"palyra/internal/seal/sealname"
)

// Snapshot is the state of a workspace at one moment, as far as sealing goes. It is for one goroutine at a time.
type Snapshot struct {
	workspace   string
	root        ident
	limits      Limits
	match       *Matcher
	start       []sealname.Place       // state of the names at the workspace; sorted
	above       []string               // repositories above the workspace
	began       time.Time              // when the look began
	odd         map[string]watchedPath // replaces entries; of kind none: forgotten. Never changed, only replaced
	hold        *os.File               // the workspace, even after it is moved; nil: it is opened by its path
	quarantines map[string]bool        // calls whose quarantine is in the workspace, unprotected from runs under way; never changed
	moved       []string               // paths that the last sweep moved away for good
	shared      string                 // a checked file with a second name
	sharing     int                    // number of directories with such files
	bare        map[string]bool        // directories below node_modules into which a link leads from outside; never changed
	old         bool                   // loaded from a record of version 1, without links, rebases and heeded files
	dirs        []node                 // parents first, the children of one together; empty after Load
	entries     []watchedPath          // sealed, kept and watched paths; those of one directory together
}

// ident identifies a file as long as it exists.
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
	state      int32 // the names that have begun on the way here
	flags      flags
	child, kid int32 // index of its first directory, and their number
	entry, n   int32 // the same for entries
	base       int32 // the same directory in the snapshot before, or -1
	many       int32 // number of entries, for the limit
	linked     bool  // a file in it has a second name
}

type flags uint8

const (
	racy    flags = 1 << iota // its ctime does not show whether it changed
	inside                    // below a sealed path
	modules                   // below node_modules
	repo                      // git takes it for a repository
	same                      // no entry was added or removed since the snapshot before
	gone                      // it was gone when its turn came
	held                      // it is an entry itself
)

// kind is why a path is watched.
type kind uint8

const (
	sealed kind = iota + 1 // nothing may change
	kept                   // a directory that stays and may be written in
	inner                  // a file below a sealed directory
	mount                  // another file system
	shut                   // a directory of another user into which neither we nor the run can look
	deep                   // a directory too deep to have a path
	link                   // a symbolic link that no name matches
	noted                  // a file that others heed and runs may write
	midway                 // a directory in which git keeps an unfinished operation
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
	born  stamp  // tells apart two files that had the inode number one after the other
	text  []byte // of a small sealed file, or where a link leads; nil when unknown
	loose bool   // took the place of a sealed file, whose mount went with that: runs may write to it
}

// path returns the path of a directory below the workspace, "" for the workspace itself.
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
		if e.counts() && e.path != "." && !e.isLink() { // a link is checked after the run
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

// comparePaths sorts the content of a directory directly after the directory.
func comparePaths(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// byPath returns the entries by path.
func (s *Snapshot) byPath() map[string]watchedPath {
	m := make(map[string]watchedPath, len(s.entries))
	for _, e := range s.entries {
		m[e.path] = e
	}
	return m
}

// counts reports whether an entry is held by a mount.
func (e watchedPath) counts() bool {
	return e.kind != inner && e.kind != link && e.kind != midway && e.kind != noted
}

// isLink reports whether an entry is a symbolic link.
func (e watchedPath) isLink() bool { return e.mode&typeBits == linkBits }

// The bits of a mode that tell the type of a file, the same on every system with links.
const (
	typeBits = 0o170000
	linkBits = 0o120000
)
