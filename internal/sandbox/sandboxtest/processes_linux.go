package sandboxtest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// neighbour is a process outside, of the same user.
type neighbour struct {
	pid   string
	cmd   *exec.Cmd
	lines *bufio.Reader
}

// neighbour starts one with a secret in its environment and arguments.
func (b *bench) neighbour(t *testing.T) *neighbour {
	t.Helper()
	cmd := exec.Command(b.tool, "planted", b.secret)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{"SECRET=" + b.secret}, b.outside, b.who.credential()
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _, _ = io.Copy(io.Discard, out); _ = cmd.Wait() })
	n := &neighbour{strconv.Itoa(cmd.Process.Pid), cmd, bufio.NewReader(out)}
	if got := n.line(t); got != "ready" {
		t.Fatalf("the neighbour says %q", got)
	}
	return n
}

func (n *neighbour) line(t *testing.T) string {
	t.Helper()
	s, err := n.lines.ReadString('\n')
	check(t, err)
	return strings.Trim(s, "\"\n")
}

// markSignal is one of ours: the kernel and the Go runtime deliver the lower
// numbers first, so what was sent before it has arrived when it has.
const markSignal = syscall.Signal(40)

// heard returns the signals that reached it up to now: what stands before one that we send. It asks twice, for two
// threads may hand over two signals in either order.
func (n *neighbour) heard(t *testing.T) []string {
	t.Helper()
	var all []string
	for range 2 {
		check(t, n.cmd.Process.Signal(markSignal))
		for s := n.line(t); s != markSignal.String(); s = n.line(t) {
			all = append(all, s)
		}
	}
	return all
}

func processes(t *testing.T, b *bench) {
	n := b.neighbour(t)
	secret := b.outside + "/secret"
	b.deny(t, []denial{
		{"trace a process", "ptrace " + n.pid, "", works},
		{"read memory of a process", "vmread " + n.pid, "", works},
		{"take a descriptor of a process", "pidfdget " + n.pid, "", works},
		{"open memory of a process", "procmem " + n.pid, "", works},
		{"read the environment of a process", "proc " + n.pid + " environ", "", works},
		{"read the arguments of a process", "proc " + n.pid + " cmdline", "", works},
		{"read the maps of a process", "proc " + n.pid + " maps", "", works},
		{"go through the root of a process", "procroot " + n.pid + " " + secret, "", works},
		{"go through the directory of a process", "proccwd " + n.pid + " secret", "", works},
		{"find a secret in any process", "scan " + b.secret, "", works},
		{"change limits of a process", "prlimit " + n.pid, "", works},
		{"change the processors of a process", "affinity " + n.pid, "", works},
		{"change the scheduler of a process", "scheduler " + n.pid, "", works},
		{"change the priority of a process", "renice " + n.pid, "", works},
		{"change the I/O priority of a process", "ioprio " + n.pid, "", works},
		{"read the environment of the suite", "proc " + strconv.Itoa(os.Getpid()) + " environ", "", differs},
		{"open memory of the suite", "procmem " + strconv.Itoa(os.Getpid()), "", differs},
		// whose it is, is not ours to say
		{"read the environment of the suite's parent", "proc " + strconv.Itoa(os.Getppid()) + " environ", "", unshown},
	})
	b.deny(t, keeperOf())
}

// keeperOf returns attempts on the process that watches over the program.
func keeperOf() []denial {
	return []denial{
		{"signal its keeper", "kill parent 0", "", differs},
		{"trace its keeper", "ptrace parent", "", differs},
		{"read memory of its keeper", "vmread parent", "", differs},
		{"change limits of its keeper", "prlimit parent", "", differs},
		{"change the processors of its keeper", "affinity parent", "", differs},
		{"change the priority of its keeper", "renice parent", "", unshown}, // outside it would slow the suite
	}
}

// signals: no way of sending one may reach the outside. Some succeed inside by
// reaching nobody, so the neighbour is asked, not the errno.
func signals(t *testing.T, b *bench) {
	n := b.neighbour(t)
	winch := " " + strconv.Itoa(int(unix.SIGWINCH)) // nobody minds it
	ways := []string{
		"kill " + n.pid + winch, "tgkill " + n.pid + winch, "pidfd " + n.pid + winch, "sigio " + n.pid + winch, "broadcast" + winch,
	}
	for i, v := range b.inside(t, ways)[:3] {
		if v.Errno == "" {
			t.Errorf("%s: succeeds inside", ways[i])
		}
	}
	if got := n.heard(t); len(got) > 0 {
		t.Errorf("of %q sent inside the neighbour heard %q", ways, got)
	}
	for _, way := range ways {
		if b.who.uid == 0 && strings.HasPrefix(way, "broadcast") {
			continue // it would reach every process of the host
		}
		if v := b.outsideAs(t, b.who, []string{way})[0]; v.Errno != "" {
			t.Errorf("control: %s: %s", way, v.Error)
		}
		eventually(t, "control: "+way+" reaches the neighbour", func() bool { return len(n.heard(t)) > 0 })
	}
	b.deny(t, []denial{
		{"signal the suite", "kill " + strconv.Itoa(os.Getpid()) + " 0", "", differs},
		{"signal the suite's group", "kill -" + strconv.Itoa(unix.Getpgrp()) + " 0", "", differs},
		{"signal the first process", "kill 1 0", "", differsRoot},
	})
}
