package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/ruleset"
)

// Every right of Landlock's ABI 5, which all of ours have in tests.
const everything = 1<<16 - 1

// allowAll is a seccomp filter that allows everything.
var allowAll = []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}

// open is a Spec of a program that may do anything a user may.
func open(argv ...string) cell.Spec {
	return cell.Spec{
		Version: cell.Version, Path: argv[0], Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Cwd: "/",
		Landlock: cell.Landlock{FS: handled(), Rules: []cell.Rule{{Path: "/", Access: handled()}}},
		Filter:   allowAll,
		Watch:    cell.Watch{EveryMS: 10},
	}
}

// handled are the rights that this kernel knows, of everything.
func handled() uint64 {
	for mask := uint64(everything); ; mask >>= 1 {
		if fd, err := ruleset.New(mask, 0, 0); err == nil {
			_ = unix.Close(fd)
			return mask
		}
	}
}

func shell(script string) cell.Spec { return open("/bin/sh", "-c", script) }

// insideSpec runs this test program as inside knows it.
func insideSpec(name string, args ...string) cell.Spec {
	return open(append([]string{mirror, "inside:" + name}, args...)...)
}

// until polls until ok or a deadline: for what other processes do.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// marked returns how many processes have mark on their command line, zombies not
// counted.
func marked(mark string) int { return len(bearers(mark)) }

func bearers(mark string) []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if b, _ := os.ReadFile(name); strings.Contains(string(b), mark) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill ends the one process that bears mark, and waits until it is a zombie.
func kill(t *testing.T, mark string) {
	t.Helper()
	pids := bearers(mark)
	if len(pids) != 1 {
		t.Fatalf("%d processes bear %q", len(pids), mark)
	}
	if err := unix.Kill(pids[0], unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return marked(mark) == 0 })
}

// public is a directory that every user may write.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(built), "public")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }
