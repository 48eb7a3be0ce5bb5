// Package prune removes what was not used for long from directories whose entries grow old: what was taken out of
// workspaces, by call, and the caches of workspaces. Programs did as they liked in these entries, so nothing in them is
// believed: not their modes, not their links, not their number and not how deep they are.
package prune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Shelf is a directory whose entries grow old. An entry's time is that of its last use.
type Shelf struct {
	Dir  string
	Name func(string) bool // whether an entry is one of ours; others are left alone
	Keep time.Duration
	Most int64                         // bytes that all may take; 0: there is no limit
	Used func(dir string) (int, int64) // how many entries there are and what they take, where that is written down; nil: it is looked for
}

// Days is a setting as the time that entries are kept.
func Days(n int64) time.Duration { return time.Duration(n) * 24 * time.Hour }

// IsCall tells the directory of a call.
func IsCall(name string) bool {
	return len(name) == 26 && strings.Trim(name, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == ""
}

// What ends the name of the directory of those caches of a workspace that runs write which nobody is asked about, and
// which one answer for a group of hosts covers.
const (
	unasked = "-unasked"
	grouped = "-group"
)

// IsCache tells the directory of a workspace's caches.
func IsCache(name string) bool {
	key, ok := strings.CutSuffix(name, unasked)
	if !ok {
		key = strings.TrimSuffix(name, grouped)
	}
	return len(key) == 32 && strings.Trim(key, "0123456789abcdef") == ""
}

// UnaskedCache returns the cache that runs have in the place of another one when nobody is asked about them: what they
// write is used by no other run. It reports false for one that is such a cache already.
func UnaskedCache(dir string) (to string, ok bool) {
	of := filepath.Dir(dir)
	return filepath.Join(strings.TrimSuffix(of, grouped)+unasked, filepath.Base(dir)), !strings.HasSuffix(of, unasked)
}

// GroupCache returns the cache that runs have in the place of another one when they reach hosts of one group and
// nothing else: an answer for the group covers any of them. What they write is used by their like, and by runs that
// nobody is asked about. It reports false for one that is apart already.
func GroupCache(dir string) (to string, ok bool) {
	of := filepath.Dir(dir)
	return filepath.Join(of+grouped, filepath.Base(dir)), !strings.HasSuffix(of, unasked) && !strings.HasSuffix(of, grouped)
}

// leaving marks what is being removed, so that nothing finds it half there.
const leaving = ".leaving-"

// Usage is what lies on shelves, as of the last look. The zero value has not looked.
type Usage struct {
	mu    sync.Mutex
	text  map[string]string
	until time.Time // it is good
}

// A look is over after maxLook, and what it saw is good for looksApart times as long as it took, at most maxAge:
// who asks often does not keep the disks busy, and a look that costs nothing is never old.
const (
	maxLook    = 500 * time.Millisecond
	looksApart = 20
	maxAge     = 30 * time.Second
)

// Texts says for the status what lies on the shelves now, by their names.
func (k *Usage) Texts(ctx context.Context, shelves map[string]Shelf) map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	began := time.Now()
	if k.text != nil && began.Before(k.until) {
		return k.text
	}
	ctx, done := context.WithTimeout(ctx, maxLook)
	defer done()
	k.text = map[string]string{}
	for name, s := range shelves {
		k.text[name] = s.words(ctx)
	}
	k.until = time.Now().Add(min(looksApart*time.Since(began), maxAge))
	return k.text
}

// words says what lies on a shelf, as far as could be seen before ctx ends.
func (s Shelf) words(ctx context.Context) string {
	n, bytes := s.measure(ctx)
	if s.Used != nil {
		n, bytes = s.Used(s.Dir)
	}
	least, most := "", ""
	if s.Most > 0 {
		most = fmt.Sprintf(" of %d", s.Most)
	}
	if ctx.Err() != nil {
		least = "at least "
	}
	return fmt.Sprintf("%s%d kept, %d bytes%s; each for %d days", least, n, bytes, most, int(s.Keep.Hours()/24))
}

// Prune removes the entries that were not used for as long as they are kept.
func (s Shelf) Prune(ctx context.Context, now time.Time) (gone int, err error) {
	root, err := os.OpenRoot(s.Dir)
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
		if !e.IsDir() || !s.Name(strings.TrimPrefix(e.Name(), leaving)) {
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
func (s Shelf) take(ctx context.Context, root *os.Root, name string, now time.Time) (bool, error) {
	old := func(at string) bool {
		fi, err := root.Lstat(at)
		return err == nil && fi.IsDir() && now.Sub(fi.ModTime()) > s.Keep
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
func (s Shelf) measure(ctx context.Context) (n int, bytes int64) {
	root, err := os.OpenRoot(s.Dir)
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
