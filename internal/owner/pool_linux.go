package owner

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	idleFor  = 100 * time.Millisecond // a call's pieces of work follow each other closer than that
	maxIdle  = 4                      // threads of one identity that wait for work
	maxKinds = 8                      // identities that have any
)

// threads are those that wait for work. A thread has one identity from its beginning to its end.
var threads = pool{idle: map[string][]*thread{}}

// pool keeps threads for the next work of their identity.
type pool struct {
	mu   sync.Mutex
	idle map[string][]*thread // the one used last at the end
}

// thread is a goroutine that is bound to a thread of its own for good. When it returns, the thread ends.
type thread struct {
	id    Identity
	key   string
	jobs  chan job // closed: it is to end
	since time.Time
}

type job struct {
	f    func() error
	done chan<- error
}

// keyOf tells identities apart.
func (id Identity) keyOf() string {
	b := make([]byte, 0, 16+8*len(id.Groups))
	b = binary.NativeEndian.AppendUint64(b, uint64(id.UID))
	b = binary.NativeEndian.AppendUint64(b, uint64(id.GID))
	for _, g := range id.Groups {
		b = binary.NativeEndian.AppendUint64(b, uint64(g))
	}
	return string(b)
}

// do has f run by a thread of the identity.
func (p *pool) do(id Identity, f func() error) error {
	key := id.keyOf()
	t := p.take(key)
	if t == nil {
		t = &thread{id: Identity{id.UID, id.GID, slices.Clone(id.Groups)}, key: key, jobs: make(chan job, 1)}
		t.begin(p)
	}
	done := make(chan error, 1)
	t.jobs <- job{f, done}
	return <-done
}

// take returns a thread that waits; nil: none does.
func (p *pool) take(key string) *thread {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[key]
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	t := list[last]
	if list[last] = nil; last == 0 {
		delete(p.idle, key)
	} else {
		p.idle[key] = list[:last]
	}
	return t
}

// put has a thread wait for more work; false: enough do, and it is to end.
func (p *pool) put(t *thread) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, known := p.idle[t.key]
	if len(list) == maxIdle || !known && len(p.idle) == maxKinds {
		return false
	}
	t.since = time.Now()
	if len(p.idle) == 0 {
		time.AfterFunc(idleFor, p.sweep)
	}
	p.idle[t.key] = append(list, t)
	return true
}

// sweep ends the threads that waited for long, and comes again while there are others.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, list := range p.idle {
		n := 0
		for n < len(list) && time.Since(list[n].since) >= idleFor {
			close(list[n].jobs)
			n++
		}
		if n == len(list) {
			delete(p.idle, key)
		} else if n > 0 {
			p.idle[key] = slices.Clone(list[n:])
		}
	}
	if len(p.idle) > 0 {
		time.AfterFunc(idleFor, p.sweep)
	}
}

// begin starts the thread. The process's first thread cannot end, and /proc shows it as the process; when the scheduler
// offers it, it is held until another is there.
func (t *thread) begin(p *pool) {
	ready := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			t.begin(p)
			close(ready)
			runtime.UnlockOSThread()
			return
		}
		close(ready)
		t.serve(p) // never unlocked: the thread ends with the goroutine
	}()
	<-ready
}

// serve becomes the identity and does its work. Work that panics or ends its goroutine is the last: nobody knows what
// it left.
func (t *thread) serve(p *pool) {
	err := become(t.id)
	for j := range t.jobs {
		if !t.one(p, j, err) {
			return
		}
	}
}

// one does one piece of work and reports whether the thread goes on.
func (t *thread) one(p *pool, j job, err error) (stays bool) {
	if err != nil {
		j.done <- fmt.Errorf("owner: become uid %d: %w", t.id.UID, err)
		return false
	}
	err = errEarly
	defer func() { j.done <- err }() // after it waits again, so that whoever called finds it
	var whole bool
	if whole, err = contained(j.f); whole && t.still() == nil {
		stays = p.put(t)
	}
	return stays
}

// still returns nil when the thread is who it became. Work is ours and changes no rights; a thread whose work did takes
// no more.
func (t *thread) still() error {
	uid, _ := unix.SetfsuidRetUid(-1)
	gid, _ := unix.SetfsgidRetGid(-1)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	if int64(uid) != t.id.UID || int64(gid) != t.id.GID || caps[0].Effective|caps[1].Effective != 0 {
		return os.ErrPermission
	}
	return nil
}
