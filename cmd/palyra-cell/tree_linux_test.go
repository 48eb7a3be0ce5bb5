package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const line = "4242 (a) b (c)) S 17 4242 4242 34816 4242 4194304 1 2 3 4 50 60 70 80 20 0 9 0 123456 1000 77 18446744073709551615 1"
	p, ok := parseStat([]byte(line))
	if want := (process{parent: 17, start: 123456, own: 110, waited: 150, tasks: 9, pages: 77}); !ok || p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
	for _, bad := range []string{
		"", "1", "1 (x", "1 (x)", "1 (x) S 1 2 3",
		"1 (x) S -1 4242 4242 34816 4242 4194304 1 2 3 4 50 60 70 80 20 0 9 0 123456 1000 77",
	} {
		if p, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add([]byte("1 (x)) S 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(b); ok && (p.own < 0 || p.tasks < 1 || p.parent < 0 || p.pages < 0) {
			t.Errorf("%q: %+v", b, p)
		}
	})
}

func FuzzEntries(f *testing.F) {
	entry := func(inode uint64, size uint16, name string) []byte {
		b := binary.NativeEndian.AppendUint64(nil, inode)
		b = binary.NativeEndian.AppendUint64(b, 1)
		b = append(binary.NativeEndian.AppendUint16(b, size), 4)
		return append(append(b, name...), 0)
	}
	f.Add(append(entry(7, 24, "1234"), entry(8, 24, "self")...))
	f.Add(entry(7, 0, "1"))
	f.Add(entry(7, 65535, "1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := map[int]uint64{}
		entries(b, got)
		for pid := range got {
			if pid <= 0 {
				t.Errorf("%q: %d", b, pid)
			}
		}
	})
}

func TestKinship(t *testing.T) {
	tr := &tree{root: 10, strangers: map[int]uint64{5: 1}}
	seen := map[int]process{
		11: {pid: 11, parent: 10, start: 5}, 12: {pid: 12, parent: 11, start: 6}, 13: {pid: 13, parent: 12, start: 2},
		20: {pid: 20, parent: 5, start: 9}, 21: {pid: 21, parent: 20, start: 9}, 2: {pid: 2, start: 1}, 30: {pid: 30, parent: 99, start: 9},
		40: {pid: 40, parent: 41, start: 1}, 41: {pid: 41, parent: 40, start: 1},
	}
	for pid, want := range map[int]kinship{
		11: member, 12: member, 20: stranger, 21: stranger, 2: stranger,
		13: unclear, // its parent is younger: someone else by now
		30: unclear, // its parent was gone before it was read
		40: unclear, // no such thing
	} {
		if got := tr.belongs(seen[pid], seen); got != want {
			t.Errorf("%d: %d, want %d", pid, got, want)
		}
	}
}

// A walk finds what descends from the root, again and again, and learns whom it
// need not read: everyone else.
func TestWalk(t *testing.T) {
	mark := "97" + strconv.Itoa(os.Getpid()) + "11"
	c := exec.Command("/bin/sh", "-c", "sleep "+mark+" & sleep "+mark+" & wait")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(-c.Process.Pid, unix.SIGKILL); _ = c.Wait() })
	until(t, "two sleeps", func() bool { return marked("sleep\x00"+mark) == 2 })
	tr, err := newTree(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		members, err := tr.walk()
		if err != nil || len(members) != 2 || members[0].parent != c.Process.Pid {
			t.Fatalf("%+v, %v", members, err)
		}
	}
	if _, ok := tr.strangers[os.Getpid()]; !ok {
		t.Error("its own parent is no stranger yet")
	}
	tr.strangers[unix.Getpid()] = 1 // someone who had the number before
	if _, err := tr.walk(); err != nil || tr.strangers[os.Getpid()] == 1 {
		t.Errorf("a number that was given away is still a stranger's: %v", err)
	}
	if !tr.each(unix.SIGTERM, map[int]uint64{}) {
		t.Error("nobody could be signalled")
	}
	until(t, "the end of both", func() bool { return marked("sleep\x00"+mark) == 0 })
}

// The number of a process that ended must not get its successor killed.
func TestSignalChecksWhoItIs(t *testing.T) {
	tr, err := newTree(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	p, ok := tr.read(c.Process.Pid)
	if !ok {
		t.Fatal("not there")
	}
	other := p
	other.start++
	if tr.signal(other, unix.SIGKILL) {
		t.Error("signalled someone else under the same number")
	}
	if !tr.signal(p, 0) {
		t.Error("the process itself is out of reach")
	}
}
