// Package tally adds up what several users of one thing have of it, and who pays for them, and says who gives way
// when that is too much.
//
// Promises. A user that was removed is not counted again by a late report. Who gives way is of the payer that has the
// most, and the largest of its users that can: neither a small user nor a small payer is ended for what others have. A
// payer that has less than a share may always begin, and one can never hold more than a share for good, but for a
// single user that is larger.
package tally

import "sync"

// shares is how many parts what all may have together is in.
const shares = 4

// Tally is the sum. It is safe for concurrent use.
type Tally struct {
	most int64

	mu    sync.Mutex
	users map[string]user
}

type user struct {
	payer string
	has   int64
	fixed bool // it cannot give way
}

// New returns a Tally of nobody, in which all may have most together.
func New(most int64) *Tally { return &Tally{most: most, users: map[string]user{}} }

// Add counts a user that has nothing yet, and that nobody pays for.
func (t *Tally) Add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users[name] = user{}
}

// Charge says who pays for a user. It reports whether there is room for it: all have less than they may, or that payer
// has less than its share.
func (t *Tally) Charge(name, payer string) (room bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u, counted := t.users[name]; counted {
		u.payer = payer
		t.users[name] = u
	}
	return t.sum(anybody) < t.most || t.sum(paidBy(payer)) < t.most/shares
}

// Fix counts a user that has n for as long as it is there.
func (t *Tally) Fix(name, payer string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users[name] = user{payer, n, true}
}

// Hold is Fix for a user that may be too much: it reports whether one more of its payer may have n for as long as it is
// there, and counts it so. Of several that ask at once, those after the last one that fits are refused.
func (t *Tally) Hold(name, payer string, n int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.sum(func(u user) bool { return u.fixed })
	own := t.sum(func(u user) bool { return u.fixed && u.payer == payer })
	if all > 0 && all+n > t.most || own > 0 && own+n > t.most/shares {
		return false
	}
	t.users[name] = user{payer, n, true}
	return true
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
	me, counted := t.users[name]
	if !counted || me.fixed {
		return false
	}
	me.has = n
	t.users[name] = me
	if t.sum(anybody) <= t.most {
		return false
	}
	mine := t.sum(paidBy(me.payer))
	for _, u := range t.users {
		if !u.fixed && (u.payer == me.payer && u.has > n || u.has > 0 && t.sum(paidBy(u.payer)) > mine) {
			return false
		}
	}
	return true
}

func anybody(user) bool { return true }

func paidBy(payer string) func(user) bool { return func(u user) bool { return u.payer == payer } }

func (t *Tally) sum(counts func(user) bool) (n int64) {
	for _, u := range t.users {
		if counts(u) {
			n += u.has
		}
	}
	return n
}
