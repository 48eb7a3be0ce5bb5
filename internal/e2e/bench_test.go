//go:build linux

package e2e

import (
	"cmp"
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

// BenchmarkRepository is what git and a build take in a repository of 50,000 files, on a stage and directly, in turns:
// from the request to the signed outcome, with what the run changed listed, judged and kept. PALYRA_BENCH_FILES sets
// another number of files.
func BenchmarkRepository(b *testing.B) {
	files, _ := strconv.Atoi(cmp.Or(os.Getenv("PALYRA_BENCH_FILES"), "50000"))
	d := newDaemon(b)
	d.repository(files)
	d.mustStart(shipped...)
	if _, err := d.client(client.OperatorDoor).AddWorkspace(b.Context(), d.work, ""); err != nil {
		b.Fatal(err)
	}
	agent := d.client(client.AgentDoor)
	for name, argv := range map[string][]string{"status": {"git", "status", "--short"}, "build": {"make", "-s", "-B", "all"}} {
		b.Run(name, func(b *testing.B) {
			run := func(live bool) client.CallRequest {
				return processRun(d.work, map[string]any{"command": argv[0], "args": argv[1:], "tier": "c", "live": live})
			}
			took := map[bool][]time.Duration{}
			one := func(live bool) {
				begun := time.Now()
				out, err := agent.Call(b.Context(), run(live), nil)
				if err != nil || out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0 {
					b.Fatalf("live %v: %v %+v", live, err, out)
				}
				took[live] = append(took[live], time.Since(begun))
			}
			d.lease(run(true))
			one(false)
			clear(took)
			for b.Loop() {
				one(true)
				one(false)
			}
			for _, all := range took {
				slices.Sort(all)
			}
			live, staged := percentile(took[true], 50), percentile(took[false], 50)
			b.ReportMetric(float64(live.Microseconds())/1000, "live-ms")
			b.ReportMetric(float64(staged.Microseconds())/1000, "staged-ms")
			b.ReportMetric(float64(staged)/float64(live), "staged/live")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// repository makes the workspace a repository of that many files, and a Makefile that makes something of some of them.
func (d *daemon) repository(files int) {
	d.t.Helper()
	for i := range files {
		dir := filepath.Join(d.work, fmt.Sprintf("s%d/d%d", i/5000, i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				d.t.Fatal(err)
			}
		}
		d.write(filepath.Join(dir, fmt.Sprintf("f%d.c", i)), fmt.Sprintf("int f%d(void) { return %d; }\n", i, i), 0o644)
	}
	d.write(filepath.Join(d.work, ".gitignore"), "out\n", 0o644)
	d.write(filepath.Join(d.work, "Makefile"), `MAKEFLAGS += -r
all: $(patsubst %.c,out/%.o,$(wildcard s0/d*/f*0.c))
out/%.o: %.c
	@mkdir -p $(@D); sed s/int/long/ $< > $@
`, 0o644)
	c := exec.Command("sh", "-ec", `find . -type f -exec touch -d '1 hour ago' {} +
		git init -q -b main; git add -A; git -c user.name=t -c user.email=t@example.org commit -q -m one`)
	c.Dir, c.Env = d.work, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := c.CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
	d.handOver()
	c = exec.Command("git", "-C", d.work, "-c", "safe.directory=*", "status", "--short")
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		d.t.Fatalf("%v: %s", err, out)
	}
}
