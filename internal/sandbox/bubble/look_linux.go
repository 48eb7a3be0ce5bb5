package bubble

import (
	"context"
	"slices"
	"sync"
	"time"

	"palyra/internal/seal"
)

// looks remembers recent looks at workspaces, so that the look for the next room reads only what changed since.
type looks struct {
	mu   sync.Mutex
	last []glance // used last first
}

// glance is the look at one place.
type glance struct {
	place    string
	whole    time.Time // when everything was last read
	snapshot *seal.Snapshot
}

const (
	// wholeFor is how long directories' times are relied on before everything is read again: as
	// long as a warm cell relies on them.
	wholeFor  = idleFor
	mostLooks = 16
	mostSeen  = 200_000 // directories and sealed paths of all looks together: some 30 MiB
)

// scan is seal.Scan for a room that is to be built.
func (l *looks) scan(ctx context.Context, place, workspace string, seals []string, limits seal.Limits) (*seal.Snapshot, error) {
	now := time.Now()
	if was, ok := l.find(place, now); ok {
		if s, err := seal.ScanAgain(ctx, was.snapshot); err == nil {
			l.put(glance{place, was.whole, s.Apart()})
			return s, nil
		}
	}
	s, err := seal.Scan(ctx, workspace, seals, limits)
	if err == nil {
		l.put(glance{place, now, s.Apart()})
	}
	return s, err
}

// find returns the last look at a place, if it still counts.
func (l *looks) find(place string, now time.Time) (glance, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = slices.DeleteFunc(l.last, func(o glance) bool { return now.Sub(o.whole) >= wholeFor })
	i := slices.IndexFunc(l.last, func(o glance) bool { return o.place == place })
	if i < 0 {
		return glance{}, false
	}
	return l.last[i], true
}

// put remembers a look, and forgets older ones to make room.
func (l *looks) put(n glance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append([]glance{n}, slices.DeleteFunc(l.last, func(o glance) bool { return o.place == n.place })...)
	seen := 0
	for i, o := range all {
		if seen += o.snapshot.Weight(); seen > mostSeen || i == mostLooks {
			clear(all[i:])
			all = all[:i]
			break
		}
	}
	l.last = all
}
