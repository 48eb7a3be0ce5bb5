package bubble

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/sandbox/template"
	"palyra/internal/seal"
)

// daemonVar makes the test binary a daemon of its own, which runs something in a
// workspace until it is killed.
const daemonVar = "PALYRA_TEST_DAEMON"

// daemon is that process. What it was told: the backend's parts and the workspace,
// in words.
func daemon(told string) int {
	w := strings.Fields(told)
	uid, _ := strconv.ParseInt(w[6], 10, 64)
	gid, _ := strconv.ParseInt(w[7], 10, 64)
	b, err := New(Config{
		Cell: w[0], Digest: w[1], StateID: w[2], Dir: w[3], Quarantine: w[4], Tmp: 1 << 20, Warm: 1,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	null, _ := os.Open(os.DevNull)
	p, err := b.Start(context.Background(), sandbox.Job{
		Call: "lost-call", Path: "/bin/sh", Argv: []string{"sh", "-c", "echo x > .envrc; echo ready; " + w[8] +
			" sleep 1000 & setsid sleep 1000 & exec sleep 1000"},
		Cwd: w[5], Workspace: w[5], Seals: seal.Default, UID: uid, GID: gid, Stdin: null, Stdout: os.Stdout, Stderr: os.Stderr,
		Limits: palyra.Limits{Processes: 20, MemoryBytes: 256 << 20},
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = p.Wait()
	return 0
}

func daemonCommand(c Config, s *site) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %s %s %s %d %d nohup", daemonVar, c.Cell, c.Digest, c.StateID, c.Dir,
		c.Quarantine, s.workspace, s.who.UID, s.who.GID))
	return cmd
}

// startDaemon starts one and waits until its program runs.
func startDaemon(t testing.TB, c Config, s *site) *exec.Cmd {
	t.Helper()
	cmd := daemonCommand(c, s)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q %v", line, err)
	}
	return cmd
}

// roomsOf are the templates and the first processes of rooms that a daemon started.
func roomsOf(t testing.TB, daemon int) (all []int) {
	t.Helper()
	for _, bwrap := range children(daemon) {
		for _, template := range children(bwrap) {
			all = append(append(all, template), children(template)...)
		}
	}
	return all
}

// parent is that of a process.
func parent(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	n, err := strconv.Atoi(f[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// children are those of all threads of a process.
func children(pid int) (out []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		text, _ := os.ReadFile(l)
		for _, f := range strings.Fields(string(text)) {
			n, _ := strconv.Atoi(f)
			out = append(out, n)
		}
	}
	return out
}

// TestBackendDaemonDies: the whole tree of a daemon that is killed ends by itself,
// idle cells too; the next daemon takes away what the run made of sealed paths, and
// the cgroups.
func TestBackendDaemonDies(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		c := configOf(t)
		s := newSite(t, who)
		d := startDaemon(t, c, s)
		var all []int
		eventually(t, "two rooms with somebody in them", func() bool {
			all = append(all[:0], children(d.Process.Pid)...)
			for _, first := range roomsOf(t, d.Process.Pid) {
				all = append(append(all, first), children(first)...)
			}
			return len(all) >= 6
		})
		if err := d.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the trees end", func() bool { return !slices.ContainsFunc(all, lives) })
		if !exists(s.workspace + "/.envrc") {
			t.Fatal("nobody could have taken it away yet")
		}
		b := openBackend(t, c)
		if err := b.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exists(s.workspace + "/.envrc") {
			t.Error("a sealed path remains")
		}
		if !exists(filepath.Join(c.Quarantine, "lost-call")) && !exists(s.workspace+"/.palyra/quarantine/lost-call") {
			t.Error("it is not in quarantine")
		}
		if left := records(c); len(left) != 0 {
			t.Errorf("records: %v", left)
		}
		for _, dir := range b.fleet.Groups.Dirs() {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if e.IsDir() {
					t.Errorf("the cgroup %s is left", e.Name())
				}
			}
		}
	})
}

// TestBackendRecover: rooms of an earlier daemon that did not end are ended; what
// this one runs, and what others run, is not.
func TestBackendRecover(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		c := configOf(t)
		s, mine := newSite(t, who), newSite(t, who)
		d := startDaemon(t, c, s)
		stuck := roomsOf(t, d.Process.Pid)
		other := configOf(t)
		stranger := startDaemon(t, other, newSite(t, who))
		for _, pid := range stuck {
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		_ = d.Process.Kill()
		_ = d.Wait()
		b := openBackend(t, c)
		p := mine.starts(b, "echo ready; sleep 1000")
		if !slices.ContainsFunc(stuck, lives) {
			t.Fatal("they ended by themselves")
		}
		if err := b.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(stuck, lives) || exists(s.workspace+"/.envrc") {
			t.Error("the stuck room is left")
		}
		p.Stop("cancelled", 0)
		if x := waitFor(t, p); x.Stopped != "cancelled" {
			t.Errorf("the running one: %+v", x)
		}
		if rooms := roomsOf(t, stranger.Process.Pid); len(rooms) == 0 || !lives(rooms[0]) {
			t.Error("another state's room was ended")
		}
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
		if err := openBackend(t, other).Recover(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestBackendBadRecords: a record that cannot be read does not stop the daemon. It
// stays, and nothing runs until somebody has looked; other files are left alone.
func TestBackendBadRecords(t *testing.T) {
	c := configOf(t)
	b := openBackend(t, c)
	head := func(state string) string { return fmt.Sprintf("%-127s\n", state) }
	stays := map[string]bool{}
	for name, text := range map[string]string{
		"1.record": "", "2.record": "nonsense", "3.record": head("runs 7 some-call") + "no good", "4.record": head("runs 9 call") + "short",
		"5.record": head("flies 0 call"), "other": "x", "6": head("runs 0 call"),
	} {
		stays[name] = true
		celltest.MustWrite(t, filepath.Join(c.Dir, name), text, 0o600)
	}
	celltest.MustWrite(t, filepath.Join(c.Dir, "7.record"), head("waits 7 x0")+"no good", 0o600)
	celltest.MustWrite(t, filepath.Join(c.Dir, "8.record"), head("done 0 x0"), 0o600)
	celltest.MustWrite(t, filepath.Join(c.Dir, "9.new"), "half", 0o600)
	s := newSite(t, celltest.Residents()[0])
	p := s.starts(b, "echo ready; sleep 1000")
	mine := records(c)
	if err := b.Recover(t.Context()); err != nil {
		t.Errorf("%v", err)
	}
	_, err := b.Start(t.Context(), newSite(t, celltest.Residents()[0]).trueJob())
	if e := palyra.AsError(err); e.Reason != palyra.ReasonSealDenied || !strings.Contains(e.Text, "cannot be read") ||
		!strings.Contains(e.Remedy, filepath.Join(c.Dir, "1.record")) {
		t.Errorf("%v: %s", err, e.Remedy)
	}
	if len(mine) != 7 || len(records(c)) != 6 { // ours is there still
		t.Errorf("%v, then %v", mine, records(c))
	}
	if _, err := os.Stat(filepath.Join(c.Dir, "9.new")); err == nil {
		t.Error("half a record is left")
	}
	p.Stop("cancelled", 0)
	waitFor(t, p)
	for name := range stays {
		if err := os.Remove(filepath.Join(c.Dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	runJob(t, b, newSite(t, celltest.Residents()[0]).trueJob())
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(fmt.Sprintf("%-127s\nabc", "runs 3 call")))
	f.Add([]byte(fmt.Sprintf("%-127s\n", "waits 0 x0")))
	f.Add([]byte("runs"))
	f.Fuzz(func(t *testing.T, text []byte) {
		state, call, snapshot, err := parseRecord(text)
		if err != nil {
			return
		}
		if !plainCall.MatchString(string(call)) || !slices.Contains([]string{recordWaits, recordRuns, recordDone}, state) ||
			len(snapshot) > len(text)-recordHead {
			t.Errorf("%q: %q %q %q", text, state, call, snapshot)
		}
	})
}

// TestBackendDaemonDiesEarly: whenever a daemon dies while it starts a room, nothing
// of the room stays: neither bubblewrap nor the process that waits for it.
func TestBackendDaemonDiesEarly(t *testing.T) {
	c := configOf(t)
	s := newSite(t, celltest.Residents()[0])
	var marks []string
	const most = 30
	for n := 0; n < most; n += most / celltest.Tries(most) {
		cmd := daemonCommand(c, s)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var rooms []int
		eventually(t, "it starts bubblewrap", func() bool {
			rooms = slices.DeleteFunc(children(cmd.Process.Pid), func(pid int) bool { _, ok := template.MarkOf("/proc", pid); return !ok })
			return len(rooms) > 0
		})
		m, _ := template.MarkOf("/proc", rooms[0])
		cells.Pause(time.Duration(n)*300*time.Microsecond, nil) // ever later
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		marks = append(marks, template.MarkText(m))
	}
	for _, m := range marks {
		eventually(t, "nothing with the mark "+m, func() bool {
			out, _ := exec.Command("pgrep", "-f", "inside "+m).Output()
			return len(out) == 0
		})
	}
	if err := openBackend(t, c).Recover(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestBackendKilledEarly: a bubblewrap that is killed before it has let its child go
// on leaves nothing.
func TestBackendKilledEarly(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	for n := range 20 {
		begun := make(chan struct{})
		go func() {
			defer close(begun)
			if tmpl, err := b.templates.Get(t.Context(), b.want(s.trueJob()).room); err == nil { // it was too late
				tmpl.Give()
			}
		}()
		var bwrap int
		var mark uint64
		eventually(t, "it starts bubblewrap", func() bool {
			for _, pid := range children(os.Getpid()) {
				if m, ok := template.MarkOf("/proc", pid); ok {
					bwrap, mark = pid, m
				}
			}
			return bwrap != 0
		})
		cells.Pause(time.Duration(n)*200*time.Microsecond, nil)
		_ = unix.Kill(bwrap, unix.SIGKILL) // as anybody of that user could
		<-begun
		b.templates.Expire(time.Now().Add(time.Hour))
		eventually(t, "nothing with the mark", func() bool {
			out, _ := exec.Command("pgrep", "-f", "inside "+template.MarkText(mark)).Output()
			return len(out) == 0
		})
	}
}

func TestCallText(t *testing.T) {
	for _, call := range []palyra.CallID{"01J", "", "../../x", "a/b", palyra.CallID(strings.Repeat("x", 300)), "a.b", "a\x00b", "a b"} {
		f, err := os.CreateTemp(t.TempDir(), "record")
		if err != nil {
			t.Fatal(err)
		}
		r := &record{file: f}
		if err := r.say(recordRuns, call); err != nil {
			t.Fatal(err)
		}
		if state, got, _, err := readRecord(f.Name()); err != nil || state != recordRuns || got == "" ||
			strings.ContainsAny(string(got), "/. \x00") {
			t.Errorf("%q: %q %v", call, got, err)
		}
	}
}
