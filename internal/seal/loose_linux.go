package seal

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/quarantine"
	"palyra/internal/subpath"
)

// A quarantine that has to be made in the workspace while other runs are under way there is not protected from
// them: they began without it. Whatever they put there is moved away by their own sweeps.

// loose returns the calls whose quarantine is in the workspace, with the one of this sweep.
func (p *quarantiner) loose(before map[string]bool, known bool) map[string]bool {
	if p.inside == nil || known && len(before) == 0 {
		return before
	}
	all := maps.Clone(before)
	if all == nil {
		all = map[string]bool{}
	}
	all[p.call] = true
	return all
}

// takeQuarantine decides about an entry in a directory of ours that is not protected: items of a
// sweep are passed over, and the rest is noted.
func (w *walker) takeQuarantine(a at, name string) error {
	own := join(ownDir, quarantineName)
	ours := a.path == ownDir && name == quarantineName || a.path == own &&
		(w.out.quarantines[name] || w.quarantine.inside != nil && name == w.quarantine.call)
	if _, in := subpath.Rel("/"+own, "/"+a.path); in && a.path != own && (name == quarantine.IndexName || plainItem(name)) {
		return nil
	}
	st, err := w.t.look(a.fd, name)
	path := join(a.path, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("seal: %q: %w", path, err)
	case st.dir() && ours:
		return w.add(a, path, node{parent: a.dir, name: name, flags: inside, base: -1}, st)
	}
	w.note(a.dir, path, inner, st)
	return nil
}

// plainItem reports whether a name has the form of those that a sweep gives.
func plainItem(name string) bool {
	return len(name) >= 6 && strings.Trim(name, "0123456789") == ""
}
