package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// tree finds the descendants of a process by reading /proc.
//
// A process that is no descendant can never become one, so strangers are read once and then known
// by pid and inode, which /proc gives to one process only: a walk costs a listing and a read per
// member, however many others there are.
type tree struct {
	root      int
	proc      int // descriptor of /proc
	strangers map[int]uint64
	buf       []byte
}

// process holds the fields of /proc/PID/stat.
type process struct {
	pid, parent int
	inode       uint64
	start       uint64
	own, waited int64 // CPU time in ticks, of itself and of the children it waited for
	tasks       int64
	pages       int64 // resident
}

func newTree(root int) (*tree, error) {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, proc: fd, strangers: map[int]uint64{}, buf: make([]byte, 32<<10)}, nil
}

// walk returns the descendants that were there. A process that is born or
// reparented meanwhile may be missing; the next walk has it.
func (t *tree) walk() ([]process, error) {
	listed, err := t.list()
	if err != nil {
		return nil, err
	}
	seen := make(map[int]process, 16)
	for pid, inode := range listed {
		if t.strangers[pid] == inode || pid == t.root {
			continue
		}
		if p, ok := t.read(pid); ok {
			p.inode = inode
			seen[pid] = p
		}
	}
	for pid, inode := range t.strangers {
		if listed[pid] != inode {
			delete(t.strangers, pid)
		}
	}
	var members []process
	var others []process
	for _, p := range seen {
		switch t.belongs(p, seen) {
		case member:
			members = append(members, p)
		case stranger:
			others = append(others, p)
		}
	}
	for _, p := range others {
		t.strangers[p.pid] = p.inode
	}
	return members, nil
}

type kinship int

const (
	unclear  kinship = iota // its parents changed while they were read: looked at again next time
	member                  // descends from the root
	stranger                // does not, and never will
)

// belongs follows the line of parents. A parent younger than its child is someone else under the same number.
func (t *tree) belongs(p process, seen map[int]process) kinship {
	for range len(seen) + 1 {
		switch _, known := t.strangers[p.parent]; {
		case p.parent == t.root:
			return member
		case p.parent == 0 || known:
			return stranger
		}
		up, ok := seen[p.parent]
		if !ok || up.start > p.start {
			return unclear
		}
		p = up
	}
	return unclear
}

// list returns the processes of the machine with their inodes.
func (t *tree) list() (map[int]uint64, error) {
	if _, err := unix.Seek(t.proc, 0, 0); err != nil {
		return nil, err
	}
	all := make(map[int]uint64, len(t.strangers)+16)
	for {
		n, err := unix.Getdents(t.proc, t.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return all, nil
		}
		entries(t.buf[:n], all)
	}
}

// entries takes the numeric names out of a block of struct linux_dirent64.
func entries(b []byte, into map[int]uint64) {
	const nameAt = 19
	for len(b) > nameAt {
		inode, size := binary.NativeEndian.Uint64(b), int(binary.NativeEndian.Uint16(b[16:]))
		if size <= nameAt || size > len(b) {
			return
		}
		name, _, _ := bytes.Cut(b[nameAt:size], []byte{0})
		if pid, ok := number(name); ok && pid > 0 {
			into[int(pid)] = inode
		}
		b = b[size:]
	}
}

// read reads /proc/PID/stat; false: the process is gone.
func (t *tree) read(pid int) (process, bool) {
	b, err := t.file(strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	p, ok := parseStat(b)
	p.pid = pid
	return p, ok
}

// parseStat reads a stat line. The program's name, in brackets, may hold any bytes, brackets and spaces too.
func parseStat(b []byte) (process, bool) {
	const parent, utime, stime, cutime, cstime, threads, start, rss = 1, 11, 12, 13, 14, 17, 19, 21
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return process{}, false
	}
	f := bytes.Fields(b[i+1:])
	if len(f) <= rss {
		return process{}, false
	}
	var v [rss + 1]int64
	for _, i := range []int{parent, utime, stime, cutime, cstime, threads, start, rss} {
		n, ok := number(f[i])
		if !ok {
			return process{}, false
		}
		v[i] = n
	}
	return process{
		parent: int(v[parent]), start: uint64(v[start]), own: v[utime] + v[stime], waited: v[cutime] + v[cstime],
		tasks: max(v[threads], 1), pages: v[rss],
	}, true
}

// file reads a small file below /proc.
func (t *tree) file(name string) ([]byte, error) {
	fd, err := unix.Openat(t.proc, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := unix.Read(fd, t.buf)
	if err != nil {
		return nil, err
	}
	return t.buf[:n], nil
}

// number parses a decimal number without sign.
func number(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
