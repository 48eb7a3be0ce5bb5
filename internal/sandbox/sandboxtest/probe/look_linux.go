package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// lookOps see what is there.
func lookOps() map[string]operation {
	return map[string]operation{
		"sees":    {2, sees},
		"strange": {2, strange},
		"content": {1, content},
		"finds":   {2, finds},
		"target":  {1, func(a []string) (string, error) { return os.Readlink(a[0]) }},
		"leave":   {2, leaveFile},
		"fsync":   {1, durable},
		"bind":    {2, bindMount},
		"tmpfile": {2, tmpFile},
		"mapped":  {1, mapped},
		"append":  {2, appendTo},
	}
}

// sees succeeds when a directory has a name in it.
func sees(a []string) (string, error) {
	all, err := list(a[:1])
	if err != nil {
		return "", err
	}
	if !slices.Contains(strings.Split(all, "\n"), a[1]) {
		return "", unix.ENOENT
	}
	return a[1], nil
}

// strange succeeds when a directory has anything else in it than the names of a list with commas.
func strange(a []string) (string, error) {
	all, err := list(a[:1])
	if err != nil {
		return "", err
	}
	known := strings.Split(a[1], ",")
	odd := slices.DeleteFunc(strings.Fields(all), func(name string) bool { return slices.Contains(known, name) })
	if len(odd) == 0 {
		return "", unix.ENOENT
	}
	return strings.Join(odd, " "), nil
}

// content succeeds when there is something to read in a file.
func content(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), a[0])
	defer func() { _ = f.Close() }()
	b := make([]byte, 64)
	n, err := f.Read(b)
	if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
		return "", unix.ENODATA
	}
	return string(b[:n]), err
}

// finds succeeds when a file holds a text.
func finds(a []string) (string, error) {
	b, err := os.ReadFile(a[0])
	if err == nil && !strings.Contains(string(b), a[1]) {
		err = unix.ENODATA
	}
	return a[1], err
}

// leaveFile makes a file with a text and leaves it there.
func leaveFile(a []string) (string, error) {
	return "", os.WriteFile(a[0], []byte(a[1]), 0o644)
}

func appendTo(a []string) (string, error) {
	f, err := os.OpenFile(a[0], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	_, err = f.WriteString(a[1])
	return "", err
}

// durable is what databases do with their files.
func durable(a []string) (string, error) {
	f, err := os.OpenFile(a[0], os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _, _ = f.Close(), os.Remove(a[0]) }()
	if _, err := f.WriteString("x"); err != nil {
		return "", err
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return "", err
	}
	return "", f.Sync()
}

// bindMount makes one directory appear at another.
func bindMount(a []string) (string, error) {
	if err := unix.Mount(a[0], a[1], "", unix.MS_BIND, ""); err != nil {
		return "", err
	}
	return "", unix.Unmount(a[1], unix.MNT_DETACH)
}

// tmpFile makes a file without a name in a directory and gives it one.
func tmpFile(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o755)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), a[0])
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString("#!/bin/sh\n"); err != nil {
		return "", err
	}
	return "", unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+itoa(fd), unix.AT_FDCWD, a[1], unix.AT_SYMLINK_FOLLOW)
}

// mapped changes the first byte of a file through memory.
func mapped(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	b, err := unix.Mmap(fd, 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return "", err
	}
	b[0] = '!'
	return "", unix.Munmap(b)
}
