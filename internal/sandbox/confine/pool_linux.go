package confine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/sandbox/refusal"
)

// pool keeps idle keepers. Each serves once.
type pool struct {
	b    *Driver
	size int
	wake chan struct{}   // there is space
	ctx  context.Context // of starting ahead; ends with the pool
	quit context.CancelFunc

	mu     sync.Mutex
	idle   []*keeper
	closed bool
	last   *user // of the last run
	usual  *user // whom launchers become ahead: of the last run, unless the one before was somebody else's
}

// retryAfter is how long a host that could not start a cell is left alone.
const retryAfter = time.Second

func (p *pool) init(b *Driver, size int) {
	p.b, p.size = b, size
	p.wake = make(chan struct{}, 1)
	p.ctx, p.quit = context.WithCancel(context.Background())
}

// start begins to fill the pool.
func (p *pool) start() {
	if p.size == 0 {
		return
	}
	p.b.fleet.Go(p.fill)
	p.refill()
}

// refillAfter delays the start of the next cell for the program that just took one: both would
// share the processor at its start.
const refillAfter = 10 * time.Millisecond

// refillSoon asks for more when the program has had its start; at once where nothing is left,
// because the next call would wait longer for a cold start.
func (p *pool) refillSoon() {
	p.mu.Lock()
	empty := len(p.idle) == 0
	p.mu.Unlock()
	if empty {
		p.refill()
		return
	}
	time.AfterFunc(refillAfter, p.refill)
}

// refill asks for more, off the caller's path.
func (p *pool) refill() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pool) fill() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
		}
		p.settle()
		for n := p.room(); n > 0; n = p.room() {
			err := p.add(n)
			if err == nil {
				continue
			}
			if p.ctx.Err() != nil {
				return
			}
			p.b.fleet.Log.Error("no cell could be kept ready", "err", err, "cause", palyra.AsError(err).Cause)
			select {
			case <-p.ctx.Done():
				return
			case <-time.After(retryAfter):
			}
		}
	}
}

// add starts n keepers at once: moving a process into a cgroup waits for a grace period of the
// kernel, some ten milliseconds, which those that move together share.
func (p *pool) add(n int) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			k, err := p.b.open(p.ctx)
			if err == nil {
				err = p.prepare(k)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// prepare has a keeper do ahead what it can, and keeps it.
func (p *pool) prepare(k *keeper) error {
	p.mu.Lock()
	usual := p.usual
	p.mu.Unlock()
	if k.rules == nil {
		k.prepare()
	}
	if usual != nil && k.user == nil {
		if err := k.become(*usual); err != nil {
			k.Discard()
			return err
		}
	}
	p.giveBack(k)
	return nil
}

// note notes whom a run was for.
func (p *pool) note(u user) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usual = nil
	if p.last == nil || *p.last == u {
		p.usual = &u
	}
	p.last = &u
}

// settle has launchers become the usual user where they are nobody yet, and ends those of others.
func (p *pool) settle() {
	for k := p.unusual(); k != nil; k = p.unusual() {
		if k.user != nil {
			k.Discard()
			continue
		}
		if err := p.prepare(k); err != nil {
			p.b.fleet.Log.Warn("a cell could not be prepared", "err", err)
		}
	}
}

// unusual takes out an idle keeper whose launcher is not the usual user, if there is one; nil: there is none.
func (p *pool) unusual() *keeper {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.idle, func(k *keeper) bool { return p.usual != nil && (k.user == nil || *k.user != *p.usual) })
	if i < 0 || p.closed {
		return nil
	}
	k := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return k
}

// room is how many more can be kept.
func (p *pool) room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0
	}
	return p.size - len(p.idle)
}

// take returns an idle keeper for a user, or starts one.
func (p *pool) take(ctx context.Context, u user) (*keeper, error) {
	if ctx.Err() != nil {
		return nil, refusal.NotBegun(ctx)
	}
	for {
		k, closed := p.pop(u)
		switch {
		case closed:
			return nil, p.b.fleet.Stopping()
		case k == nil:
			return p.b.open(ctx)
		case k.Dead():
			p.b.fleet.Log.Warn("an idle cell ended", "pid", k.Body.Pid())
			k.Discard()
			p.refill()
		case k.user != nil && *k.user != u:
			k.Discard() // its launcher cannot become anybody else
			return p.b.open(ctx)
		default:
			return k, nil
		}
	}
}

// pop takes out a keeper that a user can use, or any if there is none.
func (p *pool) pop(u user) (k *keeper, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) > 0 && !p.closed {
		i := max(0, slices.IndexFunc(p.idle, func(k *keeper) bool { return k.user == nil || *k.user == u }))
		k = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	return k, p.closed
}

// giveBack keeps an unused keeper.
func (p *pool) giveBack(k *keeper) {
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < p.size
	if keep {
		p.idle = append(p.idle, k)
	}
	p.mu.Unlock()
	if !keep {
		k.Discard()
	}
}

// drain ends the idle keepers and keeps no more.
func (p *pool) drain() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	p.quit()
	for _, k := range idle {
		k.Discard()
	}
}
