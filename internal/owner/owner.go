// Package owner does work with the file permissions of somebody else: what a
// daemon that is root does in a user's directory, it does as that user could.
//
// Words: an identity is a uid, a gid and further groups; it comes without any capability, for uid 0 as well.
//
// Promises: the work sees the identity's rights to files and no more, or is not begun. The identity is one thread's
// and ends with the work: whether that succeeds, fails or panics, the thread has its rights back before anything else
// can run on it, exactly and by the kernel's word, or it ends. Who is not root can only be himself, and any other
// identity is refused.
//
// What it does not do: only rights to files change. To signals and limits the thread is still the daemon's, and the
// work could raise its capabilities again: this is for work of our own, not for a program of somebody else's. Such work
// changes nothing else of its thread, which others have after it.
// Goroutines that the work starts are not part of it, and processes that it starts may end with its thread.
package owner

import (
	"errors"
	"fmt"
	"os"
)

// Identity is whose rights to files the work has.
type Identity struct {
	UID, GID int64
	Groups   []int // besides GID; only root can take any on
}

const (
	maxID     = 1<<32 - 2 // the one above it means "leave as it is"
	maxGroups = 1 << 16   // the kernel's own
)

// errEarly is what Do returns when the work ended its goroutine.
var errEarly = errors.New("owner: the work ended early")

// Do runs f with the rights of id, and returns what f returns. A panic of f comes back as an error.
func Do(id Identity, f func() error) error {
	if !id.possible() {
		return fmt.Errorf("owner: nobody is uid %d, gid %d in groups %v", id.UID, id.GID, id.Groups)
	}
	euid := os.Geteuid()
	switch {
	case euid == 0:
		return asRoot(id, f)
	case int64(euid) != id.UID || len(id.Groups) > 0:
		return fmt.Errorf("owner: uid %d cannot become uid %d: %w", euid, id.UID, os.ErrPermission)
	}
	return contain(f)
}

// As is Do for who is known by numbers only.
func As(uid, gid uint32, f func() error) error {
	return Do(Identity{UID: int64(uid), GID: int64(gid)}, f)
}

// possible reports whether the kernel can hold the identity as it is. It would
// leave things as they are for an id that it has no number for.
func (id Identity) possible() bool {
	for _, g := range id.Groups {
		if g < 0 || int64(g) > maxID {
			return false
		}
	}
	return id.UID >= 0 && id.UID <= maxID && id.GID >= 0 && id.GID <= maxID && len(id.Groups) <= maxGroups
}

// contain runs f and makes a panic an error.
func contain(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("owner: panic: %v", r)
		}
	}()
	return f()
}
