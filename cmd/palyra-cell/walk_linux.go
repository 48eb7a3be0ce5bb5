package main

import (
	"golang.org/x/sys/unix"
)

// mostPasses bounds one attempt to stop everyone.
const mostPasses = 64

// signalAll signals the tree where the kernel cannot scope signals: it walks the tree and signals
// one process after the other. A tree that forks faster than it is walked could keep ahead of a
// SIGKILL, so everyone is stopped first, again and again until a walk finds nobody new. The caller
// repeats this until wait4 finds nobody, so a tree that outruns one attempt meets the next.
func (t *tree) signalAll(sig unix.Signal) {
	stopped := map[int]uint64{}
	for n := 0; sig == unix.SIGKILL && n < mostPasses && t.each(unix.SIGSTOP, stopped); n++ {
	}
	t.each(sig, map[int]uint64{})
}

// each sends sig to every member that is not in done yet, notes it there, and reports whether there was one.
func (t *tree) each(sig unix.Signal, done map[int]uint64) bool {
	members, err := t.walk()
	if err != nil {
		return false // the caller repeats this until wait4 finds nobody
	}
	found := false
	for _, p := range members {
		if start, ok := done[p.pid]; ok && start == p.start {
			continue
		}
		done[p.pid] = p.start
		found = t.signal(p, sig) || found
	}
	return found
}

// signal sends sig to exactly p: it takes a pidfd first and then checks the process behind the pid
// again, so that a process which got the same pid since is not hit.
func (t *tree) signal(p process, sig unix.Signal) bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	if now, ok := t.read(p.pid); !ok || now.start != p.start {
		return false
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0) == nil
}
