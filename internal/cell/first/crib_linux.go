package first

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Crib is the memory of a template that the first processes of its rooms get: what they must know, and a stack. Of the
// template's own memory, which is Go's heap and what belongs to it, they get nothing where they can live off a crib: to copy
// its page tables, and each page again that the template writes to, would be a sixth of what a room costs.
type Crib struct {
	memory []byte
	used   uintptr
	forks  int
}

const (
	cribSize   = 256 << 10
	cribStack  = 32 << 10 // at its end; the linker bounds what they take to a fraction of that
	cribTLS    = 256      // zeros above it, in which the child finds no variables of a thread
	cribRoom   = cribSize - cribStack - cribTLS
	hideAgain  = 64      // forks after which the template's memory is looked through once more: it may have grown
	firstOfTop = 1 << 32 // the program itself, with its variables, lies below
)

// NewCrib makes one; nil: this machine's programs cannot live off one.
func NewCrib() (*Crib, error) {
	if !cribs {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, cribSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("first: memory: %w", err)
	}
	return &Crib{memory: b}, nil
}

// hide has the kernel give children nothing of the memory that is only this process's.
func (c *Crib) hide() error {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	own := uintptr(unsafe.Pointer(&c.memory[0]))
	for line := range strings.Lines(string(text)) {
		start, end, ok := private(line)
		if !ok || start < firstOfTop || start < own+cribSize && own < end {
			continue
		}
		if _, _, e := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTFORK); e != 0 {
			return e
		}
	}
	return nil
}

// private reads a line of /proc/self/maps; false: it is no memory of the process's own.
func private(line string) (start, end uintptr, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 || f[1][3] != 'p' || f[4] != "0" || len(f) > 5 && !strings.HasPrefix(f[5], "[anon:") {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	a, err1 := strconv.ParseUint(from, 16, 64)
	b, err2 := strconv.ParseUint(to, 16, 64)
	return uintptr(a), uintptr(b), errors.Join(err1, err2) == nil && a < b && b < math.MaxInt64
}

// take returns so many bytes of the crib.
func (c *Crib) take(size uintptr) (unsafe.Pointer, error) {
	const align = 16
	at := (c.used + align - 1) &^ (align - 1)
	if size > cribRoom || at+size > cribRoom {
		return nil, unix.ENOMEM
	}
	c.used = at + size
	return unsafe.Pointer(&c.memory[at]), nil
}

// list copies a slice into the crib.
func list[T any](c *Crib, from []T) ([]T, error) {
	if len(from) == 0 {
		return nil, nil
	}
	var one T
	at, err := c.take(unsafe.Sizeof(one) * uintptr(len(from)))
	if err != nil {
		return nil, err
	}
	to := unsafe.Slice((*T)(at), len(from))
	copy(to, from)
	return to, nil
}

// lay puts what a first process must know into the crib, in which nothing leads out of it.
func (c *Crib) lay(f *process) (*process, error) {
	c.used = 0
	all, err := list(c, []process{*f})
	if err != nil {
		return nil, err
	}
	to := &all[0]
	if to.writes, err = list(c, f.writes); err != nil {
		return nil, err
	}
	for i := range to.writes {
		w := &to.writes[i]
		if w.path != nil {
			path, err := list(c, append([]byte(w.name), 0))
			if err != nil {
				return nil, err
			}
			w.path, w.name = &path[0], ""
		}
		if w.value, err = list(c, w.value); err != nil {
			return nil, err
		}
	}
	if to.rlimits, err = list(c, f.rlimits); err != nil {
		return nil, err
	}
	if to.filter, err = list(c, f.filter); err != nil {
		return nil, err
	}
	to.point()
	return to, nil
}

// fork makes the first process of a room off the crib.
func (c *Crib) fork(f *process, spaces uintptr) (pid int, err error) {
	f, top, err := c.ready(f)
	if err != nil {
		return 0, err
	}
	return forked(func() uintptr { return divide(f, spaces|uintptr(unix.SIGCHLD), top) })
}

// launcher makes a launcher off the crib, so that there is little to take down when it becomes the program.
func (c *Crib) launcher(f *process) (pid int, err error) {
	f, top, err := c.ready(f)
	if err != nil {
		return 0, err
	}
	return forked(func() uintptr { return divideInto(f, top) })
}

// ready lays a process into the crib, and returns where its stack begins.
func (c *Crib) ready(f *process) (laid *process, top uintptr, err error) {
	if c.forks%hideAgain == 0 {
		if err := c.hide(); err != nil {
			return nil, 0, fmt.Errorf("first: memory: %w", err)
		}
	}
	c.forks++
	if laid, err = c.lay(f); err != nil {
		return nil, 0, fmt.Errorf("first: crib: %w", err)
	}
	return laid, uintptr(unsafe.Pointer(&c.memory[0])) + cribSize - cribTLS, nil
}
