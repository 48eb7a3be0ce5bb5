package e2e

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// leftovers is what a daemon and the kernel have for its rooms.
type leftovers struct {
	descriptors, processes, cgroups int
	mounts                          int // in the daemon's namespace and in those of its templates
	anonymous                       int // KiB
	kernel                          map[string]int
}

// family are the processes below one.
func family(root int) (all []int) {
	children := map[int][]int{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		raw, _ := os.ReadFile(name)
		i := strings.LastIndexByte(string(raw), ')')
		if rest := strings.Fields(string(raw[i+1:])); i > 0 && len(rest) > 1 {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			parent, _ := strconv.Atoi(rest[1])
			children[parent] = append(children[parent], pid)
		}
	}
	for next := []int{root}; len(next) > 0; {
		all = append(all, next[0])
		next = append(next[1:], children[next[0]]...)
	}
	return all[1:]
}

// holds counts it.
func (d *daemon) holds(stateID string) leftovers {
	pid := d.cmd.Process.Pid
	h := leftovers{kernel: map[string]int{}, anonymous: int(field(fmt.Sprintf("/proc/%d/status", pid), "RssAnon"))}
	open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	h.descriptors = len(open)
	below := family(pid)
	h.processes = len(below)
	seen := map[string]bool{}
	for _, p := range append(below, pid) {
		ns, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", p))
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", p)); err == nil && !seen[ns] {
			seen[ns] = true
			h.mounts += strings.Count(string(raw), "\n")
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.Contains(path, "/palyra-"+stateID) {
			h.cgroups++
		}
		return nil
	})
	if slabs, err := os.Open("/proc/slabinfo"); err == nil { // root's only
		defer slabs.Close()
		for lines := bufio.NewScanner(slabs); lines.Scan(); {
			words := strings.Fields(lines.Text())
			switch words[0] {
			case "net_namespace", "pid_namespace", "user_namespace", "uts_namespace", "mnt_cache":
				h.kernel[words[0]], _ = strconv.Atoi(words[1])
			}
		}
	}
	return h
}

// grown says what of it grew by more than it may while n rooms came and went.
func (h leftovers) grown(was leftovers, n int) (said []string) {
	for _, c := range []struct {
		what           string
		now, was, most int
	}{
		{"descriptors", h.descriptors, was.descriptors, 16},
		{"processes", h.processes, was.processes, 4},
		{"cgroups", h.cgroups, was.cgroups, 16},
		{"mounts", h.mounts, was.mounts, 200}, // of rooms that wait
		{"KiB of the daemon's own memory", h.anonymous, was.anonymous, 32 << 10},
	} {
		if c.now > c.was+c.most {
			said = append(said, fmt.Sprintf("%s: %d, were %d", c.what, c.now, c.was))
		}
	}
	for name, now := range h.kernel { // other tests have rooms as well, and freed ones are counted for a while
		if now > was.kernel[name]+max(120, n/3) {
			said = append(said, fmt.Sprintf("%s: %d, were %d", name, now, was.kernel[name]))
		}
	}
	return said
}

// Of rooms in a row and of 64 at once nothing is left: no descriptor, mount, cgroup, namespace, process or memory. A few
// hundred in a row here; 10,000 in 'make soak'.
func TestRoomsLeaveNothing(t *testing.T) {
	rows := 200
	if text := os.Getenv("PALYRA_ROOMS"); text != "" {
		rows, _ = strconv.Atoi(text)
	}
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(append(shipped, "PALYRA_PROCESS_WARM=2")...)
	d.inWorkspace()
	status, err := d.client(client.OperatorDoor).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	agent := d.client(client.AgentDoor)
	call := func(more map[string]any, command string, args ...string) {
		r := d.inRoom(more, command, args...)
		r.NoWait = true
		out, err := agent.Call(t.Context(), r, nil)
		if err != nil || out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0 {
			t.Errorf("%+v, %v", out, err)
		}
	}
	kinds := []func(){
		func() { call(map[string]any{"profile": "none"}, "/bin/true") },
		func() { call(nil, "/bin/sh", "-c", "echo x; ls") },
		func() { call(nil, "/usr/bin/git", "--version") },
	}
	crowd := func(n int) {
		var all sync.WaitGroup
		for range n {
			all.Go(func() { call(map[string]any{"profile": "none"}, "/bin/sleep", "0.2") })
		}
		all.Wait()
	}
	for range 10 {
		for _, f := range kinds {
			f()
		}
	}
	crowd(64)
	settle := func() { <-time.After(3 * time.Second) } // what is freed later is freed by then
	settle()
	before := d.holds(status.StateID)
	for i := range rows {
		kinds[i%len(kinds)]()
	}
	crowd(64)
	if t.Failed() {
		return
	}
	var said []string
	for range 10 {
		settle()
		if said = d.holds(status.StateID).grown(before, rows); len(said) == 0 {
			return
		}
	}
	t.Errorf("left: %s", strings.Join(said, "; "))
}

// A leak is seen: the count of each kind grows with what is held.
func TestLeaksAreSeen(t *testing.T) {
	was := leftovers{10, 10, 10, 10, 10, map[string]int{"net_namespace": 10}}
	for name, now := range map[string]leftovers{
		"descriptors": {descriptors: 200}, "processes": {processes: 200}, "cgroups": {cgroups: 200}, "mounts": {mounts: 400},
		"KiB": {anonymous: 64 << 10}, "net_namespace": {kernel: map[string]int{"net_namespace": 200}},
	} {
		if said := now.grown(was, 200); len(said) != 1 || !strings.HasPrefix(said[0], name) {
			t.Errorf("%s: %q", name, said)
		}
	}
}
