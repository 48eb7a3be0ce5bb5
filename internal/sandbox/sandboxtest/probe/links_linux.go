package main

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// linkOps are the ways around a path: other names for what lies outside. The
// first argument is the target, the second a name in the workspace.
func linkOps() map[string]operation {
	return map[string]operation{
		"hardlink": {2, hardlink},
		"symlink":  {2, symlink},
		"rename":   {2, func(a []string) (string, error) { return "", unix.Rename(a[0], a[1]) }},
		"exchange": {2, exchange},
		"readat":   {2, readAt},
		"fdlink":   {2, fdLink},
		"opath":    {1, opath},
		"dotdot":   {2, dotdot},
		"swap":     {2, swap},
	}
}

func hardlink(a []string) (string, error) {
	if err := unix.Link(a[0], a[1]); err != nil {
		return "", err
	}
	defer func() { _ = unix.Unlink(a[1]) }()
	return readSome(os.Open(a[1]))
}

func symlink(a []string) (string, error) {
	if err := unix.Symlink(a[0], a[1]); err != nil {
		return "", err
	}
	defer func() { _ = unix.Unlink(a[1]) }()
	return readSome(os.Open(a[1]))
}

func exchange(a []string) (string, error) {
	return "", unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
}

// readAt opens a[1] from a descriptor of the directory a[0].
func readAt(a []string) (string, error) {
	dir, err := unix.Open(a[0], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := unix.Openat(dir, a[1], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	return readSome(os.NewFile(uintptr(fd), a[1]), nil)
}

// fdLink opens a[1] through /proc/self/fd of the directory a[0].
func fdLink(a []string) (string, error) {
	dir, err := unix.Open(a[0], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(dir) }()
	return readSome(os.Open("/proc/self/fd/" + strconv.Itoa(dir) + "/" + a[1]))
}

// opath holds a file that it may not read and opens it again by its descriptor.
func opath(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	return readSome(os.Open("/proc/self/fd/" + strconv.Itoa(fd)))
}

// dotdot climbs from a[0] to the root by ".." and down to a[1].
func dotdot(a []string) (string, error) {
	return readSome(os.Open(a[0] + strings.Repeat("/..", 40) + a[1]))
}

// swap reads a name in the workspace while it is being changed between a directory of its own and a link to the
// directory of the target, a[0]; a[1] is the name. Any read that gives the target's content is a success.
func swap(a []string) (string, error) {
	i := strings.LastIndexByte(a[0], '/')
	dir, base := a[0][:i], a[0][i+1:]
	own, link := a[1]+".own", a[1]+".link"
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", err
	}
	if err := unix.Symlink(dir, link); err != nil {
		return "", err
	}
	if err := os.WriteFile(own+"/"+base, nil, 0o600); err != nil {
		return "", err
	}
	defer func() { _, _ = os.RemoveAll(own), os.Remove(link) }()
	stop := make(chan struct{})
	done := make(chan struct{})
	var swaps atomic.Int64
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, own, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
				swaps.Add(1)
			}
		}
	}()
	got, err := "", error(unix.EACCES)
	for n := 0; n < 2000 || swaps.Load() < 2000 && n < 2_000_000; n++ { // the other thread may have to wait for its turn
		name := link
		if n%2 == 1 { // one of the two is the link, whichever way the exchanges and the reads fall into step
			name = own
		}
		if got, _ = readSome(os.Open(name + "/" + base)); got != "" {
			err = nil
			break
		}
	}
	close(stop)
	<-done
	if t, e := os.Readlink(own); e == nil && t != "" { // leave the names as they were
		_ = unix.Renameat2(unix.AT_FDCWD, own, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
	}
	return got, err
}
