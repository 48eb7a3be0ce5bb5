package daemon

import (
	"context"
	"sync"

	"palyra"
	"palyra/internal/gate"
)

// leases tells runs that go by a lease that it has ended, and knows which runs
// are under way: whatever is kept for one goes with it.
type leases struct {
	mu   sync.Mutex
	runs map[palyra.ID]context.Context // of calls, by id
	of   map[palyra.ID]*watched
}

// watched is a lease that runs go by.
type watched struct {
	ended chan struct{}
	runs  map[palyra.ID]bool
}

// enter notes a run that is under way, until leave is called.
func (l *leases) enter(ctx context.Context, run palyra.ID) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs, l.of = map[palyra.ID]context.Context{}, map[palyra.ID]*watched{}
	}
	l.runs[run] = ctx
	return func() { l.leave(run) }
}

func (l *leases) leave(run palyra.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, run)
	for id, w := range l.of {
		if delete(w.runs, run); len(w.runs) == 0 { // a lease that was used up is never told to have ended
			delete(l.of, id)
		}
	}
}

// pause stops a run's clock while it waits for an answer: how long people take
// is not the program's doing.
func (l *leases) pause(run palyra.ID) (resume func()) {
	l.mu.Lock()
	ctx, ok := l.runs[run]
	l.mu.Unlock()
	if !ok {
		return func() {}
	}
	return gate.Pause(ctx)
}

// watch returns what is closed when a lease ends; nil, which never is, for a run
// that is over.
func (l *leases) watch(id, run palyra.ID) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.runs[run]; !ok {
		return nil
	}
	w := l.of[id]
	if w == nil {
		w = &watched{ended: make(chan struct{}), runs: map[palyra.ID]bool{}}
		l.of[id] = w
	}
	w.runs[run] = true
	return w.ended
}

// ended is told of every lease that ends other than by being used up.
func (l *leases) ended(id palyra.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.of[id]; w != nil {
		close(w.ended)
		delete(l.of, id)
	}
}
