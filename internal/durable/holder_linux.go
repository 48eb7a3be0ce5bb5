package durable

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// holds reports whether the system's list of locks has one of this process on
// this file. A list of another namespace, which is what /proc shows to who was given
// only new numbers, names others by numbers that are somebody else's here.
func holds(pid int, f *os.File) bool {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return false
	}
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	device, err := deviceOf(f)
	if err != nil {
		return false
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return false
	}
	defer func() { _ = locks.Close() }()
	return listed(locks, pid, device, st.Ino)
}

// listed looks a lock up: of a process, on a file of a device. Numbers of processes
// are those of the namespace that the list is read in; of others there is no line.
func listed(locks io.Reader, pid int, device string, inode uint64) bool {
	lines := bufio.NewScanner(locks)
	for lines.Scan() {
		// 1: FLOCK  ADVISORY  WRITE 1234 fe:00:56789 0 EOF
		w := strings.Fields(lines.Text())
		if len(w) >= 6 && w[1] == "FLOCK" && w[3] == "WRITE" && w[4] == strconv.Itoa(pid) && w[5] == device+":"+strconv.FormatUint(inode, 10) {
			return true
		}
	}
	return false
}

// deviceOf returns the device of the file system that an open file is on, as the list of locks has it. That is the
// mount's: what stat says is another number on file systems that have several, as btrfs and overlays do.
func deviceOf(f *os.File) (string, error) {
	id, err := field(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()), func(w []string) (string, bool) {
		return w[len(w)-1], w[0] == "mnt_id:"
	})
	if err != nil {
		return "", err
	}
	pair, err := field("/proc/self/mountinfo", func(w []string) (string, bool) { // 36 35 98:0 /root /mnt …
		return w[min(2, len(w)-1)], w[0] == id
	})
	if err != nil {
		return "", err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(pair, "%d:%d", &major, &minor); err != nil {
		return "", fmt.Errorf("durable: device: %w", err)
	}
	return fmt.Sprintf("%02x:%02x", major, minor), nil
}

// field finds a line of a file by its words and returns what is wanted of it.
func field(path string, pick func(words []string) (string, bool)) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("durable: device: %w", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if w := strings.Fields(lines.Text()); len(w) > 0 {
			if s, ok := pick(w); ok {
				return s, nil
			}
		}
	}
	return "", fmt.Errorf("durable: device: %s does not say", path)
}
