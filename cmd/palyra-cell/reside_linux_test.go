package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

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

// Who waits in a room has no power left, and who runs there has none.
func TestPowerless(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		h, _ := inhabit(t, w, plain(workspace(t, w)))
		first := only(t, only(t, h.cmd.Process.Pid))
		powerless(t, "process 1", first, "1", "CapBnd")
		h.order(shell("echo ready; read x"))
		h.expect(cell.ReportStarted)
		powerless(t, "process 1", first, "1", "CapBnd")
		powerless(t, "the program", only(t, first), "1", "CapBnd")
		_ = h.stdin.Close()
		h.expect(cell.ReportExited)
		h.expect(cell.ReportEnded)
	})
}

// Every room has namespaces of its own, that are neither the template's nor another room's nor the machine's.
func TestNamespacesOfItsOwn(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w)
		h := &held{t: t}
		h.template, h.cmd, _ = enterRoom(t, w, dir)
		template := only(t, h.cmd.Process.Pid)
		seen := map[string]string{}
		note := func(who string, pid int) {
			for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
				id, err := os.Readlink("/proc/" + itoa(pid) + "/ns/" + ns)
				if err != nil {
					t.Fatal(err)
				}
				if was := seen[id]; was != "" {
					t.Errorf("%s has the %s namespace of %s", who, ns, was)
				}
				seen[id] = who
			}
		}
		note("the machine", os.Getpid())
		note("the template", template)
		for i := range 4 {
			before := children(t, template)
			h.build(plain(dir))
			for _, pid := range children(t, template) {
				if !slices.Contains(before, pid) {
					note("room "+itoa(i), pid)
				}
			}
			h.order(shell("sleep 60"))
			h.expect(cell.ReportStarted)
		}
		if want := 7 * 6; len(seen) != want {
			t.Errorf("%d namespaces, want %d", len(seen), want)
		}
	})
}

// Many rooms at once and one after the other leave nothing behind in the template.
func TestTemplateKeepsNothing(t *testing.T) {
	dir := workspace(t, me)
	h := &held{t: t}
	h.template, h.cmd, _ = enterRoom(t, me, dir)
	template := only(t, h.cmd.Process.Pid)
	r := plain(dir)
	r.Private = []cell.Private{{Path: "/dev/shm", Mode: 0o700, Bytes: 4096, Inodes: 30}}
	r.Range, r.Listeners = synthetic, everyDoor()
	open := func() int {
		entries, err := os.ReadDir("/proc/" + itoa(template) + "/fd")
		if err != nil && os.Getuid() != 0 {
			t.Skip("UNPROVEN HERE: only root can look")
		}
		return len(entries)
	}
	for range 3 {
		h.build(r)
		h.runs(shell("true"))
	}
	until(t, "the end of all", func() bool { return len(children(t, template)) == 0 })
	before := open()
	for i := range 60 {
		h.build(r)
		if i%3 == 0 { // not every room is used
			_ = h.conn.Close()
			continue
		}
		h.runs(shell("true"))
	}
	until(t, "the end of all", func() bool { return len(children(t, template)) == 0 && open() <= before })
}

// Nothing that runs in a room gets at its process 1: not by signals, not by /proc.
func TestProcessOneIsOutOfReach(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		h, _ := inhabit(t, w, plain(workspace(t, w)))
		out, _ := h.runs(insideSpec("reach"))
		if out != "tried\n" {
			t.Errorf("%s", out)
		}
		h, _ = inhabit(t, w, plain(workspace(t, w)))
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
		h, _ := inhabit(t, w, plain(workspace(t, w)))
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
		template, c, _ := enterRoom(t, w, dir)
		_ = template.Close()
		_ = c.Wait()
		h, _ := inhabit(t, w, plain(dir))
		_ = h.template.Close()
		_ = h.cmd.Wait()
		mark := "98764." + strconv.Itoa(os.Getpid()) + strconv.Itoa(w.uid)
		h, _ = inhabit(t, w, plain(dir))
		h.order(shell(sleepers(mark) + "sleep " + mark))
		h.expect(cell.ReportStarted)
		until(t, "sleepers", func() bool { return marked(mark) >= 5 })
		_ = h.template.Close()
		_ = h.cmd.Wait()
		if n := marked(mark); n != 0 {
			t.Errorf("%d are left", n)
		}
		h, _ = inhabit(t, w, plain(dir)) // its own socket alone
		h.order(shell(sleepers(mark) + "sleep " + mark))
		h.expect(cell.ReportStarted)
		_ = h.conn.Close()
		until(t, "nobody", func() bool { return marked(mark) == 0 })
	})
}

// A daemon in a hurry sends the run behind the order to confine, and need not wait between.
func TestConfineAndRunAtOnce(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		dir := workspace(t, w)
		h := &held{t: t}
		h.template, h.cmd, _ = enterRoom(t, w, dir)
		h.raw(plain(dir))
		h.send(cell.Order{Kind: cell.OrderConfine})
		h.order(shell("echo both"))
		h.expect(cell.ReportReady)
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
		h, _ := inhabit(t, w, plain(dir))
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
