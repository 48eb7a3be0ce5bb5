package bubble

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/sandbox/refusal"
)

// pool keeps idle keepers for the most recently used wants. Each serves once.
type pool struct {
	b     *Backend
	most  int
	bytes int64
	wake  chan struct{}   // there is something to do
	ctx   context.Context // of building ahead; ends with the pool
	quit  context.CancelFunc

	mu      sync.Mutex
	shelves []*shelf // most recently used first
	closed  bool
}

// shelf holds the idle keepers of one want.
type shelf struct {
	want  *want
	used  time.Time
	rest  time.Time // no building before: the last try failed
	idle  []*keeper // oldest first
	takes int64     // size of the last one in bytes
	goal  int       // how many are to be idle: more once callers found none
	short bool      // callers did since the last look
}

const (
	idleFor     = time.Minute // then an idle cell ends, and a want is forgotten
	perShelf    = 2           // one to use, one for a call that comes while the next is built
	mostShelves = 64
	retryAfter  = 5 * time.Second
	// refillAfter delays the building of the next room for the program that just took one: both would share the processor
	// at its start. One that ends earlier does not hold it up, but for what its call still does.
	refillAfter = 20 * time.Millisecond
	refillEnded = 2 * time.Millisecond
)

func (p *pool) init(b *Backend, most int, bytes int64) {
	p.b, p.most, p.bytes = b, most, bytes
	p.wake = make(chan struct{}, 1)
	p.ctx, p.quit = context.WithCancel(context.Background())
}

func (p *pool) start() {
	if p.most > 0 {
		p.b.fleet.Go(p.run)
	}
}

func (p *pool) refill() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take returns the youngest idle keeper for w, for which the workspace has changed least; nil if there is none.
func (p *pool) take(ctx context.Context, w *want) (*keeper, error) {
	if ctx.Err() != nil {
		return nil, refusal.NotBegun(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, p.b.fleet.Stopping()
	}
	s := p.find(w.key)
	if s == nil {
		return nil, nil
	}
	if len(s.idle) == 0 {
		s.goal, s.short = min(s.goal+1, max(p.most, perShelf)), true
		return nil, nil
	}
	k := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	return k, nil
}

func (p *pool) find(key string) *shelf {
	i := slices.IndexFunc(p.shelves, func(s *shelf) bool { return s.want.key == key })
	if i < 0 {
		return nil
	}
	return p.shelves[i]
}

// used puts the shelf of w first, and has it refilled soon: at the latest when ended is closed.
func (p *pool) used(w *want, ended <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.most == 0 {
		return
	}
	s := p.find(w.key)
	if s == nil {
		s = &shelf{want: w, goal: perShelf}
	}
	s.used = time.Now()
	p.shelves = slices.DeleteFunc(p.shelves, func(o *shelf) bool { return o == s })
	p.shelves = slices.Insert(p.shelves, 0, s)
	later := time.AfterFunc(refillAfter, p.refill)
	if ended != nil {
		p.b.fleet.Go(func() {
			<-ended
			if later.Stop() {
				time.AfterFunc(refillEnded, p.refill)
			}
		})
	}
}

// giveBack keeps an unused keeper.
func (p *pool) giveBack(k *keeper) {
	p.mu.Lock()
	s := p.find(k.want.key)
	keep := !p.closed && s != nil && len(s.idle) < s.goal && p.count() < p.most
	if keep {
		s.idle = append(s.idle, k)
	}
	p.mu.Unlock()
	if !keep {
		k.discard()
	}
}

// count is the number of idle keepers.
func (p *pool) count() (n int) {
	for _, s := range p.shelves {
		n += len(s.idle)
	}
	return n
}

// run fills shelves and ends keepers that were idle for too long, until the pool is closed.
func (p *pool) run() {
	timer := time.NewTicker(idleFor / 4)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
			p.relax()
		}
		p.expire(time.Now())
		p.b.templates.Expire(time.Now())
		for {
			w, away := p.next(time.Now())
			for _, k := range away {
				k.discard()
			}
			if w == nil {
				break
			}
			p.add(w)
		}
	}
}

// relax has fewer kept where nobody had to wait for a while.
func (p *pool) relax() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelves {
		if !s.short {
			s.goal = max(perShelf, s.goal/2)
		}
		s.short = false
	}
}

// expire ends keepers that were idle for too long.
func (p *pool) expire(now time.Time) {
	var away []*keeper
	p.mu.Lock()
	old := func(at time.Time) bool { return now.Sub(at) >= idleFor }
	for _, s := range p.shelves {
		s.idle = slices.DeleteFunc(s.idle, func(k *keeper) bool {
			end := old(k.since) || k.Dead()
			if end {
				away = append(away, k)
			}
			return end
		})
	}
	p.shelves = slices.DeleteFunc(p.shelves, func(s *shelf) bool { return old(s.used) && len(s.idle) == 0 })
	p.mu.Unlock()
	for _, k := range away {
		k.discard()
	}
}

// next returns what to build now, and the keepers that must go for it: those of less recently used wants.
func (p *pool) next(now time.Time) (*want, []*keeper) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil
	}
	var away []*keeper
	for len(p.shelves) > mostShelves {
		last := len(p.shelves) - 1
		away = append(away, p.shelves[last].idle...)
		p.shelves = p.shelves[:last]
	}
	for i, s := range p.shelves {
		if len(s.idle) >= min(s.goal, p.most) || now.Before(s.rest) || now.Sub(s.used) >= idleFor {
			continue
		}
		more, room := p.makeRoom(i, max(s.takes, cellGuess))
		if away = append(away, more...); room {
			return s.want, away
		}
	}
	return nil, away
}

// makeRoom takes keepers off the shelves behind the i-th until one more of that size can be kept;
// false: that is not possible, and none is taken.
func (p *pool) makeRoom(i int, bytes int64) (away []*keeper, ok bool) {
	n, sum := p.count()+1, bytes
	for _, s := range p.shelves {
		for _, k := range s.idle {
			sum += k.bytes
		}
	}
	var from []*shelf
	for j := len(p.shelves) - 1; j > i && (n > p.most || sum > p.bytes); j-- {
		s := p.shelves[j]
		for _, k := range s.idle {
			away, n, sum = append(away, k), n-1, sum-k.bytes
		}
		from = append(from, s)
	}
	if n > p.most || sum > p.bytes {
		return nil, false
	}
	for _, s := range from {
		s.idle = nil
	}
	return away, true
}

// cellGuess is the assumed size of a warm cell before one was measured.
const cellGuess = 1 << 20

// add builds a keeper and puts it on its shelf.
func (p *pool) add(w *want) {
	k, err := p.b.build(p.ctx, w)
	if err == nil {
		if err = k.ready(); err != nil {
			k.discard()
		}
	}
	p.mu.Lock()
	s := p.find(w.key)
	if err == nil && s != nil {
		s.takes = k.bytes
	}
	gone := err != nil && gone(w.room.Workspace)
	if err != nil && s != nil {
		s.rest = time.Now().Add(retryAfter)
		if gone {
			s.used = time.Time{} // nobody runs there any more
		}
	}
	p.mu.Unlock()
	switch {
	case err == nil:
		p.giveBack(k)
	case p.ctx.Err() == nil && !gone:
		p.b.fleet.Log.Warn("no cell could be kept ready", "workspace", w.room.Workspace, "err", err, "cause", palyra.AsError(err).Cause)
	}
}

// gone reports whether a workspace is not there any more.
func gone(workspace string) bool {
	_, err := os.Lstat(workspace)
	return errors.Is(err, os.ErrNotExist)
}

// drain ends the idle keepers and keeps no more.
func (p *pool) drain() {
	p.mu.Lock()
	shelves := p.shelves
	p.shelves, p.closed = nil, true
	p.mu.Unlock()
	p.quit()
	for _, s := range shelves {
		for _, k := range s.idle {
			k.discard()
		}
	}
}
