package seal

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"palyra"
)

// maxMade bounds the result of a sweep. The index has everything.
const maxMade = 1_000

func (s *Snapshot) sweep(ctx context.Context, quarantine string, call palyra.ID) ([]string, error) {
	t, err := openTree(s.workspace)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if t.id != s.root {
		return nil, denied("the workspace %q is another directory than before the run", s.workspace)
	}
	p, err := newPen(t, quarantine, call)
	if err != nil {
		return nil, err
	}
	defer p.close()
	known := s.byPath()
	base := s
	for pass := 1; ; pass++ {
		w := newWalker(ctx, t, s.match, base, s.workspace, s.limits)
		w.limits.Entries *= sweepFactor
		w.known = known
		n, err := w.clear(p)
		if err != nil {
			return p.result(nil), fmt.Errorf("seal: sweep: %w", err)
		}
		switch base = w.out; {
		case n == 0 && (w.moved == 0 || pass >= maxPasses):
			if p.inside != nil { // it changed by our hand
				delete(known, ownDir)
			}
			changes := changes(known, w.out.byPath(), p.restored)
			t.remember(w.out, known)
			*s = *w.out
			return p.result(changes), nil
		case pass >= 2*maxPasses:
			return p.result(nil), denied("new sealed paths keep appearing in the workspace after the run").
				WithRemedy("end what makes them in %q, and try again", s.workspace)
		}
	}
}

// clear walks once and moves away what must not be there. It returns how many it
// found.
func (w *walker) clear(p *pen) (int, error) {
	defer w.shut()
	if err := w.walk(); err != nil {
		return 0, err
	}
	n := 0
	for _, e := range w.out.entries {
		if p.ours(e) {
			continue
		}
		if was, ok := w.known[e.path]; ok {
			if !w.replaced(was, e) {
				continue
			}
			n++
			if err := w.putBack(p, was, e); err != nil {
				return n, err
			}
			continue
		}
		switch e.kind {
		case inner, mount: // not the run's: it could neither write there nor mount
			continue
		case shut:
			return n, denied("the directory %q, which was not there before the run, cannot be searched", e.path).
				WithRemedy("look into it as its owner, or remove it")
		}
		n++
		if err := w.away(p, e); err != nil {
			return n, err
		}
	}
	return n, nil
}

// away moves a new path, or, where an old directory was made a repository, the
// file that makes it one.
func (w *walker) away(p *pen, e entry) error {
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

// changes lists what was there and is not as it was.
func changes(was, is map[string]entry, but map[string]bool) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(was)) {
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
