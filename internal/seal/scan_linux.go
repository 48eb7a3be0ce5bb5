package seal

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// maxPasses is how often a walk is repeated because directories were not where they had been seen a
// moment before. Somebody who works in the workspace all the time must not stop every run: after
// the last pass the walk counts as it is. The run itself is dead when it is swept; of other runs,
// each is swept for everything that appeared since it began.
const maxPasses = 6

func scan(ctx context.Context, workspace string, m *Matcher, l Limits) (*Snapshot, error) {
	return look(ctx, workspace, m, l, nil)
}

// scanAgain is scan, starting from an earlier snapshot.
func scanAgain(ctx context.Context, was *Snapshot) (*Snapshot, error) {
	return look(ctx, was.workspace, was.match.Clone(), was.limits, was)
}

// look walks the workspace. was is an earlier look at it, or nil; its state numbers are those of m.
func look(ctx context.Context, workspace string, m *Matcher, l Limits, was *Snapshot) (*Snapshot, error) {
	t, err := openTree(workspace)
	if err != nil {
		return nil, err
	}
	defer t.close()
	way, err := wayOf(m, workspace)
	if err != nil {
		return nil, err
	}
	s, err := passes(ctx, t, m, l, way, was, workspace)
	if err != nil {
		return nil, err
	}
	return s.done(t, was)
}

// passes walks until nothing moves and the anchors stay the same.
func passes(ctx context.Context, t *tree, m *Matcher, l Limits, way way, was *Snapshot, workspace string) (*Snapshot, error) {
	began := time.Now()
	s := was
	for pass := range 3 * maxPasses {
		w := newWalker(ctx, t, m, s, workspace, l)
		w.out.start, w.out.above, w.out.began = way.start, way.repos, began
		if s != nil {
			w.out.bare = s.bare
		}
		err := w.walk()
		w.shut()
		if err != nil {
			return nil, err
		}
		s = w.out
		if w.moved > 0 && pass < maxPasses {
			continue
		}
		again, err := s.anchored(t)
		switch {
		case errors.Is(err, errOther):
			if m, err = Compile(m.Names()); err != nil {
				return nil, err
			}
			s = nil
		case err != nil:
			return nil, err
		case !again:
			return s, nil
		}
	}
	return nil, denied("links and git's configuration lead from one sealed path to the next without an end").
		WithRemedy("remove links, or unseal names in a profile")
}

// done completes the snapshot of a look.
func (s *Snapshot) done(t *tree, was *Snapshot) (*Snapshot, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var known map[string]watchedPath
	if was != nil {
		known = was.byPath()
	}
	t.remember(s, known, nil)
	return s, nil
}

// check refuses a workspace that cannot be sealed.
func (s *Snapshot) check() error {
	count := 0
	for _, e := range s.entries {
		if e.counts() {
			count++
		}
		switch typ := e.mode & unix.S_IFMT; {
		case typ == unix.S_IFREG && e.links > 1 && e.kind != mount:
			return denied("the sealed file %q has %d names: what is written under another one changes it", e.path, e.links).
				WithRemedy("make it a file of its own: cp -p FILE FILE.new && mv FILE.new FILE")
		}
	}
	if count > s.limits.Sealed {
		return denied("the workspace has %d sealed paths, more than %d", count, s.limits.Sealed).
			WithRemedy("use a workspace further down, or unseal names in a profile")
	}
	if n := len(s.mounts()); n > maxMounts {
		return denied("the sealed paths of the workspace need %d mounts, more than %d", n, maxMounts).
			WithRemedy("use a workspace further down, or unseal names in a profile")
	}
	return nil
}

// walker returns a walker that looks at the workspace of s again.
func (s *Snapshot) walker(ctx context.Context, t *tree, base *Snapshot) *walker {
	w := newWalker(ctx, t, s.match, base, s.workspace, s.limits)
	w.out.start, w.out.above, w.out.hold, w.out.quarantines, w.out.bare, w.out.old = s.start, s.above, s.hold, s.quarantines, s.bare, s.old
	return w
}

func (s *Snapshot) stale(ctx context.Context) (bool, error) {
	t, err := openTree(s.workspace)
	if err != nil {
		return false, err
	}
	defer t.close()
	way, err := wayOf(s.match, s.workspace)
	if err != nil || t.id != s.root || !slices.Equal(way.start, s.start) {
		return true, nil // a scan reports the fault
	}
	w := s.walker(ctx, t, s)
	w.out.odd, w.known = s.odd, s.byPath()
	err = w.walk()
	w.shut()
	if err != nil {
		return false, err
	}
	if w.moved > 0 || len(s.dirs) == 0 || w.out.check() != nil || !slices.Equal(s.mounts(), w.out.mounts()) {
		return true, nil
	}
	if !w.out.leadsAsKnown(t) {
		return true, nil
	}
	t.remember(w.out, w.known, nil)
	*s = *w.out
	return false, nil
}

// differs reports whether a sealed path has changed.
func differs(was, is watchedPath) bool {
	if was.id != is.id || was.mode&unix.S_IFMT != is.mode&unix.S_IFMT {
		return true
	}
	if was.kind != sealed && was.kind != inner {
		return false
	}
	return was.mode != is.mode || was.size != is.size || was.mtime != is.mtime || was.ctime != is.ctime || was.links != is.links
}
