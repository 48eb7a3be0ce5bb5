package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// children of a process.
func children(t *testing.T, pid int) (all []int) {
	t.Helper()
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, name := range tasks {
		b, _ := os.ReadFile(name)
		for _, f := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(f)
			all = append(all, n)
		}
	}
	return all
}

// only is the one child of a process.
func only(t *testing.T, pid int) int {
	t.Helper()
	all := children(t, pid)
	if len(all) != 1 {
		t.Fatalf("%d has children %v", pid, all)
	}
	return all[0]
}

// threads are the statuses of all threads of a process.
func threads(t *testing.T, pid int) (all []map[string]string) {
	t.Helper()
	names, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/status")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil {
			all = append(all, status(string(b)))
		}
	}
	if len(all) == 0 {
		t.Fatalf("%d has no threads", pid)
	}
	return all
}

const noneOf = "0000000000000000"

// powerless: no thread of a process has a capability or can get one, and all are
// filtered.
func powerless(t *testing.T, what string, pid int, filters string, sets ...string) {
	t.Helper()
	for _, s := range threads(t, pid) {
		for _, set := range append(sets, "CapInh", "CapPrm", "CapEff", "CapAmb") {
			if s[set] != noneOf {
				t.Errorf("%s, thread %s: %s is %s", what, s["Pid"], set, s[set])
			}
		}
		if s["NoNewPrivs"] != "1" || s["Seccomp_filters"] != filters {
			t.Errorf("%s, thread %s: NoNewPrivs %s, %s filters", what, s["Pid"], s["NoNewPrivs"], s["Seccomp_filters"])
		}
	}
}

// allowOnly assembles a filter under which anything but the given calls is the end.
func allowOnly(calls []uint32) []byte {
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}}
	for _, nr := range calls {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS})
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(code)*8)...)
}

// Who waits in a room has no power left but what the launcher needs to cover a
// path; who runs there has none at all.
func TestPowerless(t *testing.T) {
	for name, filter := range map[string][]byte{"0": nil, "1": allowAll} {
		t.Run(name, func(t *testing.T) {
			eachRoom(t, func(t *testing.T, w who) {
				r := plain(workspace(t, w))
				r.Filter = filter
				h, _ := room(t, w, r)
				first := only(t, h.cmd.Process.Pid)
				powerless(t, "process 1", first, name)
				launcher := only(t, first)
				until(t, "a launcher that waits", func() bool {
					b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", launcher))
					s := status(string(b))
					return s["CapEff"] == "0000000000200000" && s["CapPrm"] == s["CapEff"] && s["CapInh"] == noneOf && s["CapAmb"] == noneOf &&
						s["CapBnd"] == noneOf
				})
				h.order(shell("echo ready; read x"))
				h.expect(cell.ReportStarted)
				powerless(t, "process 1", first, name)
				powerless(t, "the program", only(t, first), "1", "CapBnd")
				_ = h.stdin.Close()
				h.expect(cell.ReportExited)
				h.expect(cell.ReportEnded)
			})
		})
	}
}

// A cell makes no system call that Calls does not name, once its room is built:
// here any other would kill it.
func TestCalls(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		r := plain(workspace(t, w))
		r.Filter = allowOnly(cell.Calls())
		for range 3 {
			h, _ := room(t, w, r)
			s := shell("trap 'go=1' USR1; for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; : > ready; while [ -z $go ]; do sleep 0.01; " +
				"done; exec " + mirror + " inside:hog 400 seen")
			h.send(cell.Order{Kind: cell.OrderPrepare}, int(specFile(t, s).Fd()))
			s.Cwd, s.Watch = r.Workspace, cell.Watch{EveryMS: 5, Memory: 64 << 20, Processes: 1000, CPUMS: 60_000}
			h.order(s)
			h.expect(cell.ReportStarted)
			ready := filepath.Join(r.Workspace, "ready")
			until(t, "ready", func() bool { return os.Remove(ready) == nil })
			h.send(cell.Order{Kind: cell.OrderSignal, Signal: int(unix.SIGUSR1)})
			h.expect(cell.ReportExited)
			if ended := h.expect(cell.ReportEnded); ended.Limit != "memory" || ended.Usage.PeakMemory < 64<<20 {
				t.Errorf("%+v", ended)
			}
			if code := h.code(); code != 0 {
				t.Errorf("the cell ended with %d", code)
			}
		}
	})
}

// Nothing that runs in a room gets at its process 1: not by signals, not by /proc.
func TestProcessOneIsOutOfReach(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		h, _ := room(t, w, plain(workspace(t, w)))
		out, _ := h.runs(insideSpec("reach"))
		if out != "tried\n" {
			t.Errorf("%s", out)
		}
		h, _ = room(t, w, plain(workspace(t, w)))
		out, _ = h.runs(shell(`for s in KILL STOP TERM HUP; do kill -$s 1 2>/dev/null; done
			for f in environ mem maps stack syscall fd/3 exe; do if [ -n "$(head -c 1 /proc/1/$f 2>/dev/null)" ]; then echo WORKED: $f; fi; done
			for f in root/usr cwd/usr exe fd/0 fd/3 task/1/fd/3 ns/mnt ns/net task/1/ns/mnt; do if ls -dL /proc/1/$f >/dev/null 2>&1; then echo WORKED: $f; fi; done
			tr '\0' ' ' </proc/1/cmdline; echo; echo alive`))
		if out != "/proc/self/fd/4 inside test-mark \nalive\n" {
			t.Errorf("%q", out)
		}
	})
}

// sleepers start processes that stay by every means, each with mark on its command
// line.
func sleepers(mark string) string {
	return `trap "" TERM HUP INT
(trap "" TERM HUP INT; setsid sleep ` + mark + ` &) &
(setsid sh -c 'trap "" TERM; sleep ` + mark + `; sleep ` + mark + `' &) &
nohup sleep ` + mark + ` >/dev/null 2>&1 &
sleep ` + mark + ` &
`
}

// Whoever stays behind is ended, whatever he does to stay, before Ended is said.
func TestNobodySurvives(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		mark := "98765." + strconv.Itoa(os.Getpid()) + strconv.Itoa(w.uid)
		h, _ := room(t, w, plain(workspace(t, w)))
		h.order(shell(sleepers(mark) + "sleep 0.1; echo done"))
		h.expect(cell.ReportStarted)
		h.expect(cell.ReportExited)
		ended := h.expect(cell.ReportEnded)
		if n := marked(mark); n != 0 || ended.Killed == 0 {
			t.Errorf("%d are left, %d were killed", n, ended.Killed)
		}
		if code := h.code(); code != 0 {
			t.Errorf("the cell ended with %d", code)
		}
	})
}

// When the daemon goes, whatever is there of the room goes: before it is built,
// while it waits, and while something runs.
func TestTheRoomEndsWithItsDaemon(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w)
		conn, c, _ := enterRoom(t, w, dir)
		_ = conn.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("before a room: %v", err)
		}
		h, _ := room(t, w, plain(dir))
		_ = h.conn.Close()
		_ = h.cmd.Wait()
		mark := "98764." + strconv.Itoa(os.Getpid()) + strconv.Itoa(w.uid)
		h, _ = room(t, w, plain(dir))
		h.order(shell(sleepers(mark) + "sleep " + mark))
		h.expect(cell.ReportStarted)
		until(t, "sleepers", func() bool { return marked(mark) >= 5 })
		_ = h.conn.Close()
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("running: %v", err)
		}
		if n := marked(mark); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// A daemon in a hurry sends the run behind the room, and need not wait between.
func TestRoomAndRunAtOnce(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w)
		conn, c, _ := enterRoom(t, w, dir)
		h := &held{t: t, conn: conn, cmd: c}
		h.build(plain(dir))
		h.order(shell("echo both"))
		h.expect(cell.ReportBuilt)
		h.expect(cell.ReportStarted)
		h.expect(cell.ReportExited)
		h.expect(cell.ReportEnded)
		if out := <-h.stdout; out != "both\n" {
			t.Errorf("%q", out)
		}
	})
}

// Only process 1 of a namespace of its own may do what a resident does: anyone
// else's kill(-1) would be other people's end.
func TestOnlyAsProcessOne(t *testing.T) {
	ours, theirs, err := cell.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ours.Close() }()
	var errs bytes.Buffer
	c := exec.Command(built, cell.InsideArg, "mark")
	c.Env, c.ExtraFiles, c.Stderr = []string{}, []*os.File{theirs}, &errs
	err = c.Run()
	_ = theirs.Close()
	if c.ProcessState.ExitCode() != refused || !strings.Contains(errs.String(), "not process 1") {
		t.Errorf("%v, %q", err, errs.String())
	}
}

// A stop is polite first, and reaches everyone.
func TestStopInARoom(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w)
		h, _ := room(t, w, plain(dir))
		s := shell("trap 'echo term; exit 3' TERM; : > ready; while :; do sleep 0.01; done")
		s.Cwd = dir
		h.order(s)
		h.expect(cell.ReportStarted)
		until(t, "ready", func() bool { return os.Remove(filepath.Join(dir, "ready")) == nil })
		h.send(cell.Order{Kind: cell.OrderStop, Reason: "enough", GraceMS: 20_000})
		exited, ended := h.expect(cell.ReportExited), h.expect(cell.ReportEnded)
		if out := <-h.stdout; ended.Stopped != "enough" || exited.Code != 3 || out != "term\n" {
			t.Errorf("%+v, %+v, %q", exited, ended, out)
		}
	})
}
