package seal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"palyra"
	"palyra/internal/subpath"
)

// errDeleted means that the workspace itself was deleted, which only an empty one can be.
var errDeleted = errors.New("seal: the workspace was deleted")

// maxMade is the longest result of a sweep. The index has everything.
const maxMade = 1_000

func (s *Snapshot) sweep(ctx context.Context, quarantine string, call palyra.CallID) ([]string, error) {
	s.moved = nil
	t, err := s.open()
	if err != nil {
		return nil, err
	}
	defer t.close()
	if t.id != s.root {
		return nil, denied("the workspace %q is another directory than before the run", s.workspace).WithCause(ErrGone)
	}
	p, err := newQuarantiner(t, quarantine, call)
	if err != nil {
		return nil, err
	}
	defer p.bounded(s).close()
	known := s.known()
	base := s
	for pass := 1; ; pass++ {
		w := s.walker(ctx, t, base)
		w.limits.Entries *= sweepFactor
		w.known, w.sweeps, w.quarantine, w.states, w.full = known, true, p, map[string][]byte{}, base == s && len(s.odd)+len(s.quarantines) > 0
		n, err := w.clear(p)
		s.moved = p.gone()
		switch {
		case errors.Is(err, errDeleted):
			return p.result(nil), nil
		case err != nil:
			return p.result(nil), fmt.Errorf("seal: sweep: %w", err)
		case w.over && n > 0 && pass < 2*maxPasses:
			continue
		case w.over:
			return p.result(nil), denied("the run made more in the workspace than can be looked through for sealed paths").
				WithRemedy("remove what it made in %q", s.workspace)
		case n == 0 && (w.moved == 0 || pass >= maxPasses):
			w.out.quarantines = p.loose(s.quarantines, s.Knows(ownDir))
			if p.inside != nil { // we changed it ourselves
				delete(known, ownDir)
			}
			if s.crowded(w.out) {
				p.stay(palyra.RemnantMany, ".")
			}
			changes := changes(known, w.out.byPath(), p.restored)
			t.remember(w.out, known, w.states)
			w.out.moved = s.moved
			*s = *w.out
			return p.result(changes), nil
		case pass >= 2*maxPasses:
			return p.result(nil), denied("new sealed paths keep appearing in the workspace after the run").
				WithRemedy("end what makes them in %q, and try again", s.workspace)
		}
		base = w.out
	}
}

// crowded reports whether a run filled the workspace with more files than a look before a run
// takes, so that the next run would be refused.
func (s *Snapshot) crowded(is *Snapshot) bool {
	return s.names() <= s.limits.Entries && is.names() > s.limits.Entries
}

// names counts the files and directories.
func (s *Snapshot) names() (n int) {
	for _, d := range s.dirs {
		n += int(d.many)
	}
	return n
}

// clear walks once and moves away what must not be there. It returns the number of finds. Whatever
// fails, everything that can be moved is.
func (w *walker) clear(p *quarantiner) (int, error) {
	defer w.shut()
	failed := w.walk()
	n := w.early
	for _, e := range w.out.entries {
		found, err := w.settle(p, e)
		if found {
			n++
		}
		if err != nil && !w.later(err) {
			return n, err
		}
	}
	if w.over {
		more, err := w.reduce(p)
		n += more
		failed = errors.Join(failed, err)
	}
	return n, errors.Join(append(w.errs, failed)...)
}

// settle decides about an entry and reports whether it was to be moved.
func (w *walker) settle(p *quarantiner, e watchedPath) (bool, error) {
	if p.ours(e) {
		return false, nil
	}
	switch e.kind {
	case link:
		return w.settleLink(p, e)
	case noted:
		if was, ok := w.known[e.path]; !ok || was.id != e.id || was.size != e.size || was.mtime != e.mtime || was.ctime != e.ctime {
			p.stay(palyra.RemnantTrusted, e.path)
		}
		return false, nil
	case midway:
		return w.settleMidway(p, e)
	}
	if was, ok := w.known[e.path]; ok {
		if !w.replaced(was, e) {
			return false, nil
		}
		return true, w.putBack(p, was, e)
	}
	if _, own := subpath.Rel("/"+ownDir, "/"+e.path); own && e.kind == inner && len(w.out.quarantines) > 0 {
		return true, w.away(p, e)
	}
	switch e.kind {
	case inner, mount: // not the run's: it can neither write there nor mount
		return false, nil
	case shut:
		return false, denied("the directory %q, which was not there before the run, cannot be searched", e.path).
			WithRemedy("look into it as its owner, or remove it")
	}
	return true, w.away(p, e)
}

// away moves a new path, or, where an existing directory became a repository, the file that makes it one.
func (w *walker) away(p *quarantiner, e watchedPath) error {
	parent, name := e.dir, e.path[len(e.path)-baseLen(e.path):]
	if e.path == own(w.out.path(e.dir)) { // a repository
		if w.isNew(e.dir) {
			parent = w.out.dirs[e.dir].parent
		} else {
			name, e.path = w.heads[e.dir], join(w.out.path(e.dir), w.heads[e.dir])
		}
	}
	return p.put(w, parent, name, e)
}

// changes lists the known paths that have changed.
func changes(was, is map[string]watchedPath, but map[string]bool) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(was)) {
		if k := was[path].kind; k == link || k == midway || k == noted {
			continue
		}
		if now, ok := is[path]; !but[path] && (!ok || differs(was[path], now)) {
			out = append(out, ChangedPrefix+path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[path]; !ok && (is[path].kind == inner || is[path].kind == mount) {
			out = append(out, ChangedPrefix+path)
		}
	}
	return out
}
