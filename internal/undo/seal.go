package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/preimage"
)

// sealAfter is how long what a call replaced may lie as it was: sealing it does not compete with calls that follow.
const sealAfter = time.Second

// sealLast is how long sealing may take when the daemon stops; the next one goes on.
const sealLast = 3 * time.Second

// sealing seals what calls replaced, one after the other and behind them.
type sealing struct {
	mu      sync.Mutex
	waiting []string
	timer   *time.Timer
	closed  bool
	failed  map[string]failure // entries that could not be sealed, and are tried again
	gone    int                // entries that were forgotten for that
	ctx     context.Context    // ends when the daemon can wait no longer
	end     context.CancelFunc

	turn sync.Mutex // of who seals
}

// sealAgain is when what could not be sealed is tried again.
const sealAgain = time.Minute

// sealSoon has an entry sealed behind the call that made it.
func (u *Undo) sealSoon(names ...string) {
	if u.Sealer == nil || u.Kept == nil || len(names) == 0 {
		return
	}
	s := &u.sealing
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for _, n := range names {
		if !slices.Contains(s.waiting, n) {
			s.waiting = append(s.waiting, n)
		}
	}
	if s.timer == nil {
		if s.ctx == nil {
			s.ctx, s.end = context.WithCancel(context.Background())
		}
		s.timer = time.AfterFunc(sealAfter, func() { u.sealWaiting(s.ctx) })
	}
}

// next takes the entry that waits longest.
func (s *sealing) next() (name string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.timer = nil
		return "", false
	}
	name, s.waiting = s.waiting[0], s.waiting[1:]
	return name, true
}

// sealWaiting seals all that waits.
func (u *Undo) sealWaiting(ctx context.Context) {
	s := &u.sealing
	s.turn.Lock()
	defer s.turn.Unlock()
	for {
		name, ok := s.next()
		if !ok {
			return
		}
		err := u.Kept.seal(ctx, name)
		if u.noteSealed(name, err); err != nil && ctx.Err() == nil {
			u.Log.Warn("what a call replaced lies as it was: it could not be sealed, and is tried again", "entry", name, "err", err)
			u.giveUp(ctx, name, err)
		}
	}
}

// endSealing seals what is left, as far as there is time, and nothing from then on.
func (u *Undo) endSealing() {
	s := &u.sealing
	s.mu.Lock()
	s.closed = true
	waits := s.timer != nil
	s.mu.Unlock()
	if waits {
		defer time.AfterFunc(sealLast, s.end).Stop()
		u.sealWaiting(s.ctx)
	}
}

// SealAll has everything sealed that lies as it was: of earlier daemons, and what could not be sealed.
func (u *Undo) SealAll() {
	if u.Sealer == nil || u.Kept == nil {
		return
	}
	names, err := u.Kept.unsealed()
	if err != nil {
		u.Log.Warn("what calls replaced may lie as it was", "err", err)
	}
	u.sealSoon(names...)
}

// stranded is told that what was opened to be put back, or shown, could not be removed: it is tried again, and told.
func (u *Undo) stranded(name string, err error) {
	u.Log.Warn("what a call replaced was opened, and lies as it was: it could not be removed, which is tried again", "entry", name,
		"err", err)
	u.noteSealed(name, err)
	u.sealSoon(name)
}

// Problems says for people what lies as it was because it could not be sealed, and what is gone for that.
func (u *Undo) Problems() (out []string) {
	u.sealing.mu.Lock()
	defer u.sealing.mu.Unlock()
	if n := u.sealing.gone; n > 0 {
		out = append(out, fmt.Sprintf("what %d calls replaced was forgotten since the daemon started, because it could not be sealed: "+
			"they cannot be undone; the daemon's log says why", n))
	}
	if n := len(u.sealing.failed); n > 0 {
		out = append(out, fmt.Sprintf("what %d calls replaced lies unsealed in the state: it is tried again every minute, and forgotten "+
			"after an hour, or after a day while the vault cannot seal; remedy: see the daemon's log, make space, and "+
			"'palyra vault unlock' where the vault is locked; or 'palyra undo --forget CALL'", n))
	}
	return out
}

// sealable says for people why nothing can be kept; nil: it can, and will be sealed.
func (u *Undo) sealable() error {
	if u.Sealer == nil {
		return nil
	}
	err := u.Sealer.Ready()
	if err == nil {
		return nil
	}
	why := "it could not be sealed"
	if e := (*palyra.Error)(nil); errors.As(err, &e) {
		if why += ": " + e.Text; e.Remedy != "" {
			why += " (" + e.Remedy + ")"
		}
	}
	u.Log.Warn("what calls replace is not kept: it could not be sealed", "err", err)
	return unkeepable("%s", why)
}

// Sealer seals what calls replaced; see preimage.Sealer.
type Sealer = preimage.Sealer
