//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/client"
	"palyra/internal/heaptrim"
)

// field is a number of kibibytes in a file of /proc; 0: it is not there.
func field(path, name string) float64 {
	raw, _ := os.ReadFile(path)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return n
		}
	}
	return 0
}

// settled is the resident set of the daemon, in KiB, once a burst is over and it does not change any more.
func (d *daemon) settled(name string) float64 {
	path := fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid)
	<-time.After(4 * heaptrim.Every)
	last := field(path, name)
	for range 20 {
		<-time.After(500 * time.Millisecond)
		now := field(path, name)
		if now >= last*0.99 && now <= last*1.01 {
			return now
		}
		last = now
	}
	return last
}

// rooms are the private pages, in KiB, of the first processes of rooms that wait.
func (d *daemon) rooms() (each []float64) {
	parents := map[int]int{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		raw, err := os.ReadFile(name)
		open, shut := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
		if err != nil || open < 0 || shut < 0 {
			continue
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(raw[:open])))
		rest := strings.Fields(string(raw[shut+1:]))
		parents[pid], _ = strconv.Atoi(rest[1])
	}
	below := family(d.cmd.Process.Pid)
	for pid, template := range parents {
		bubblewrap := parents[template]
		words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", bubblewrap))
		if bytes.HasPrefix(words, []byte("bwrap\x00")) && slices.Contains(below, bubblewrap) {
			rollup := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
			each = append(each, field(rollup, "Private_Clean")+field(rollup, "Private_Dirty"))
		}
	}
	return each
}

// open starts n calls and returns when all of them wait or run; the returned function ends them.
func (d *daemon) open(b *testing.B, n int, r func(i int) client.CallRequest, ready func(client.CallEvent) bool) (end func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	agent := d.client(client.AgentDoor)
	var all, reached sync.WaitGroup
	for i := range n {
		reached.Add(1)
		all.Go(func() {
			once := sync.OnceFunc(reached.Done)
			defer once()
			call := client.Follow(agent, r(i), client.FollowOptions{Watch: func(e client.CallEvent) {
				if ready(e) {
					once()
				}
			}})
			_, _ = call.Wait(ctx)
		})
	}
	reached.Wait()
	return func() {
		cancel()
		all.Wait()
	}
}

// BenchmarkMemory is what the daemon keeps: idle, for each call that waits for an answer, for each program that runs, for
// each room that waits; and how large the programs are. The kernel's own memory for a room's namespaces is not in it.
func BenchmarkMemory(b *testing.B) {
	const waiting, running = 200, 16
	d := newDaemon(b)
	d.ownWork()
	d.mustStart(append(slices.Clone(shipped), "PALYRA_PROCESS_WARM=4", "PALYRA_APPROVALS_MAX_PENDING=1000")...)
	d.inWorkspace()
	for b.Loop() {
		idle := d.settled("VmRSS")
		asking := func(i int) client.CallRequest { return d.shell(fmt.Sprintf("kill -9 %d", i+100_000)) }
		d.open(b, running, asking, func(e client.CallEvent) bool { return e.ApprovalRequested != nil })() // what the first calls make for all
		before := d.settled("RssAnon")
		end := d.open(b, waiting, asking, func(e client.CallEvent) bool { return e.ApprovalRequested != nil })
		wait := (d.settled("RssAnon") - before) / waiting
		end()
		sleeping := func(int) client.CallRequest { return d.inRoom(map[string]any{"profile": "none"}, "/bin/sleep", "60") }
		before = d.settled("RssAnon")
		end = d.open(b, running, sleeping, func(e client.CallEvent) bool { return e.Running != nil })
		opened := (d.settled("RssAnon") - before) / running
		end()
		room := 0.0
		each := d.rooms()
		for range 50 {
			if len(each) > 0 {
				break
			}
			if _, err := d.client(client.AgentDoor).Call(b.Context(), d.inRoom(map[string]any{"profile": "none"}, "/bin/true"), nil); err != nil {
				b.Fatal(err)
			}
			<-time.After(100 * time.Millisecond)
			each = d.rooms()
		}
		for _, kib := range each {
			room = max(room, kib)
		}
		b.ReportMetric(idle/1024, "idle-MiB")
		b.ReportMetric(max(wait, 0), "waiting-KiB")
		b.ReportMetric(max(opened, 0), "running-KiB")
		if len(each) > 0 {
			b.ReportMetric(room, "room-KiB")
		}
		b.ReportMetric(float64(len(each)), "rooms")
	}
	for _, name := range []string{"palyra", "palyra-full", "palyra-tui", "palyrad", "palyra-cell"} {
		info, err := os.Stat(bin(b, name))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/(1<<20), name+"-MiB")
	}
	b.ReportMetric(0, "ns/op")
}
