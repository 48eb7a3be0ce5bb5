package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A room's limits are watched inside its pid namespace, where no cgroup does.
func TestWatchInARoom(t *testing.T) {
	eachRoom(t, func(t *testing.T, w who) {
		for want, c := range map[string]struct {
			spec  cell.Spec
			watch cell.Watch
		}{
			"memory":    {insideSpec("hog", "300", "seen"), cell.Watch{EveryMS: 5, Memory: 100 << 20}},
			"processes": {shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 60 & done; wait"), cell.Watch{EveryMS: 5, Processes: 8}},
			"cpu":       {insideSpec("burners"), cell.Watch{EveryMS: 20, CPUMS: 400}},
		} {
			h, _ := room(t, w, plain(workspace(t, w)))
			c.spec.Watch = c.watch
			if _, ended := h.runs(c.spec); ended.Limit != want {
				t.Errorf("%s: %+v", want, ended)
			}
		}
	})
}

// Counters are read from the descriptors that came for them.
func TestCountersByDescriptor(t *testing.T) {
	file := func(content string) *os.File {
		path := filepath.Join(t.TempDir(), "counter")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	r := plain(workspace(t, me))
	r.Extra = []string{cell.ExtraCounter, cell.ExtraCounter, cell.ExtraCounter, cell.ExtraCounter}
	h, _ := room(t, me, r, file("low 3\noom_kill 0\n"), file("123456789\n"), file("7\n"), file("usage_usec 42000000\nuser_usec 1\n"))
	s := shell("sleep 0.1")
	s.Watch.Counters = cell.Counters{OOM: cell.ExtraPath(0), PeakBytes: cell.ExtraPath(1), PeakPids: cell.ExtraPath(2), CPUMicros: cell.ExtraPath(3)}
	if _, ended := h.runs(s); ended.Limit != "" || ended.Usage != (cell.Usage{CPUMS: 42000, PeakMemory: 123456789, Processes: 7}) {
		t.Errorf("%+v", ended)
	}
	r.Extra = []string{cell.ExtraCounter}
	h, _ = room(t, me, r, file("max 1\n"))
	s = shell("sleep 60")
	s.Watch.Counters = cell.Counters{PidsMax: cell.ExtraPath(0)}
	if _, ended := h.runs(s); ended.Limit != "processes" {
		t.Errorf("%+v", ended)
	}
	h, _ = room(t, me, r, file("max 1\n"))
	s.Watch.Counters = cell.Counters{PidsMax: cell.ExtraPath(1)}
	h.order(s)
	switch first := h.next(); {
	case first.Kind == cell.ReportFailed && first.Step == "spec":
	case first.Kind == cell.ReportStarted: // it was faster
		h.expect(cell.ReportExited)
		if ended := h.expect(cell.ReportEnded); ended.Stopped != "unwatched" {
			t.Errorf("a counter that is not there: %+v", ended)
		}
	default:
		t.Errorf("a counter that is not there: %+v", first)
	}
}

// group makes a cgroup in the hierarchy at root, or says that there is none.
func group(t *testing.T, root string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("UNPROVEN HERE: cgroups are root's")
	}
	dir := filepath.Join(root, fmt.Sprintf("palyra-cell-test-%d-%s", os.Getpid(), strings.NewReplacer("/", "-").Replace(t.Name())))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("UNPROVEN HERE: no cgroup can be made: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Rmdir(dir); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	})
	return dir
}

// opened opens a file of a cgroup as a daemon would.
func opened(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// The launcher is born in the cgroups that came as descriptors, and so is all that
// it becomes; no thread of the cell stays there.
func TestCgroups(t *testing.T) {
	for name, c := range map[string]struct {
		root  string
		extra func(t *testing.T, dir string) ([]string, []*os.File)
	}{
		"tasks": {"/sys/fs/cgroup/pids", func(t *testing.T, dir string) ([]string, []*os.File) {
			return []string{cell.ExtraTasks, cell.ExtraLeave},
				[]*os.File{opened(t, dir+"/tasks", os.O_WRONLY), opened(t, filepath.Dir(dir)+"/tasks", os.O_WRONLY)}
		}},
		"into": {"/sys/fs/cgroup/unified", func(t *testing.T, dir string) ([]string, []*os.File) {
			return []string{cell.ExtraInto}, []*os.File{opened(t, dir, unix.O_PATH|unix.O_DIRECTORY)}
		}},
		"procs": {"/sys/fs/cgroup/unified", func(t *testing.T, dir string) ([]string, []*os.File) {
			return []string{cell.ExtraProcs}, []*os.File{opened(t, dir+"/cgroup.procs", os.O_WRONLY)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eachRoom(t, func(t *testing.T, w who) {
				dir := group(t, c.root)
				r := plain(workspace(t, w))
				var files []*os.File
				r.Extra, files = c.extra(t, dir)
				if name == "into" && w.uid != 0 {
					// The kernel asks who forks, not who opened: this is why procs exists.
					if _, first, _ := tryRoom(t, w, r, files...); first.Step != "cgroup" || unix.Errno(first.Errno) != unix.EACCES {
						t.Errorf("%+v", first)
					}
					return
				}
				h, _ := room(t, w, r, files...)
				first := only(t, h.cmd.Process.Pid)
				launcher := only(t, first)
				h.order(shell("sleep 60 & sleep 60"))
				h.expect(cell.ReportStarted)
				procs := func() string { b, _ := os.ReadFile(dir + "/cgroup.procs"); return string(b) }
				until(t, "the shell and its children in the group", func() bool { return len(strings.Fields(procs())) == 3 })
				if got := strings.Fields(procs()); !slices.Contains(got, itoa(launcher)) {
					t.Errorf("%d is not in %v", launcher, got)
				}
				if name == "tasks" {
					b, _ := os.ReadFile(dir + "/tasks")
					for _, s := range threads(t, first) {
						if strings.Contains("\n"+string(b), "\n"+s["Pid"]+"\n") {
							t.Errorf("the cell's thread %s is in %q", s["Pid"], b)
						}
					}
				}
				h.send(cell.Order{Kind: cell.OrderStop})
				h.expect(cell.ReportExited)
				h.expect(cell.ReportEnded)
				_ = h.code()
			})
		})
	}
}
