package main

import (
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// disk follows what a tree does to file systems on disk: how much it has written, by the kernel's account of each
// process, and how much space is left, whoever took it. The account counts every page that is made dirty, by
// writing or through a mapping, but not space that is reserved without being written, which the filter refuses.
type disk struct {
	seen   map[int]written // accounts of the walk before
	sum    int64           // sum of that walk
	total  int64
	ticks  int
	filled atomic.Bool // a file system is nearly full
	over   chan struct{}
}

// written is how much a process and the children that it waited for wrote.
type written struct {
	start uint64
	bytes int64
}

// diskTicks is how many looks pass between two readings of the account: it is a file for each
// process, and a disk is slow.
const diskTicks = 4

// written returns the name of the disk limit if the tree is over it.
func (w *watch) written() (string, error) {
	if w.limits.Disk <= 0 {
		return "", nil
	}
	if w.disk.filled.Load() {
		return limitDisk, nil
	}
	if w.disk.ticks++; w.disk.ticks%diskTicks != 1 {
		return "", nil
	}
	members, err := w.tree.walk()
	if err != nil {
		return "", err
	}
	if w.account(members) > w.limits.Disk {
		return limitDisk, nil
	}
	return "", nil
}

// account adds the bytes written since the account before. A process hands its sum on to the parent that waits for
// it, and orphans come to this process, so that the sum over the tree and this process only grows; but a parent
// that lets the kernel discard its children makes the sum fall, and the difference stays counted.
func (w *watch) account(members []process) int64 {
	now := make(map[int]written, len(members)+1)
	for _, p := range members {
		before := w.disk.seen[p.pid]
		if before.start != p.start {
			before = written{}
		}
		now[p.pid] = written{p.start, max(before.bytes, w.wrote(p.pid))} // a process that hides its account has written what is known
	}
	for pid, before := range w.disk.seen { // a walk misses a process that changes its parent
		if _, ok := now[pid]; ok {
			continue
		}
		if p, ok := w.tree.read(pid); ok && p.start == before.start {
			now[pid] = before
		}
	}
	sum := w.wrote(w.tree.root)
	for _, n := range now {
		sum += n.bytes
	}
	w.disk.total += max(0, sum-w.disk.sum)
	w.disk.seen, w.disk.sum = now, sum
	return w.disk.total
}

// wrote reads one account; 0 where it is hidden.
func (w *watch) wrote(pid int) int64 {
	b, err := w.tree.file(strconv.Itoa(pid) + "/io")
	if err != nil {
		return 0
	}
	n, _ := field(b, "write_bytes:")
	return n
}

// freePart is the part of a file system (one in so many) that stays free. Where less is free
// already, half of that stays.
const freePart = 20

// space is a file system and the bytes of it that must stay free.
type space struct {
	fd           int
	bytes, names uint64
}

// patient is how long the run waits until the file systems have said how much is free: what it has filled by then
// would count as filled before.
const patient = time.Second

// watched follows file systems in a goroutine of its own, until the watch is over: one that does not answer must not
// hold up the cell.
func (d *disk) watched(paths []string, every time.Duration) {
	known := make(chan struct{})
	go d.follow(paths, every, known)
	select {
	case <-known:
	case <-time.After(patient):
	}
}

// follow closes known when it has seen how much is free.
func (d *disk) follow(paths []string, every time.Duration, known chan<- struct{}) {
	spaces := make([]space, 0, len(paths))
	for _, p := range paths {
		if s, ok := spaceOf(p); ok {
			defer func() { _ = unix.Close(s.fd) }()
			spaces = append(spaces, s)
		}
	}
	close(known)
	for len(spaces) > 0 {
		for _, s := range spaces {
			if s.short() {
				d.filled.Store(true)
				return
			}
		}
		select {
		case <-d.over:
			return
		case <-time.After(every):
		}
	}
}

func spaceOf(path string) (space, bool) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return space{}, false
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Blocks == 0 {
		_ = unix.Close(fd)
		return space{}, false
	}
	return space{fd: fd, bytes: min(fs.Blocks/freePart, fs.Bavail/2), names: min(fs.Files/freePart, fs.Ffree/2)}, true
}

// short reports whether less is free than must stay.
func (s space) short() bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(s.fd, &fs) == nil && (fs.Bavail < s.bytes || fs.Ffree < s.names)
}
