package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"palyra"
	"palyra/internal/repofind"
	"palyra/internal/sandbox/cachedir"
)

// makeCaches makes directories that a run may write.
func makeCaches(root string, paths []string, who identity) error {
	if len(paths) == 0 {
		return nil
	}
	m, err := cachedir.Open(root)
	if unsafe := (*cachedir.UnsafeError)(nil); errors.As(err, &unsafe) {
		return unsafeDir(unsafe.Path, "it is not the daemon's own, or others may write to it").WithCause(err)
	}
	if err != nil {
		return fmt.Errorf("sandbox: caches: %w", err)
	}
	defer func() { _ = m.Close() }()
	for _, path := range paths {
		if err := m.Make(path, who.uid, who.gid); err != nil {
			return fmt.Errorf("sandbox: cache %s: %w", path, err)
		}
	}
	return nil
}

// caches are the directories that a run may write beside its workspace.
type caches struct {
	since time.Time // when the first one was added
	dirs  []string
}

func (c *caches) add(dir string) {
	if c.dirs = append(c.dirs, dir); len(c.dirs) == 1 {
		c.since = repofind.Clock()
	}
}

// The limits of a look through a run's caches: a few milliseconds, whatever is there.
const (
	cacheEntries = 4_000 // in all caches together
	mostPlanted  = 16    // named of one cache
)

// planted returns the repositories that were made or changed in the run's caches since it began.
// They stay: package managers keep repositories there, and nothing tells these apart. Links from
// workspaces to them are removed instead.
func (l *runStart) planted() (out []palyra.Remnant) {
	if len(l.caches.dirs) == 0 {
		return nil
	}
	s := repofind.Search{Since: l.caches.since, Entries: cacheEntries, Most: mostPlanted}
	var all []repofind.Found
	err := runAs(l.who, func() error { all = s.In(l.caches.dirs...); return nil })
	for i, dir := range l.caches.dirs {
		name, found := filepath.Base(dir), repofind.Found{Err: err}
		if err == nil {
			found = all[i]
		}
		for _, path := range found.Paths {
			out = append(out, palyra.Remnant{Kind: palyra.RemnantCache, Path: filepath.Join(name, path)})
		}
		switch {
		case found.Err != nil: // a run may close its own cache; the others are looked at all the same
			l.Log.Warn("a cache of a run could not be looked through", "call", string(l.call), "cache", name, "err", found.Err)
			fallthrough
		case found.Partly:
			out = append(out, palyra.Remnant{Kind: palyra.RemnantUnsearched, Path: name})
		case found.More > 0:
			out[len(out)-1].More = int64(found.More)
		}
	}
	return out
}
