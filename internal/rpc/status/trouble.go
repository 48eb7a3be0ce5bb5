package status

import (
	"maps"
	"slices"
	"sync"

	"palyra"
)

// Trouble is the list of problems that the status shows.
type Trouble struct {
	mu sync.Mutex
	by map[string]string
}

// Set says what is wrong with a part, or with nil that nothing is.
func (t *Trouble) Set(part string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[string]string{}
	}
	delete(t.by, part)
	if err != nil {
		e := palyra.AsError(err)
		t.by[part] = e.Text + "; " + e.Remedy
	}
}

// List is what is wrong, each with its part.
func (t *Trouble) List() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, part := range slices.Sorted(maps.Keys(t.by)) {
		out = append(out, part+": "+t.by[part])
	}
	return out
}
