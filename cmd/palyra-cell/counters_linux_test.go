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
			h, _ := inhabit(t, w, plain(workspace(t, w)))
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
	for want, c := range map[string]struct {
		content  string
		counters cell.Counters
	}{
		"memory":    {"low 3\noom_kill 2\n", cell.Counters{OOM: cell.ExtraPath(0)}},
		"processes": {"max 1\n", cell.Counters{PidsMax: cell.ExtraPath(0)}},
		"cpu":       {"usage_usec 42000000\nuser_usec 1\n", cell.Counters{CPUMicros: cell.ExtraPath(0)}},
		"":          {"max 0\n", cell.Counters{PidsMax: cell.ExtraPath(0)}},
	} {
		r := plain(workspace(t, me))
		r.Extra = []string{cell.ExtraCounter}
		h, _ := inhabit(t, me, r, file(c.content))
		s := shell("sleep 60")
		if want == "" {
			s = shell("sleep 0.2")
		}
		s.Watch = cell.Watch{EveryMS: 5, CPUMS: 1000, Counters: c.counters}
		if _, ended := h.runs(s); ended.Limit != want {
			t.Errorf("%q: %+v", want, ended)
		}
	}
	h, _ := inhabit(t, me, plain(workspace(t, me)))
	s := shell("sleep 60")
	s.Watch.Counters = cell.Counters{PidsMax: cell.ExtraPath(1)}
	if _, ended := h.runs(s); ended.Limit != "unwatched" {
		t.Errorf("a counter that is not there: %+v", ended)
	}
}

// A room that is over a limit ends also where its daemon does nothing about it.
func TestOverWithoutADaemon(t *testing.T) {
	r := plain(workspace(t, me))
	h := &held{t: t}
	h.template, h.cmd, _ = enterRoom(t, me, r.Workspace)
	h.raw(r)
	h.send(cell.Order{Kind: cell.OrderConfine})
	h.expect(cell.ReportReady)
	s := shell("sleep 60 & sleep 60 & sleep 60")
	s.Watch = cell.Watch{EveryMS: 5, Processes: 2}
	h.order(s)
	h.expect(cell.ReportStarted)
	h.expect("")
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
