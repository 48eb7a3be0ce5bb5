package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

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
	s.Watch.Counters = cell.Counters{
		OOM: cell.ExtraPath(0), PeakBytes: cell.ExtraPath(1), PeakPids: cell.ExtraPath(2),
		CPUMicros: cell.ExtraPath(3),
	}
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

// opened opens a file.
func opened(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
