package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// watchAll is a program that takes all it can get of file watching and says how
// much it was and what ended it; with "again" so does another while it holds it.
func watchAll(args []string) int {
	const far = 500 // more than the tests allow
	var first int
	var err error
	n := 0
	for ; n < far; n++ {
		var fd int
		if fd, err = unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
			break
		}
		if n == 0 {
			first = fd
		}
	}
	fmt.Printf("%d instances: %v\n", n, err)
	if n > 0 {
		n, err = 0, nil
		for ; n < far && err == nil; n++ {
			dir := "w" + strconv.Itoa(n)
			if err = os.Mkdir(dir, 0o755); err == nil || errors.Is(err, os.ErrExist) {
				_, err = unix.InotifyAddWatch(first, dir, unix.IN_CREATE)
			}
		}
		fmt.Printf("%d watches: %v\n", n-1, err)
	}
	if args[0] == "again" {
		c := exec.Command("/proc/self/exe", "inside:watch", "once")
		c.Stdout = os.Stdout
		if err := c.Run(); err != nil {
			fmt.Println(err)
		}
	}
	return 0
}

// What a room watches ends at its bound, for all its processes together.
func TestWatchingIsBounded(t *testing.T) {
	machineLimits(t)
	eachRoom(t, func(t *testing.T, w who) {
		r := plain(workspace(t, w))
		r.ReadOnly, r.Watching = []string{"/proc/sys"}, cell.Watching{Instances: 5, Watches: 40}
		h, _ := inhabit(t, w, r)
		s := insideSpec("watch", "again")
		s.Cwd = r.Workspace
		const want = "5 instances: too many open files\n40 watches: no space left on device\n0 instances: too many open files\n"
		if out, _ := h.runs(s); out != want {
			t.Errorf("%q", out)
		}
	})
}

// A bound above what the machine allows raises nothing.
func TestWatchingIsNeverRaised(t *testing.T) {
	b, err := os.ReadFile(cell.InstancesPath)
	if err != nil {
		t.Skip("UNPROVEN HERE: ", err)
	}
	host, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || host >= 400 {
		t.Skip("UNPROVEN HERE: the machine allows too many to count: ", string(b))
	}
	eachRoom(t, func(t *testing.T, w who) {
		r := plain(workspace(t, w))
		r.Watching = cell.Watching{Instances: 1 << 30, Watches: 40}
		h, _ := inhabit(t, w, r)
		s := insideSpec("watch", "once")
		s.Cwd = r.Workspace
		out, _ := h.runs(s)
		var n int
		if _, err := fmt.Sscanf(out, "%d instances: too many open files", &n); err != nil || n > host {
			t.Errorf("%q, and the machine allows %d", out, host)
		}
	})
}
