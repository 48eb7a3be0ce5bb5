package first

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// Everything that a first process looks at lies in the crib: what leads out of it would be hidden from it.
func TestNothingLeadsOutOfTheCrib(t *testing.T) {
	c, err := NewCrib()
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		t.Skip("UNPROVEN HERE: this machine's programs have no cribs")
	}
	defer func() { _ = unix.Munmap(c.memory) }()
	r := &cell.Room{
		Filter: make([]byte, 4096), Rlimits: []cell.Rlimit{{Resource: 7, Value: 9}}, Watching: cell.Watching{Instances: 1, Watches: 2},
	}
	r.Filter[4095] = 7
	for range 3 { // it is laid anew for each
		made := newProcess(r, Who{UID: 1, GID: 2, LastCap: 40}, os.Stdin, os.Stdout)
		f, err := c.lay(made)
		if err != nil {
			t.Fatal(err)
		}
		begin := uintptr(unsafe.Pointer(&c.memory[0]))
		in := func(what string, p unsafe.Pointer) {
			t.Helper()
			if at := uintptr(p); at < begin || at >= begin+cribRoom {
				t.Errorf("%s lies outside", what)
			}
		}
		in("the process", unsafe.Pointer(f))
		in("the filter", unsafe.Pointer(f.prog.Filter))
		in("the filter's bytes", unsafe.Pointer(&f.filter[0]))
		in("a limit", unsafe.Pointer(&f.rlimits[0]))
		in("the message", unsafe.Pointer(f.message.Iov))
		in("its control", unsafe.Pointer(f.message.Control))
		in("its bytes", unsafe.Pointer(f.iov.Base))
		for i, w := range f.writes {
			if w.path == nil {
				continue
			}
			in("a path", unsafe.Pointer(w.path))
			in("a value", unsafe.Pointer(&w.value[0]))
			if got := unix.BytePtrToString(w.path); got != made.writes[i].name || string(w.value) != string(made.writes[i].value) || w.name != "" {
				t.Errorf("%q, %q", got, w.value)
			}
		}
		if f.filter[4095] != 7 || f.prog.Len != 512 || f.rlimits[0] != made.rlimits[0] || f.lastCap != 40 {
			t.Errorf("%+v", f.rlimits)
		}
	}
	r.Filter = make([]byte, cribSize)
	if _, err := c.lay(newProcess(r, Who{}, os.Stdin, os.Stdout)); err == nil {
		t.Error("more than the crib holds is laid into it")
	}
}

// Go's heap is private memory of the process, the program and the kernel's own pages are not.
func TestPrivate(t *testing.T) {
	for line, want := range map[string]bool{
		"c000000000-c000400000 rw-p 00000000 00:00 0                              [anon: Go: heap]\n": true,
		"7f1000000000-7f1000001000 rw-p 00000000 00:00 0 \n":                                          true,
		"00400000-00500000 r-xp 00000000 00:01 12                                 /memfd:x\n":         false,
		"7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n":          false,
		"7ffd000f0000-7ffd000f2000 r-xp 00000000 00:00 0                          [vdso]\n":           false,
		"7f1000000000-7f1000001000 rw-s 00000000 00:01 7                          /dev/zero\n":        false,
		"nonsense\n":                  false,
		"x-y rw-p 00000000 00:00 0\n": false,
	} {
		if _, _, ok := private(line); ok != want {
			t.Errorf("%q: %v", strings.TrimSpace(line), ok)
		}
	}
}
