// Package symlink finds out where a path outside a workspace leads, and whether that is a place to which no link
// may lead. A link is a stranger's bytes: it goes through other links, names what is not there yet, or leads
// through /proc, where the same words are another place to every process that reads them.
//
// Nothing is opened, and nothing is waited for beyond what the kernel knows. What is found holds for the moment:
// who can change a directory on the way can change the end.
package symlink

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/subpath"
)

// maxHops bounds the links on one way, as the kernel does.
const maxHops = 40

// End is where a path leads.
type End struct {
	Path    string // without links; what is not there is added as it is written
	Missing bool   // something on the way is not there, cannot be looked at, or goes round
	Proc    bool   // it leads through /proc, or what shows processes elsewhere
	Closed  bool   // it is, or is in, a directory of the set
}

// Set is the directories to which no link may lead.
type Set struct {
	tops []string // as they are given, and without links
	ids  []ident  // of those that are there
}

// ident is a directory, by whatever path it is reached.
type ident struct{ dev, ino uint64 }

// NewSet makes a set of absolute paths. Those that are not there yet count as well. One that is
// empty or relative is an error: it would close nothing, and nobody would notice.
func NewSet(dirs []string) (*Set, error) {
	s := &Set{}
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("symlink: %q is not an absolute path", dir)
		}
		s.tops = append(s.tops, filepath.Clean(dir))
		end, id, there := walk(dir, nil)
		if s.tops = append(s.tops, end.Path); there {
			s.ids = append(s.ids, id)
		}
	}
	return s, nil
}

// Resolve follows an absolute path. A part of it that is "..", leads up from where the links before it ended.
func (s *Set) Resolve(path string) End {
	end, _, _ := walk(path, s.ids)
	end.Closed = end.Closed || s.has(filepath.Clean(path)) || s.has(end.Path)
	return end
}

// has reports whether a clean path is, or is in, a directory of the set.
func (s *Set) has(path string) bool {
	return slices.ContainsFunc(s.tops, func(top string) bool { return subpath.Within(top, path) })
}

// Strays reports whether the text of a link can lead out of a tree without another
// link that does. depth is how many directories of the tree the link is in.
func Strays(text string, depth int) bool {
	if strings.HasPrefix(text, "/") {
		return true
	}
	down := false
	for part := range strings.SplitSeq(text, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 || down { // what was gone down to may be a link
				return true
			}
		default:
			down = true
			depth++
		}
	}
	return false
}
