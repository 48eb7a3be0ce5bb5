package main

import (
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// disk is what a tree does to file systems on disk: how much it has written, by the
// kernel's account of each process, and how much room is left, whoever took it. The
// account sees every page that is made dirty, by writing or through a mapping, and
// not what is reserved without being written, which the filter refuses.
type disk struct {
	seen   map[int]written // of the walk before
	sum    int64           // of that walk
	total  int64
	ticks  int
	filled atomic.Bool // a file system has come near its end
}

// written is how much a process and the children that it waited for wrote.
type written struct {
	start uint64
	bytes int64
}

// diskTicks is at which of the looks the account is read: it is a file for each
// process, and a disk is slow.
const diskTicks = 4

// written returns the limit of the disk, if the tree is over it.
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

// account adds what was written since the account before. A process hands what it
// wrote on to the one that waits for it, and all that nobody waits for come to this
// one, so that the sum over the tree and this process only grows; but who lets the kernel
// throw its children away has the sum fall, and what fell stays counted.
func (w *watch) account(members []process) int64 {
	now := make(map[int]written, len(members)+1)
	for _, p := range members {
		before := w.disk.seen[p.pid]
		if before.start != p.start {
			before = written{}
		}
		now[p.pid] = written{p.start, max(before.bytes, w.wrote(p.pid))} // who hides it has written what is known
	}
	for pid, before := range w.disk.seen { // one that changes its parent is missed by a walk
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

// wrote reads one account; nothing where it is hidden.
func (w *watch) wrote(pid int) int64 {
	b, err := w.tree.file(strconv.Itoa(pid) + "/io")
	if err != nil {
		return 0
	}
	n, _ := field(b, "write_bytes:")
	return n
}

// freePart is which part of a file system stays free. Of one that has less already,
// half of what it has.
const freePart = 20

// space is what must stay free of a file system.
type space struct {
	fd           int
	bytes, names uint64
}

// follow looks at the file systems, beside everything else and for as long as the cell
// lives: one that does not answer must not hold it up.
func (d *disk) follow(paths []string, every time.Duration) {
	spaces := make([]space, 0, len(paths))
	for _, p := range paths {
		if s, ok := spaceOf(p); ok {
			spaces = append(spaces, s)
		}
	}
	for len(spaces) > 0 {
		for _, s := range spaces {
			if s.short() {
				d.filled.Store(true)
				return
			}
		}
		<-time.After(every)
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
