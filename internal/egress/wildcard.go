package egress

import (
	"sync"

	"palyra"
)

// defaultWildcard is how many names below one suffix a run may reach, unless the operator sets another number.
const defaultWildcard = 32

// wildcards counts the names that a run reached below the suffixes of its plan. The owner of a domain sees the
// names that it is asked for: each new one carries data that a run put into it, before a single byte is sent.
type wildcards struct {
	most int

	mu   sync.Mutex // guards seen; a leaf lock
	seen map[rule]map[string]bool
}

// admit counts a target that only suffixes cover for the first of them with a free place, or refuses it.
func (w *wildcards) admit(rules []rule, t target) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var full *rule
	for _, r := range rules {
		if !r.below || !r.covers(t) {
			continue
		}
		names := w.seen[r]
		if names[t.name] {
			return nil
		}
		if len(names) < w.most {
			if names == nil {
				names = map[string]bool{}
				w.seen[r] = names
			}
			names[t.name] = true
			return nil
		}
		full = &r
	}
	if full == nil {
		return nil // no suffix covers it
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied,
		"%s is one more name below %s: this run has reached %d, as many as it may", t, full, w.most).
		WithRemedy("name the hosts themselves in the call's egress list; an operator can raise egress.wildcard_names")
}
