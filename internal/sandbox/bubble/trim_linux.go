package bubble

import (
	"sync"

	"palyra"
	"palyra/internal/quarantine"
	"palyra/internal/seal"
)

// users are the calls that may put items into quarantine at any time: their items are not removed to make room.
type users struct {
	mu    sync.Mutex
	calls map[palyra.CallID]int
	turn  sync.Mutex // one makes room at a time
}

// add makes a call one of them until done is called.
func (u *users) add(call palyra.CallID) (done func()) {
	count := func(n int) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.calls == nil {
			u.calls = map[palyra.CallID]int{}
		}
		if u.calls[call] += n; u.calls[call] == 0 {
			delete(u.calls, call)
		}
	}
	count(1)
	return sync.OnceFunc(func() { count(-1) })
}

func (u *users) has(call string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls[palyra.CallID(call)] > 0
}

// trim makes room in the quarantine after a call put something there, and returns what was removed.
func (b *Backend) trim(call palyra.CallID) (gone []palyra.Remnant) {
	b.users.turn.Lock()
	defer b.users.turn.Unlock()
	calls, err := quarantine.Trim(b.config.Quarantine, string(call), b.users.has,
		quarantine.Limits{Total: b.config.Kept, Workspace: b.config.KeptWorkspace})
	return b.dropped(call, calls, err)
}

// trimIn makes room in the quarantine that a workspace on another file system has of its own.
func (b *Backend) trimIn(s *seal.Snapshot, call palyra.CallID) []palyra.Remnant {
	b.users.turn.Lock()
	defer b.users.turn.Unlock()
	calls, err := s.Trim(call, b.users.has)
	return b.dropped(call, calls, err)
}

// dropped returns the remnants for removed items of calls.
func (b *Backend) dropped(call palyra.CallID, calls []string, err error) (gone []palyra.Remnant) {
	if err != nil {
		b.fleet.Log.Warn("the quarantine cannot be brought within its limit", "call", call, "err", err)
	}
	for _, c := range calls {
		b.fleet.Log.Warn("files of a call in quarantine were removed to make room", "call", c, "for", call)
		gone = append(gone, palyra.Remnant{Kind: palyra.RemnantDropped, Path: c})
	}
	return gone
}
