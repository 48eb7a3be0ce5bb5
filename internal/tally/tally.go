// Package tally adds up what several users of one thing have of it, and says which of them gives way
// when that is too much.
//
// Promises. A user that was removed is not counted again by a late report. The one that gives way is the
// largest of those that can: a small one is not ended for what others have.
package tally

import "sync"

// Tally is the sum. It is safe for concurrent use.
type Tally struct {
	most int64

	mu    sync.Mutex
	users map[string]user
}

type user struct {
	has   int64
	fixed bool // it cannot give way
}

// New returns a Tally of nobody, in which all may have most together.
func New(most int64) *Tally { return &Tally{most: most, users: map[string]user{}} }

// Add counts a user that has nothing yet.
func (t *Tally) Add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users[name] = user{}
}

// Fix counts a user that has n for as long as it is there.
func (t *Tally) Fix(name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users[name] = user{n, true}
}

// Remove counts a user no more.
func (t *Tally) Remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.users, name)
}

// Report says what a user has now, and returns whether it is to give way. One that is not counted, or
// is fixed, does not.
func (t *Tally) Report(name string, n int64) (yield bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u, counted := t.users[name]; !counted || u.fixed {
		return false
	}
	t.users[name] = user{has: n}
	if t.sum() <= t.most {
		return false
	}
	for _, u := range t.users {
		if !u.fixed && u.has > n {
			return false
		}
	}
	return true
}

// Full reports whether all have what they may have together.
func (t *Tally) Full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum() >= t.most
}

// Fixed is what those have that cannot give way.
func (t *Tally) Fixed() (n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.users {
		if u.fixed {
			n += u.has
		}
	}
	return n
}

func (t *Tally) sum() (n int64) {
	for _, u := range t.users {
		n += u.has
	}
	return n
}
