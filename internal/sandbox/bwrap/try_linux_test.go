package bwrap

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/celltest"
)

// TestRunWithinEndsWhatItStarted: a command that is given up is waited for no longer because
// a child of its own holds its output open, and that child is ended too.
func TestRunWithinEndsWhatItStarted(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var out clipped
	ctx, cancel := context.WithCancel(t.Context())
	cmd := &exec.Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 600 & echo $! >&3; wait"}, Env: []string{"PATH=/usr/bin:/bin"},
		Dir: "/", Stdout: &out, ExtraFiles: []*os.File{w},
	}
	child := make(chan int, 1)
	go func() {
		line, _ := bufio.NewReader(r).ReadString('\n')
		pid, _ := strconv.Atoi(strings.TrimSpace(line))
		child <- pid
		cancel()
	}()
	ended := make(chan error, 1)
	go func() { ended <- runWithin(ctx, cmd) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("what the command left is waited for")
	}
	_ = w.Close()
	awaitGone(t, <-child)
}

// What a command leaves is ended with it, while nobody else can have its number.
func TestRunWithinLeavesNothing(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var out clipped
	err = runWithin(t.Context(), &exec.Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 600 & echo $! >&3; echo said"}, Env: []string{"PATH=/usr/bin:/bin"},
		Dir: "/", Stdout: &out, ExtraFiles: []*os.File{w},
	})
	_ = w.Close()
	line, _ := bufio.NewReader(r).ReadString('\n')
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid == 0 {
		t.Errorf("%v, %q", err, line)
	}
	awaitGone(t, pid)
}

// awaitGone waits for the end of a process.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	celltest.Until(t, "the child to end", func() bool {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		st, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		_, state, _ := strings.Cut(string(st), ") ")
		return err != nil || strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
	})
}
