package engine

import (
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/wasm"
)

// key is what an artifact is of.
type key struct {
	digest palyra.Digest
	kind   wasm.Kind
}

// poolKey is what workers have in common that can stand for each other.
type poolKey struct {
	key
	memory int64
}

// pool keeps idle workers, the oldest first.
type pool struct {
	e      *Engine
	mu     sync.Mutex
	idle   []*worker
	closed bool
	timer  *time.Timer
}

func (p *pool) init(e *Engine) {
	p.e = e
	p.timer = time.AfterFunc(time.Hour, p.expire)
	p.timer.Stop()
}

// take returns an idle worker; nil: there is none.
func (p *pool) take(k poolKey) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		w := p.idle[i]
		if w.key != k {
			continue
		}
		p.idle = slices.Delete(p.idle, i, i+1)
		select {
		case <-w.p.Done: // it ended while it was idle
			w.kill("gone")
		default:
			return w
		}
	}
	return nil
}

// give keeps a worker for the next invocation.
func (p *pool) give(w *worker) {
	p.mu.Lock()
	w.since = time.Now()
	p.idle = append(p.idle, w)
	var over []*worker
	if n := len(p.idle) - p.e.Keep; n > 0 {
		over, p.idle = slices.Clone(p.idle[:n]), slices.Delete(p.idle, 0, n)
	}
	if p.closed {
		over, p.idle = append(over, p.idle...), nil
	}
	p.rearm()
	p.mu.Unlock()
	for _, w := range over {
		w.kill("not needed")
	}
}

// rearm sets the timer for the oldest.
func (p *pool) rearm() {
	if len(p.idle) > 0 {
		p.timer.Reset(max(0, time.Until(p.idle[0].since.Add(p.e.Idle))))
	}
}

// expire ends workers that were idle for long.
func (p *pool) expire() {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && time.Since(p.idle[n].since) >= p.e.Idle {
		n++
	}
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.rearm()
	p.mu.Unlock()
	for _, w := range old {
		w.kill("idle")
	}
}

func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.timer.Stop()
	p.mu.Unlock()
	for _, w := range idle {
		w.kill("stopping")
	}
}
