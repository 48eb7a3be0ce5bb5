package cells

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// Enclose puts the first process of a room, which its body names, into the keeper's cgroups of v2. Nobody but the daemon ever
// has a descriptor that could move a process into or out of them: the process is moved from here, though the kernel may
// take a while for that; it has done nothing yet for which that matters. lives reports whether the process is still
// there: one that is not has given its number back, and whoever has it now is taken out of there again.
func (k *Keeper) Enclose(lives func() bool) error {
	if k.Group == nil || k.Group.Version == 1 {
		return nil
	}
	pid := strconv.Itoa(k.Body.Pid())
	const name = "cgroup.procs"
	for _, d := range k.Group.Dirs() {
		if err := set(k.Group.file(d, name), pid); err != nil {
			return err
		}
	}
	if lives() {
		return nil
	}
	for _, d := range k.Group.Dirs() {
		_ = setIfThere(filepath.Join(filepath.Dir(d), name), pid) // mostly there is nobody of that number
	}
	return ErrStale
}

// Ways are descriptors by which the first process of a room of uid enters the keeper's cgroups of v1 itself: of a thread
// that another one moves the kernel waits for a grace period. They are opened as uid: whoever takes them from the process,
// as its user can, moves processes of that user by them, and of nobody else. The caller closes them.
func (k *Keeper) Ways(uid int64) (ways []int, err error) {
	if k.Group == nil || k.Group.Version != 1 {
		return nil, nil
	}
	open := func() {
		for _, d := range k.Group.Dirs() {
			var fd int
			if fd, err = unix.Open(k.Group.file(d, "tasks"), unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
				return
			}
			ways = append(ways, fd)
		}
	}
	if int64(os.Geteuid()) == uid {
		open()
	} else {
		onThread(func() {
			if err = seem(uid); err == nil {
				open()
			}
		})
	}
	if err != nil {
		CloseWays(ways)
		return nil, fmt.Errorf("cells: cgroup: open tasks as uid %d: %w", uid, err)
	}
	return ways, nil
}

// CloseWays closes what Ways returned.
func CloseWays(ways []int) {
	for _, fd := range ways {
		_ = unix.Close(fd)
	}
}

// Account completes the last report of a room by what its cgroups counted, and names the limit that they held.
func (k *Keeper) Account(r *cell.Report) {
	if k.Group == nil {
		return
	}
	c := k.counters
	if n, ok := k.counter(c.PeakBytes, ""); ok {
		r.Usage.PeakMemory = n
	}
	if n, ok := k.counter(c.CPUNanos, ""); ok {
		r.Usage.CPUMS = n / 1_000_000
	} else if n, ok := k.counter(c.CPUMicros, "usage_usec"); ok {
		r.Usage.CPUMS = n / 1000
	}
	if r.Limit != "" || r.Stopped != "" {
		return
	}
	if n, ok := k.counter(c.OOM, "oom_kill"); ok && n > 0 {
		r.Limit = "memory"
	} else if n, ok := k.counter(c.PidsMax, "max"); ok && n > 0 {
		r.Limit = "processes"
	}
}

// counter reads the number in a file of the group, or the one behind name.
func (k *Keeper) counter(path, name string) (int64, bool) {
	if path == "" {
		return 0, false
	}
	var buf [4096]byte
	n, err := 0, error(nil)
	if i := slices.IndexFunc(k.counts, func(f *os.File) bool { return f.Name() == path }); i >= 0 {
		n, err = k.counts[i].ReadAt(buf[:], 0)
	} else {
		n, err = readOnce(path, buf[:])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false
	}
	text := string(buf[:n])
	if name != "" {
		_, rest, found := strings.Cut("\n"+text, "\n"+name+" ")
		if !found {
			return 0, false
		}
		text, _, _ = strings.Cut(rest, "\n")
	}
	v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return v, err == nil
}

// readOnce reads the beginning of a file.
func readOnce(path string, b []byte) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Read(fd, b)
}
