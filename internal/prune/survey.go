package prune

import (
	"context"
	"io/fs"
	"os"
	slash "path"
	"syscall"
)

// survey looks at what lies below a directory in which programs did as they liked, and may do still: they nest as
// deep and make as many names as they want. So it holds one batch of names of each level, waits for no pipe that
// took a directory's place, is led out of its root by no link, and stops at a bound of both.
type survey struct {
	ctx   context.Context
	root  *os.Root
	visit func(path string, e fs.DirEntry) // of each entry, before it is gone into
	left  int                              // entries that it may yet look at
	top   int                              // directories of the first level that were seen
}

const (
	mostSurveyed = 1 << 20
	deepest      = 64  // levels; people and their tools need fewer
	surveyBatch  = 256 // names
)

// directory looks at what is in one, and reports whether it saw everything there
// was to be seen. What cannot be read is passed over.
func (s *survey) directory(name string, depth int) (whole bool) {
	if depth > deepest {
		return false
	}
	dir, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return true
	}
	defer func() { _ = dir.Close() }()
	whole = true
	for {
		entries, err := dir.ReadDir(surveyBatch)
		for _, e := range entries {
			if s.left--; s.left < 0 || s.ctx.Err() != nil {
				return false
			}
			at := slash.Join(name, e.Name())
			if depth == 0 && e.IsDir() {
				s.top++
			}
			s.visit(at, e)
			if e.IsDir() {
				whole = s.directory(at, depth+1) && whole
			}
		}
		if err != nil || len(entries) == 0 { // the end, most likely
			return whole
		}
	}
}
