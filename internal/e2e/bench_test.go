//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// granted allows a call for the session, so that repeats of it ask nobody.
func (d *daemon) lease(r client.CallRequest) {
	d.t.Helper()
	if out, _ := d.allowed(r); out.Outcome != palyra.OutcomeFinished {
		d.t.Fatalf("%+v", out)
	}
}

// times runs f n times on several goroutines and returns how long each took,
// sorted, and how long all took.
func times(b *testing.B, callers, n int, f func() error) (each []time.Duration, all time.Duration) {
	b.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			for range n/callers + min(1, max(0, n%callers-i)) {
				t := time.Now()
				if err := f(); err != nil {
					b.Error(err)
					return
				}
				took := time.Since(t)
				mu.Lock()
				each = append(each, took)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	all = time.Since(began)
	slices.Sort(each)
	return each, all
}

func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// BenchmarkExec is a whole gated call of a program, from the client's request to
// the signed outcome, beside a plain fork and exec of the same program in the
// same run.
func BenchmarkExec(b *testing.B) {
	d := newDaemon(b)
	d.ownWork()
	d.mustStart(append(unlimited, "PALYRA_PROCESS_WARM=8")...)
	run := d.program("/bin/true")
	d.lease(run)
	agent := d.client(client.AgentDoor)
	for _, callers := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			plain, _ := times(b, callers, b.N, func() error { return exec.Command("/bin/true").Run() })
			gated, all := times(b, callers, b.N, func() error {
				out, err := agent.Call(b.Context(), run, nil)
				if err == nil && out.ExitCode != 0 {
					err = fmt.Errorf("%+v", out)
				}
				return err
			})
			b.ReportMetric(float64(percentile(plain, 50).Microseconds()), "plain-p50-µs")
			b.ReportMetric(float64(percentile(gated, 50).Microseconds()), "gated-p50-µs")
			b.ReportMetric(float64(percentile(gated, 99).Microseconds()), "gated-p99-µs")
			b.ReportMetric(float64(len(gated))/all.Seconds(), "calls/s")
			b.ReportMetric(float64(percentile(gated, 50))/float64(percentile(plain, 50)), "ratio-p50")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkOutput is a program that prints 1 GiB: how much the daemon grows.
func BenchmarkOutput(b *testing.B) {
	d := newDaemon(b)
	d.ownWork()
	d.mustStart("PALYRA_PROCESS_EMITTED_BYTES=" + strconv.Itoa(2<<30))
	small, flood := d.shell("echo warm"), d.program("/bin/dd", "if=/dev/zero", "bs=1M", "count=1024")
	d.lease(small)
	before := peak(b, d.cmd.Process.Pid)
	began := time.Now()
	out, _ := d.allowed(flood)
	took := time.Since(began)
	if out.ExitCode != 0 || !out.Truncated {
		b.Fatalf("%+v", out.ReasonCode)
	}
	b.ReportMetric(float64(peak(b, d.cmd.Process.Pid)-before)/(1<<20), "daemon-growth-MiB")
	b.ReportMetric(1024/took.Seconds(), "MiB/s")
	b.ReportMetric(0, "ns/op")
}

// peak reads the most memory a process has had.
func peak(b *testing.B, pid int) int64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib << 10
		}
	}
	b.Fatal("no VmHWM")
	return 0
}

// BenchmarkStop is how long it takes from a cancel until nothing of a tree is
// left that would have gone at SIGTERM, and of one that ignores it (less the
// grace it is given).
func BenchmarkStop(b *testing.B) {
	const grace = 200 * time.Millisecond
	d := newDaemon(b)
	d.ownWork()
	d.mustStart(fmt.Sprintf("PALYRA_PROCESS_GRACE_MS=%d", grace.Milliseconds()))
	agent := d.client(client.AgentDoor)
	for _, kind := range []string{"polite", "stubborn"} {
		b.Run(kind, func(b *testing.B) {
			file := fmt.Sprintf("started-%s-%d", kind, b.N) // the function is called again with a larger N
			line := "echo x >> " + file + "; (sleep 1000 &); exec sleep 1000"
			if kind == "stubborn" {
				line = "trap '' TERM; " + line
			}
			run := d.seenShell(line)
			var took []time.Duration
			stop := func(i int, call palyra.CallID) {
				d.started(file, int64(2*(i+1)))
				t := time.Now()
				if err := agent.CancelCall(b.Context(), call); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(t))
			}
			a, call, ch, err := question(b.Context(), agent, d.client(client.OperatorDoor), run)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := d.client(client.OperatorDoor).Decide(b.Context(), allow(a, palyra.ScopeSession, 0)); err != nil {
				b.Fatal(err)
			}
			stop(0, call)
			<-ch
			for i := range min(b.N, 20) {
				accepted := make(chan palyra.CallID, 1)
				end := make(chan error, 1)
				go func() {
					_, err := agent.Call(b.Context(), run, func(e client.CallEvent) {
						if e.Accepted != nil {
							accepted <- e.Accepted.CallID
						}
					})
					end <- err
				}()
				stop(i+1, <-accepted)
				if err := <-end; err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(percentile(took, 50).Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(percentile(took, 99).Microseconds())/1000, "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkStatePerCall says how much of the state a call takes up for good: of an
// echo, and of a program in tier C.
func BenchmarkStatePerCall(b *testing.B) {
	for name, request := range map[string]func(*daemon) client.CallRequest{
		"echo":  func(*daemon) client.CallRequest { return echo("hello") },
		"tierC": func(d *daemon) client.CallRequest { return d.inRoom(nil, "/bin/echo", "hello") },
	} {
		b.Run(name, func(b *testing.B) {
			d := newDaemon(b)
			d.ownWork()
			d.project()
			d.mustStart(unlimited...)
			r := request(d)
			if name == "tierC" {
				d.lease(r)
			}
			size := func() int64 {
				d.stop()
				fi, err := os.Stat(filepath.Join(d.home, "state.db"))
				if err != nil {
					b.Fatal(err)
				}
				return fi.Size()
			}
			before := size()
			d.mustStart(unlimited...)
			agent := d.client(client.AgentDoor)
			const calls = 300
			for range calls {
				if out, err := agent.Call(b.Context(), r, nil); err != nil || out.Outcome != palyra.OutcomeFinished {
					b.Fatalf("%+v, %v", out, err)
				}
			}
			b.ReportMetric(float64(size()-before)/calls, "bytes/call")
			b.ReportMetric(0, "ns/op")
		})
	}
}
