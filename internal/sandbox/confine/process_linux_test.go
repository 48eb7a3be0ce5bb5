package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
)

// start starts a job and waits until it has said "ready".
func (s *stage) start(b *Driver, script string) sandbox.Process {
	s.t.Helper()
	p, err := b.Start(s.t.Context(), s.job("/bin/sh", "-c", script))
	if err != nil {
		s.t.Fatal(err, palyra.AsError(err).Cause)
	}
	celltest.Until(s.t, "ready", func() bool { return strings.Contains(s.printed(), "ready") })
	return p
}

// limitOf is the limit that carries the mark.
func limitOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	_, line, _ := strings.Cut(string(b), "\nMax file locks")
	if f := strings.Fields(line); len(f) > 1 {
		return f[1]
	}
	return ""
}

// there reports whether a number is taken, if only by a zombie.
func there(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }

// alive reports whether a process is there and not only waits to be reaped.
func alive(pid int) bool {
	st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(st), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// pids are the numbers that a run printed.
func (s *stage) pids(n int) []int {
	s.t.Helper()
	var out []int
	celltest.Until(s.t, "pids", func() bool {
		out = out[:0]
		for _, f := range strings.Fields(s.printed()) {
			if pid, err := strconv.Atoi(f); err == nil {
				out = append(out, pid)
			}
		}
		return len(out) >= n
	})
	return out
}

func TestStopWithGrace(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	p := s.start(b, `trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.01; done`)
	p.Stop("cancelled", 10*time.Second)
	p.Stop("another reason", 10*time.Second)
	if x := celltest.Wait(t, p); x.Code != 7 || x.Stopped != "cancelled" || !strings.Contains(s.printed(), "asked") {
		t.Errorf("%+v %s", x, s.printed())
	}
	p.Stop("too late", 0)
	if x := celltest.Wait(t, p); x.Stopped != "cancelled" {
		t.Errorf("%+v", x)
	}
}

func TestStopKillsWhoDoesNotListen(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	p := s.start(b, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	p.Stop("wall_clock", time.Hour)
	p.Stop("wall_clock", 0)
	if x := celltest.Wait(t, p); x.Signal != "SIGKILL" || x.Stopped != "wall_clock" {
		t.Errorf("%+v", x)
	}
}

func TestSignal(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	p := s.start(b, `trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done`)
	for _, bad := range []string{"", "INT", "SIGNONSENSE", "2"} {
		if err := p.Signal(bad); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := p.Signal("SIGINT"); err != nil {
		t.Fatal(err)
	}
	if x := celltest.Wait(t, p); x.Code != 9 {
		t.Errorf("%+v", x)
	}
	if err := p.Signal("SIGINT"); palyra.AsError(err).Reason != palyra.ReasonRunEnded {
		t.Errorf("after the end: %v", err)
	}
	if err := p.Resize(1, 1<<20); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("size: %v", err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	for _, mode := range []string{CgroupAuto, CgroupOff} {
		c := config(t)
		c.Cgroup = mode
		b := open(t, c)
		s := newStage(t)
		code, out := s.script(b,
			`setsid sh -c 'trap "" TERM INT HUP; sleep 1000 & echo $$; touch up; wait' & (sleep 1000 & echo $!); until [ -e up ]; do sleep 0.01; done`)
		if code != 0 {
			t.Fatalf("%d %s", code, out)
		}
		for _, pid := range s.pids(2) {
			if alive(pid) {
				t.Errorf("%s: %d is alive", mode, pid)
			}
		}
	}
}

func TestLeftIsCounted(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	if x := celltest.Run(t, b, s.job("/bin/sh", "-c", "sleep 1000 & sleep 1000 & exit 0")); x.Left != 2 || x.Code != 0 || x.Signal != "" {
		t.Errorf("%+v", x)
	}
}

// TestLimits: each limit ends the run, and the exit says which it was.
func TestLimits(t *testing.T) {
	const eat = `import time
b=[]
while True: b.append(bytearray(1<<20))`
	const fork = `sh -c 'i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done'; sleep 1000`
	for _, mode := range []string{CgroupAuto, CgroupOff} {
		c := config(t)
		c.Cgroup = mode
		b := open(t, c)
		for _, l := range []struct {
			name string
			argv []string
			set  func(*palyra.Limits)
			want string
		}{
			{"memory", []string{"/usr/bin/python3", "-c", eat}, func(l *palyra.Limits) { l.MemoryBytes = 96 << 20 }, "memory"},
			{"processes", []string{"/bin/sh", "-c", fork}, func(l *palyra.Limits) { l.Processes = 24 }, "processes"},
			{"cpu", []string{"/bin/sh", "-c", "while :; do :; done"}, func(l *palyra.Limits) { l.CPUMS = 300 }, "cpu"},
			{
				"cpu of many",
				[]string{"/bin/sh", "-c", "for i in 1 2 3; do (while :; do :; done) & done; wait"},
				func(l *palyra.Limits) { l.CPUMS = 500 }, "cpu",
			},
			{
				"file size",
				[]string{"/bin/sh", "-c", "exec head -c 3000000 /dev/zero > big"},
				func(l *palyra.Limits) { l.FileBytes = 1 << 20 },
				"file_size",
			},
		} {
			t.Run(mode+" "+l.name, func(t *testing.T) {
				s := newStage(t)
				j := s.job(l.argv...)
				l.set(&j.Limits)
				if x := celltest.Run(t, b, j); x.Limit != l.want || x.Stopped != "" {
					t.Errorf("%+v\n%s", x, s.printed())
				}
			})
		}
	}
}

// TestUsualLimits: limits that were set ahead, as of the last run, give way to
// those of the next, up and down.
func TestUsualLimits(t *testing.T) {
	c := config(t)
	c.Warm = 1
	b := open(t, c)
	for _, mb := range []int64{64, 512, 512, 128, 1024} {
		celltest.Until(t, "the pool is full", func() bool { return b.pool.room() == 0 })
		s := newStage(t)
		j := s.job("/usr/bin/python3", "-c", "b=[bytearray(1<<20) for i in range(200)]\nprint(1)")
		j.Limits.MemoryBytes = mb << 20
		want := ""
		if mb < 200 {
			want = "memory"
		}
		if x := celltest.Run(t, b, j); x.Limit != want {
			t.Errorf("%d MiB: %+v", mb, x)
		}
	}
}

// TestFewProcesses: a limit below what the launcher needs for itself holds for
// the program.
func TestFewProcesses(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	j := s.job("/bin/true")
	j.Limits.Processes = 1
	if x := celltest.Run(t, b, j); x.Code != 0 || x.Limit != "" {
		t.Errorf("%+v", x)
	}
	j = s.job("/bin/sh", "-c", "sleep 1000 & sleep 1000 & sleep 1000 & wait")
	j.Limits.Processes = 2
	if x := celltest.Run(t, b, j); x.Limit != "processes" {
		t.Errorf("%+v", x)
	}
}

func TestOpenFiles(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	j := s.job("/bin/sh", "-c", "ulimit -n; ulimit -Hn; ulimit -c")
	j.Limits.OpenFiles = 99
	if celltest.Run(t, b, j); s.printed() != "99\n99\n0" {
		t.Error(s.printed())
	}
}

func TestUsage(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	x := celltest.Run(t, b, s.job("/usr/bin/python3", "-c",
		"import time\nb=bytearray(50<<20)\nt=time.process_time()\nwhile time.process_time()<t+0.2: pass"))
	if x.Usage.CPUMS < 150 || x.Usage.CPUMS > 20_000 || x.Usage.PeakMemory < 40<<20 || x.Usage.WallMS < 150 || x.Usage.Processes < 1 {
		t.Errorf("%+v", x.Usage)
	}
}

func TestTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close() }()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	slave, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, config(t))
	s := newStage(t)
	if err := os.Chown(name, s.uid, s.gid); err != nil {
		t.Fatal(err)
	}
	j := s.job("/bin/sh", "-c", `tty; echo to-the-terminal > /dev/tty; echo ready; read line; stty size; echo "got $line"`)
	j.CloseFiles()
	j.Stdin, j.Stdout, j.Stderr, j.Terminal = slave, slave, slave, true
	p, err := b.Start(t.Context(), j)
	if err != nil {
		t.Fatal(err, palyra.AsError(err).Cause)
	}
	var seen bytes.Buffer
	read := func(want string) {
		t.Helper()
		buf := make([]byte, 1024)
		for !strings.Contains(seen.String(), want) {
			if err := master.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := master.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				t.Fatalf("%v after %q", err, seen.String())
			}
		}
	}
	read("ready")
	if err := p.Resize(33, 111); err != nil {
		t.Fatal(err)
	}
	celltest.Until(t, "resized", func() bool {
		w, err := unix.IoctlGetWinsize(int(master.Fd()), unix.TIOCGWINSZ)
		return err == nil && w.Row == 33 && w.Col == 111
	})
	if _, err := master.WriteString("words\n"); err != nil {
		t.Fatal(err)
	}
	read("got words")
	celltest.Wait(t, p)
	if out := seen.String(); !strings.Contains(out, name) || !strings.Contains(out, "to-the-terminal") || !strings.Contains(out, "33 111") {
		t.Errorf("%q", out)
	}
}

// sealed is a copy of a file that nobody can change any more.
func sealed(t testing.TB, path string) *os.File {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return celltest.Sealed(t, b)
}

func TestSealedProgram(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	f := sealed(t, "/bin/echo")
	j := s.job("/bin/sh", "from the copy")
	j.Path, j.Sealed, j.Argv = "/does/not/matter", f, []string{"echo", "from the copy"}
	x := celltest.Run(t, b, j)
	if s.printed() != "from the copy" || !slices.Contains(x.Enforcement.Mechanisms, sandbox.Sealed) {
		t.Errorf("%q %+v", s.printed(), x)
	}
	if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the copy is still open: %v", err)
	}
}

// TestRootWorkspace: where root owns the workspace the program stays uid 0 and
// has no capability at all.
func TestRootWorkspace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: workspaces of root: the suite runs as an ordinary user")
	}
	b := open(t, config(t))
	s := stageFor(t, 0, 0)
	x := celltest.Run(t, b, s.job("/bin/sh", "-c",
		`id -u; grep CapEff /proc/self/status; cat /etc/shadow >/dev/null && echo READ; chown 1 . && echo GIVEN; echo x > f && cat f`))
	out := s.printed()
	if !strings.HasPrefix(out, "0\n") || strings.Contains(out, "READ") || strings.Contains(out, "GIVEN") || !strings.HasSuffix(out, "x") {
		t.Error(out)
	}
	if !slices.Contains(x.Enforcement.Mechanisms, "root_workspace") {
		t.Errorf("%v", x.Enforcement.Mechanisms)
	}
}

func TestContextBoundsTheStartOnly(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := b.Start(ctx, s.job("/bin/sh", "-c", "sleep 0.3; exit 4"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if x := celltest.Wait(t, p); x.Code != 4 || x.Stopped != "" {
		t.Errorf("%+v", x)
	}
	s = newStage(t)
	if _, err := b.Start(ctx, s.job("/bin/sh", "-c", "touch ran")); err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if _, err := os.Stat(s.workspace + "/ran"); err == nil {
		t.Error("it ran")
	}
}

// TestLostCell: the supervisor is killed. Wait says so, after the whole tree is
// gone by other means: also what left the session and lost its parent.
func TestLostCell(t *testing.T) {
	for _, mode := range []string{CgroupAuto, CgroupOff} {
		t.Run(mode, func(t *testing.T) {
			c := config(t)
			c.Cgroup = mode
			b := open(t, c)
			s := newStage(t)
			p := s.start(b, `trap '' TERM; setsid sh -c 'trap "" TERM; (sleep 1000 & echo $!); echo $$; while :; do sleep 1; done' & sleep 1000 & echo $! $$ ready; wait`)
			pids := s.pids(4)
			cellPid := p.(*cells.Process).Pid()
			if err := unix.Kill(cellPid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			x, err := p.Wait()
			if palyra.AsError(err).Reason != palyra.ReasonInterrupted || x.Left != 0 {
				t.Fatalf("%+v %v", x, err)
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("%d is alive", pid)
				}
			}
			if there(pids[0]) {
				celltest.Until(t, "the orphan is reaped", func() bool { return !there(pids[0]) })
			}
		})
	}
}

// TestNobodyElsesChild: hunting for the tree of a lost cell leaves the daemon's
// other children and their exit codes alone.
func TestNobodyElsesChild(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	bystander := exec.Command("/bin/sh", "-c", "read x; exit 5")
	in, err := bystander.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	p := s.start(b, "echo ready; sleep 1000")
	if err := unix.Kill(p.(*cells.Process).Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err == nil {
		t.Error("a lost cell is not an error")
	}
	_ = in.Close()
	if err := bystander.Wait(); bystander.ProcessState.ExitCode() != 5 {
		t.Errorf("the bystander: %v", err)
	}
}

// TestRecover: what an earlier daemon left, by mark and by cgroup, is ended; what
// this one runs is not.
func TestRecover(t *testing.T) {
	c := config(t)
	b := open(t, c)
	s := newStage(t)
	mine := s.start(b, "echo ready; sleep 1000")
	uid, gid := celltest.Whom(t)
	stray := func(mark uint64, nnp string) *exec.Cmd {
		cmd := exec.Command("/bin/bash", "-c", fmt.Sprintf("ulimit -x %d && exec %s sleep 1000", mark, nnp))
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		celltest.Until(t, "the mark", func() bool {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
			return limitOf(cmd.Process.Pid) == strconv.FormatUint(mark, 10) && string(name) == "sleep\n"
		})
		return cmd
	}
	k, err := b.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.Discard()
	own := k.Mark >> 32 << 32
	const asRuns = "setpriv --no-new-privs" // which nobody can undo
	marked, other, inGroup, copied := stray(own|77, asRuns), stray(own^1<<32|77, asRuns), stray(own|78, asRuns), stray(own|79, "")
	defer func() {
		for _, cmd := range []*exec.Cmd{other, copied} {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	var left []string
	for _, d := range b.fleet.Groups.Dirs() {
		left = append(left, filepath.Join(d, "00000000-1"))
		if err := os.Mkdir(left[len(left)-1], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if len(left) > 0 {
		if err := os.WriteFile(left[0]+"/cgroup.procs", []byte(strconv.Itoa(inGroup.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	reaped := make(chan error, 2) // as a daemon's own children they must be waited for here
	for _, cmd := range []*exec.Cmd{marked, inGroup} {
		go func() { reaped <- cmd.Wait() }()
	}
	if err := b.Recover(t.Context()); err != nil {
		t.Error(err)
	}
	<-reaped
	<-reaped
	for _, d := range left {
		if _, err := os.Stat(d); err == nil {
			t.Errorf("%s is left", d)
		}
	}
	if !alive(other.Process.Pid) || !alive(copied.Process.Pid) {
		t.Error("a process of another state, or with a mark that somebody copied, was ended")
	}
	mine.Stop("cancelled", 0)
	if x := celltest.Wait(t, mine); x.Stopped != "cancelled" {
		t.Errorf("the running one: %+v", x)
	}
}

func TestWarmCells(t *testing.T) {
	c := config(t)
	c.Warm = 2
	b := open(t, c)
	full := func() { celltest.Until(t, "the pool is full", func() bool { return b.pool.room() == 0 }) }
	full()
	first, second := b.pool.idle[0], b.pool.idle[1]
	if err := unix.Kill(first.Body.Pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	celltest.Until(t, "the cell is gone", first.Dead)
	s := newStage(t)
	p, err := b.Start(t.Context(), s.job("/bin/sh", "-c", "exit 6"))
	if err != nil {
		t.Fatal(err)
	}
	if p.(*cells.Process).Pid() != second.Body.Pid() {
		t.Error("not the cell that was waiting")
	}
	if x := celltest.Wait(t, p); x.Code != 6 {
		t.Errorf("%+v", x)
	}
	full()
	if slices.Contains(b.pool.idle, second) || slices.Contains(b.pool.idle, first) {
		t.Error("a cell that has served is kept")
	}
}

// TestUsers: launchers become the user of the last run ahead, and a run for somebody else never gets one of those.
func TestUsers(t *testing.T) {
	c := config(t)
	c.Warm = 2
	b := open(t, c)
	whom := func() (out []user) {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		for _, k := range b.pool.idle {
			if k.user != nil {
				out = append(out, *k.user)
			}
		}
		return out
	}
	settled := func(want ...user) {
		t.Helper()
		celltest.Until(t, fmt.Sprint("launchers are ", want), func() bool { return b.pool.room() == 0 && slices.Equal(whom(), want) })
	}
	settled()
	s := newStage(t)
	one := user{int64(s.uid), int64(s.gid)}
	runs := func(s *stage) {
		t.Helper()
		if code, out := s.script(b, "id -u; id -g"); code != 0 || out != fmt.Sprintf("%d\n%d", s.uid, s.gid) {
			t.Fatalf("exit %d, %q", code, out)
		}
	}
	for range 3 {
		runs(s)
		settled(one, one)
	}
	if os.Geteuid() != 0 {
		return
	}
	other := stageFor(t, 0, 0)
	runs(other)
	settled(one)
	runs(other)
	settled(user{}, user{})
	runs(s)
	runs(other)
	settled()
}

// TestAStoppedLauncher: whoever has a user's rights can stop what waits for that user's runs, and holds none of them up.
func TestAStoppedLauncher(t *testing.T) {
	c := config(t)
	c.Warm = 2
	b := open(t, c)
	s := newStage(t)
	if code, out := s.script(b, "true"); code != 0 {
		t.Fatal(code, out)
	}
	waiting := func() (pids []int) {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		for _, k := range b.pool.idle {
			if k.user != nil {
				pids = append(pids, k.Launcher())
			}
		}
		return pids
	}
	celltest.Until(t, "launchers wait as their user", func() bool { return len(waiting()) == 2 })
	for _, pid := range waiting() {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 {
		p, err := b.Start(ctx, s.job("/bin/true"))
		if err != nil {
			t.Fatal(err)
		}
		if x := celltest.Wait(t, p); x.Code != 0 || x.Signal != "" {
			t.Errorf("%+v", x)
		}
	}
}

func TestClose(t *testing.T) {
	c := config(t)
	c.Warm = 1
	b := open(t, c)
	celltest.Until(t, "the pool is full", func() bool { return b.pool.room() == 0 })
	s := newStage(t)
	p := s.start(b, "trap '' TERM; echo ready; sleep 1000")
	celltest.Until(t, "the pool is full", func() bool { return b.pool.room() == 0 })
	k := b.pool.idle[0]
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if x := celltest.Wait(t, p); x.Stopped != "stopping" || x.Signal != "SIGKILL" {
		t.Errorf("the running one: %+v", x)
	}
	if alive(k.Body.Pid()) {
		t.Error("an idle cell is left")
	}
	if _, err := b.Start(t.Context(), s.job("/bin/true")); palyra.AsError(err).Reason != palyra.ReasonStopping {
		t.Errorf("start after close: %v", err)
	}
}

func TestExplain(t *testing.T) {
	b := open(t, config(t))
	s := newStage(t)
	j := s.job("/bin/sh")
	j.Path = s.workspace // a directory
	if _, err := b.Start(t.Context(), j); palyra.AsError(err).Reason != palyra.ReasonNotExecutable || palyra.AsError(err).Remedy == "" {
		t.Errorf("a directory: %v", err)
	}
	j = s.job("/bin/sh")
	j.Private = "/nowhere"
	if _, err := b.Start(t.Context(), j); palyra.AsError(err).Reason != palyra.ReasonSpawnFailed {
		t.Errorf("no private directory: %v", err)
	}
	if err := explain(cell.Report{Step: "landlock", Errno: int(unix.EINVAL)}); palyra.AsError(err).Reason != palyra.ReasonSpawnFailed ||
		!strings.Contains(err.Error(), "landlock") {
		t.Error(err)
	}
}

func TestRealVersion2(t *testing.T) {
	v2, _ := exec.Command("sh", "-c",
		"stat -f -c %T /sys/fs/cgroup; cat /sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/cgroup.controllers").CombinedOutput()
	if !strings.Contains(string(v2), "cgroup2fs") || !strings.Contains(string(v2), "memory") || os.Geteuid() != 0 {
		t.Skipf("UNPROVEN HERE: cgroup v2 limits: this host gives no memory controller on v2 (%q); only proven against a fake tree", v2)
	}
	b := open(t, config(t))
	if b.fleet.Groups.Version != 2 {
		t.Fatalf("v2 has a memory controller here and is not used: %+v", b.fleet.Groups)
	}
	s := newStage(t)
	j := s.job("/bin/sh", "-c", "exec tail -c 1G /dev/zero")
	j.Limits.MemoryBytes = 64 << 20
	if x := celltest.Run(t, b, j); x.Limit != "memory" {
		t.Errorf("%+v", x)
	}
}
