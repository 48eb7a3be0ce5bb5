package undo

import (
	"fmt"
	"slices"

	"palyra"
)

// NoRoomError says that something cannot be kept.
type NoRoomError struct{ why string }

// Error implements error, in words for people.
func (e *NoRoomError) Error() string { return e.why }

func unkeepable(why string, args ...any) *NoRoomError {
	return &NoRoomError{"what is replaced cannot be kept for 'palyra undo': " + fmt.Sprintf(why, args...)}
}

// Room says what keeping so many bytes more would mean: that they cannot be kept, or of how many calls younger than a
// day what they replaced would go for it.
func (u *Undo) Room(bytes int64) (never bool, pushesOut int64) {
	if u.Kept == nil {
		return true, 0
	}
	u.store.Lock()
	defer u.store.Unlock()
	gone, err := u.pushedOut(bytes)
	return err != nil, u.lately(gone)
}

// Take implements preimage.Space: the oldest goes first.
func (u *Undo) Take(name string, bytes int64, lose bool) error {
	u.store.Lock()
	defer u.store.Unlock()
	gone, err := u.pushedOut(bytes)
	if err != nil {
		return err
	}
	if n := u.lately(gone); n > 0 && !lose {
		return unkeepable("it would take the place of what calls of the last 24 hours replaced: %d (undo.bytes is %d)", n, u.Most)
	}
	for _, k := range gone {
		if err := u.remove(k.call); err != nil {
			return unreadable(err)
		}
		u.Log.Info("what a call replaced was forgotten, to make room", "call", k.call, "at", k.at, "bytes", k.bytes)
	}
	u.taken[name] = bytes
	return nil
}

// Settled implements preimage.Space.
func (u *Undo) Settled(name string) {
	u.store.Lock()
	defer u.store.Unlock()
	delete(u.taken, name)
	u.sealSoon(name)
}

// pushedOut are the calls of which what they replaced has to go, the oldest first, so that there is room for so many
// bytes; where there would not be all the same the error says so. The store's lock is held.
func (u *Undo) pushedOut(bytes int64) (gone []kept, err error) {
	if err := u.sealable(); err != nil {
		return nil, err
	}
	if u.Most <= 0 {
		return nil, nil
	}
	all, there, err := u.entries()
	if err != nil {
		return nil, err
	}
	total := bytes
	for name, n := range u.taken {
		if !there[name] { // else it is counted below
			total += n
		}
	}
	list := make([]kept, 0, len(all))
	for _, k := range all {
		list, total = append(list, k), total+k.bytes
	}
	slices.SortFunc(list, func(a, b kept) int { return a.at.Compare(b.at) })
	for _, k := range list {
		if total > u.Most && k.call != u.busy {
			gone, total = append(gone, k), total-k.bytes
		}
	}
	if total > u.Most {
		return nil, unkeepable("it takes %d bytes, and undo.bytes is %d", bytes, u.Most)
	}
	return gone, nil
}

// lately counts the calls of the last day.
func (u *Undo) lately(all []kept) (n int64) {
	for _, k := range all {
		if u.Now().Sub(k.at) < young {
			n++
		}
	}
	return n
}

// noRoom refuses what could not be undone, or redone.
func noRoom(err *NoRoomError) error {
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "nothing was changed: %s", err.why).
		WithRemedy("make room: forget what is not needed ('palyra undo --forget CALL'), or have undo.bytes raised in the configuration")
}
