package dotenv

import (
	"fmt"
	"sync"
)

// Bounds of a look through a workspace. Over one of them nothing is found: what is not looked through is not masked.
const (
	MaxFiles   = 256       // that are masked in one workspace
	maxDirs    = 200_000   // that are looked through
	maxEntries = 5_000_000 // that are listed
	maxPath    = 4_000     // bytes of a path
	mostLooks  = 16        // workspaces that are remembered
	mostSeen   = 400_000   // directories that are remembered in all
)

// passed are directories that are not looked through: others put there what they publish, in plenty.
var passed = map[string]bool{"node_modules": true, ".git": true, ".hg": true, ".svn": true, "__pycache__": true}

// BoundError means that a workspace is too large to be looked through, or cannot be.
type BoundError struct {
	Path string // as bytes; empty: the workspace as a whole
	Why  string
}

// Error implements error.
func (e *BoundError) Error() string { return fmt.Sprintf("dotenv: %q: %s", e.Path, e.Why) }

// Finder finds the files that are masked. It remembers directories, and reads those again that have changed.
type Finder struct {
	mu    sync.Mutex
	looks []*glance // used last first
}

// glance is what is known of a place.
type glance struct {
	place string
	dirs  map[string]node
}

// stamp is a directory as it was when it was read.
type stamp struct {
	dev, ino                           uint64
	mtime, mtimeNsec, ctime, ctimeNsec int64
}

// node is a directory: the directories in it, and the names that count.
type node struct {
	stamp   stamp
	dirs    []string
	counted []string
}

// get is what is known of a place, which nobody changes.
func (f *Finder) get(place string) map[string]node {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.looks {
		if g.place == place && place != "" {
			return g.dirs
		}
	}
	return nil
}

// put remembers a place.
func (f *Finder) put(place string, dirs map[string]node) {
	if place == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []*glance{{place, dirs}}
	seen := len(dirs)
	for _, g := range f.looks {
		if seen += len(g.dirs); g.place != place && len(all) < mostLooks && seen <= mostSeen {
			all = append(all, g)
		}
	}
	f.looks = all
}
