package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"palyra/internal/quarantine"
)

// shelf is a directory whose entries grow old: what was taken out of workspaces,
// by call, or the caches of workspaces.
type shelf struct {
	dir  string
	name func(string) bool // whether an entry is one of ours; others are left alone
	keep time.Duration
	most int64                         // bytes that all may take; 0: there is no limit
	used func(dir string) (int, int64) // how many entries there are and what they take, where that is written down; nil: it is looked for
}

// shelves are those of this daemon. An entry's time is that of its last use: the
// call that filled it, or the last run that was given the cache.
func (d *Daemon) shelves() map[string]shelf {
	p := d.Config.Config.Process
	return map[string]shelf{
		"quarantine": {d.Config.Config.Paths.Quarantine, isCall, days(p.QuarantineDays), p.QuarantineBytes, quarantine.Usage},
		"caches":     {dir: d.caches(), name: isCache, keep: days(p.CacheDays)},
	}
}

func days(n int64) time.Duration { return time.Duration(n) * 24 * time.Hour }

// isCall tells the directory of a call.
func isCall(name string) bool {
	return len(name) == 26 && strings.Trim(name, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// isCache tells the directory of a workspace's caches.
func isCache(name string) bool {
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

// leaving marks what is being removed, so that nothing finds it half there.
const leaving = ".leaving-"

// kept is what lies on the shelves, as of the last look.
type kept struct {
	mu    sync.Mutex
	text  map[string]string
	until time.Time // it is good
}

// A look is over after maxLook, and what it saw is good for looksApart times as long
// as it took, at most maxAge: who asks often does not keep the disks busy, and a
// look that costs nothing is never old.
const (
	maxLook    = 500 * time.Millisecond
	looksApart = 20
	maxAge     = 30 * time.Second
)

// features says for the status what lies on the shelves now.
func (k *kept) features(ctx context.Context, shelves map[string]shelf) map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	began := now()
	if k.text != nil && began.Before(k.until) {
		return k.text
	}
	ctx, done := context.WithTimeout(ctx, maxLook)
	defer done()
	k.text = map[string]string{}
	for name, s := range shelves {
		k.text[name] = s.words(ctx)
	}
	k.until = now().Add(min(looksApart*now().Sub(began), maxAge))
	return k.text
}

// words says what lies on a shelf, as far as could be seen before ctx ends.
func (s shelf) words(ctx context.Context) string {
	n, bytes := s.measure(ctx)
	if s.used != nil {
		n, bytes = s.used(s.dir)
	}
	least, most := "", ""
	if s.most > 0 {
		most = fmt.Sprintf(" of %d", s.most)
	}
	if ctx.Err() != nil {
		least = "at least "
	}
	return fmt.Sprintf("%s%d kept, %d bytes%s; each for %d days", least, n, bytes, most, int(s.keep.Hours()/24))
}

// pruneShelves removes what has lain unused for too long. A failure is logged and
// tried again.
func (d *Daemon) pruneShelves(ctx context.Context) {
	for _, s := range d.shelves() {
		gone, err := s.prune(ctx, now())
		if err != nil && ctx.Err() == nil {
			d.Log.Warn("not all that is old could be removed", "from", s.dir, "error", err)
		}
		if gone > 0 {
			d.Log.Info("removed what was not used for long", "from", s.dir, "entries", gone, "days", int(s.keep.Hours()/24))
		}
	}
}

// prune removes the entries that were not used for as long as they are kept.
func (s shelf) prune(ctx context.Context, now time.Time) (gone int, err error) {
	root, err := os.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		if !e.IsDir() || !s.name(strings.TrimPrefix(e.Name(), leaving)) {
			continue
		}
		removed, err := s.take(ctx, root, e.Name(), now)
		errs = append(errs, err)
		if removed {
			gone++
		}
	}
	return gone, errors.Join(errs...)
}

// take removes an entry that is old. It is renamed first and looked at again: a run
// that was given it meanwhile keeps it.
func (s shelf) take(ctx context.Context, root *os.Root, name string, now time.Time) (bool, error) {
	old := func(at string) bool {
		fi, err := root.Lstat(at)
		return err == nil && fi.IsDir() && now.Sub(fi.ModTime()) > s.keep
	}
	if !strings.HasPrefix(name, leaving) {
		if !old(name) {
			return false, nil
		}
		if err := root.Rename(name, leaving+name); err != nil {
			return false, err
		}
		if !old(leaving + name) {
			return false, root.Rename(leaving+name, name)
		}
		name = leaving + name
	}
	return true, removeTree(ctx, root, name)
}

// removeTree removes a directory in which programs did as they liked: some make
// theirs read-only. Nothing outside of root is reached, whatever links there are.
func removeTree(ctx context.Context, root *os.Root, name string) error {
	open := func(path string, e fs.DirEntry) {
		if e.IsDir() {
			_ = root.Chmod(path, 0o700) // what cannot be opened cannot be removed either, and that is told
		}
	}
	_ = root.Chmod(name, 0o700) // the same
	(&survey{ctx: ctx, root: root, left: mostSurveyed, visit: open}).directory(name, 1)
	return root.RemoveAll(name)
}

// measure counts the entries and the bytes of their files, as far as is looked.
func (s shelf) measure(ctx context.Context) (n int, bytes int64) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return 0, 0
	}
	defer func() { _ = root.Close() }()
	v := &survey{ctx: ctx, root: root, left: mostSurveyed, visit: func(_ string, e fs.DirEntry) {
		if !e.Type().IsRegular() {
			return
		}
		if fi, err := e.Info(); err == nil {
			bytes += fi.Size()
		}
	}}
	v.directory(".", 0)
	return v.top, bytes
}
