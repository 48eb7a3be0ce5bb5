package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"palyra/internal/cell/first"
	"palyra/internal/cell/ruleset"
)

// hand is the one thread that reaches the tree. It is in a Landlock domain of its own that only scopes signals; the
// launcher is started from it, so everything that will ever run below is in that domain too, and nothing can leave
// it. A kill(-1) from this thread therefore reaches all of the tree and nothing else, in one step under the
// kernel's own lock: no process can fork past it, and no process id can have been reused.
//
// The thread is locked for as long as the supervisor lives: the launcher's death signal is tied to it.
type hand struct {
	work   chan func()
	scoped bool // the domain holds; otherwise the tree is walked
	tid    int
	tree   *tree
}

// newHand starts the thread and lets it enter the domain. With scope false, or
// on a kernel that cannot scope signals, the hand works by walking /proc.
func newHand(scope bool) (*hand, error) {
	t, err := newTree(unix.Getpid())
	if err != nil {
		return nil, err
	}
	h := &hand{work: make(chan func()), tree: t}
	go func() {
		runtime.LockOSThread() // never unlocked
		for f := range h.work {
			f()
		}
	}()
	h.do(func() { err = h.enter(scope && ruleset.ABI() >= ruleset.ScopeABI) })
	return h, err
}

// do runs f on the hand's thread and waits for it.
func (h *hand) do(f func()) {
	done := make(chan struct{})
	h.work <- func() { f(); close(done) }
	<-done
}

func (h *hand) enter(scope bool) error {
	h.tid = unix.Gettid()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if !scope {
		return nil
	}
	// Every ruleset denies moving files between directories unless it says
	// otherwise; this one is about signals only, so it does.
	domain, err := ruleset.New(unix.LANDLOCK_ACCESS_FS_REFER, 0, unix.LANDLOCK_SCOPE_SIGNAL)
	if err != nil {
		return fmt.Errorf("scope: %w", err)
	}
	defer func() { _ = unix.Close(domain) }()
	if err := ruleset.Allow(domain, "/", unix.LANDLOCK_ACCESS_FS_REFER, true); err != nil {
		return fmt.Errorf("scope: %w", err)
	}
	if e := ruleset.Restrict(domain); e != 0 {
		return fmt.Errorf("scope: %w", e)
	}
	h.scoped = outOfReach(unix.Getppid())
	return nil
}

// outOfReach proves that the domain holds before kill(-1) is ever trusted to it:
// our own parent, who has our uid or lies above us, must not be reachable.
func outOfReach(parent int) bool {
	return parent > 0 && errors.Is(unix.Kill(parent, 0), unix.EPERM)
}

// start makes the launcher in the domain and in the cgroups, with link as its end of the socket, and daemon as that to the
// daemon, which may be nil.
func (h *hand) start(l *first.Launcher, link, daemon *os.File, g named) (pid int, err error) {
	h.do(func() { pid, err = h.fork(l, link, daemon, g) })
	return pid, err
}

// fork does the work of start on the hand's thread.
func (h *hand) fork(l *first.Launcher, link, daemon *os.File, g named) (pid int, err error) {
	last, clears := capabilities()
	into, err := g.enter()
	if err != nil {
		return 0, err
	}
	if into != nil {
		defer func() { _ = into.Close() }()
	}
	pid, err = l.Fork(link, daemon, into, last, clears)
	if err == nil {
		err = g.leave()
	}
	if err == nil && h.scoped {
		h.scoped = unix.Kill(pid, 0) == nil // the domain must reach what was started in it
	}
	return pid, err
}

// killAll sends sig to everything in the tree. It is no error when nothing is left: wait4 shows who
// is. On any thread but the one in the domain kill(-1) would kill everything of this user, so that is checked each time.
func (h *hand) killAll(sig unix.Signal) {
	h.do(func() {
		if h.scoped && unix.Gettid() == h.tid {
			_ = unix.Kill(-1, sig)
			return
		}
		h.tree.signalAll(sig)
	})
}

// killGroup sends sig to the process group that pid leads. From inside the domain it cannot hit
// anyone else, even when the group is gone.
func (h *hand) killGroup(pid int, sig unix.Signal) {
	if pid <= 1 {
		return // 0 would mean our own group, 1 everybody
	}
	h.do(func() { _ = unix.Kill(-pid, sig) })
}
