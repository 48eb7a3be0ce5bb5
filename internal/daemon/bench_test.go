package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/heaptrim"
	"palyra/internal/policy"
	"palyra/internal/store"
)

func testDaemon(tb testing.TB) *Daemon {
	tb.Helper()
	home := filepath.Join(tb.TempDir(), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		tb.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Home: home, Env: []string{}, Flags: map[string]string{
		"policy.preset": "ask",
		"process.dir":   filepath.Join(tb.TempDir(), "cells"),
	}})
	if err != nil {
		tb.Fatal(err)
	}
	d, err := New(tb.Context(), Config{Settings: cfg, Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// BenchmarkGate shows what a gated call costs beside a bare row that is made
// durable by the same group commit, in the same run: p50 and p99 of both and
// their ratio. The tool is palyra.echo, so what is measured is the path.
func BenchmarkGate(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(heaptrim.Slack)) // as the daemon has it
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			d := testDaemon(b)
			bare := bareCommit(b, d.db)
			call := func(ctx context.Context) error {
				_, err := d.path.calls.Call(ctx, palyra.Proposal{
					Proposer: palyra.Proposer{Principal: "agent:bench", Owner: "user:bench", Surface: palyra.SurfaceAPI},
					Tool:     "palyra.echo", Arguments: json.RawMessage(`{"text":"x"}`),
				}, palyra.Watch{})
				return err
			}
			b.ResetTimer()
			bareTimes := spread(b, callers, b.N, bare)
			before := cpuTime(b)
			gateTimes := spread(b, callers, b.N, call)
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "gate-cpu-µs")
			b.StopTimer()
			report(b, "bare", bareTimes)
			report(b, "gate", gateTimes)
			b.ReportMetric(float64(at(gateTimes, 50))/float64(at(bareTimes, 50)), "ratio-p50")
			if callers == 1 {
				b.ReportMetric(float64(at(gateTimes, 50))/float64(at(spread(b, 1, max(b.N, 100), bareSync(b)), 50)), "gate/fdatasync")
			} else {
				b.ReportMetric(float64(len(gateTimes)-1)/gateTimes[len(gateTimes)-1].Seconds(), "calls/s")
			}
			b.ReportMetric(0, "ns/op") // the sum of both means nothing
		})
	}
}

// BenchmarkProgram is a gated call of a program without the client and the door:
// plan, judge, record, sandbox, sign, record. In the same run it is held against
// a plain fork and exec of the program, and the gate's share is told apart.
func BenchmarkProgram(b *testing.B) {
	d := programDaemon(b)
	call := d.caller(b)
	plain := spread(b, 1, b.N, func(context.Context) error { return exec.Command("/bin/true").Run() })
	gate := spread(b, 1, b.N, call("palyra.echo", `{"text":"x"}`))
	whole := spread(b, 1, b.N, call("palyra.process.run", `{"command":"/bin/true"}`))
	rested := rest(b, min(b.N, 100), call("palyra.process.run", `{"command":"/bin/true"}`))
	report(b, "plain", plain)
	report(b, "gate", gate)
	report(b, "program", whole)
	b.ReportMetric(float64(at(rested, 50).Microseconds()), "rested-p50-µs")
	b.ReportMetric(float64(at(rested, 50))/float64(at(plain, 50)), "rested-ratio-p50")
	b.ReportMetric(float64(at(whole, 50))/float64(at(plain, 50)), "ratio-p50")
	b.ReportMetric(0, "ns/op")
}

// gated is a gated call of /bin/true.
func (d *Daemon) gated(b *testing.B) func(context.Context) error {
	return d.caller(b)("palyra.process.run", `{"command":"/bin/true"}`)
}

// caller makes calls in a workspace.
func (d *Daemon) caller(b *testing.B) func(tool, args string) func(context.Context) error {
	b.Helper()
	work := filepath.Join(b.TempDir(), "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		b.Fatal(err)
	}
	return func(tool, args string) func(context.Context) error {
		return func(ctx context.Context) error {
			out, err := d.path.calls.Call(ctx, palyra.Proposal{
				Proposer: palyra.Proposer{Principal: "agent:bench", Owner: "user:bench", Surface: palyra.SurfaceAPI, PeerUID: int64(os.Geteuid())},
				Tool:     palyra.ToolName(tool), Arguments: json.RawMessage(args), Workspace: work,
			}, palyra.Watch{})
			if err == nil && (out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0) {
				err = fmt.Errorf("%+v", out)
			}
			return err
		}
	}
}

// rest leaves time between the calls, as an agent that thinks does: then a cell is
// always ready. One call after the other waits for cells to be started.
func rest(b *testing.B, n int, f func(context.Context) error) []time.Duration {
	b.Helper()
	var all []time.Duration
	for range n {
		<-time.After(40 * time.Millisecond)
		t := time.Now()
		if err := f(b.Context()); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(t))
	}
	slices.Sort(all)
	return append(all, 0)
}

// programDaemon runs programs without a question.
func programDaemon(b *testing.B) *Daemon {
	b.Helper()
	dir := b.TempDir()
	cell := filepath.Join(dir, "palyra-cell")
	build := exec.Command("go", "build", "-o", cell, "palyra/cmd/palyra-cell")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(cell)
	if err != nil {
		b.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		b.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Home: home, Env: []string{}, Flags: map[string]string{
		"process.dir": filepath.Join(dir, "cells"), "process.cell": cell, "process.warm": "4", "tool_call.daily_bytes": "1099511627776",
	}})
	if err != nil {
		b.Fatal(err)
	}
	d, err := New(b.Context(), Config{
		Settings: cfg, Version: "test", CellDigest: fmt.Sprintf("%x", sha256.Sum256(raw)),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close() })
	bundle, err := policy.Load(fstest.MapFS{"all.cedar": {Data: []byte(`@id("all") permit (principal, action, resource);`)}})
	if err != nil {
		b.Fatal(err)
	}
	if err := d.policy.Swap(policy.Config{Bundle: bundle, Snapshot: d.policy.Snapshot()}); err != nil {
		b.Fatal(err)
	}
	return d
}

// bareCommit writes one short row through the same store.
func bareCommit(b *testing.B, db *store.DB) func(context.Context) error {
	exec := func(q string, args ...any) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			_, err := tx.Exec(q, args...)
			return err
		}
	}
	if err := db.Write(b.Context(), "bench", exec(`CREATE TABLE bare (v BLOB)`)); err != nil {
		b.Fatal(err)
	}
	row := make([]byte, 256)
	return func(ctx context.Context) error {
		return db.Write(ctx, "bench", exec(`INSERT INTO bare (v) VALUES (?)`, row))
	}
}

// bareSync appends as much to a file as the least commit writes, and waits for the disk.
func bareSync(b *testing.B) func(context.Context) error {
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	page := make([]byte, 4096)
	return func(context.Context) error {
		_, err := f.Write(page)
		return errors.Join(err, syncData(f))
	}
}

// BenchmarkHeap is a gated program of a daemon with 1 GiB of heap, in turns with one without: nothing on the way may
// copy or look through it.
func BenchmarkHeap(b *testing.B) {
	d := programDaemon(b)
	run := d.gated(b)
	var light, heavy []time.Duration
	for b.Loop() {
		light = append(light, rest(b, 10, run)[:10]...)
		ballast := make([][]byte, 1<<10)
		for i := range ballast {
			ballast[i] = make([]byte, 1<<20)
			for at := 0; at < 1<<20; at += 4096 {
				ballast[i][at] = 1
			}
		}
		heavy = append(heavy, rest(b, 10, run)[:10]...)
		runtime.KeepAlive(ballast)
		ballast = nil
		debug.FreeOSMemory()
	}
	slices.Sort(light)
	slices.Sort(heavy)
	b.ReportMetric(float64(heavy[len(heavy)/2])/float64(light[len(light)/2]), "heavy/light")
	b.ReportMetric(0, "ns/op")
}

// spread runs f n times on several goroutines and returns how long each took.
func spread(b *testing.B, callers, n int, f func(context.Context) error) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	start := time.Now()
	for i := range callers {
		wg.Go(func() {
			var mine []time.Duration
			for range n/callers + min(1, max(0, n%callers-i)) {
				t := time.Now()
				if err := f(b.Context()); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	slices.Sort(all)
	return append(all, time.Since(start)) // the last is the whole span
}

func at(times []time.Duration, percent int) time.Duration {
	one := times[:len(times)-1]
	if len(one) == 0 {
		return 0
	}
	return one[min(len(one)-1, len(one)*percent/100)]
}

func report(b *testing.B, name string, times []time.Duration) {
	b.ReportMetric(float64(at(times, 50).Microseconds()), name+"-p50-µs")
	b.ReportMetric(float64(at(times, 99).Microseconds()), name+"-p99-µs")
	b.ReportMetric(float64(len(times)-1)/times[len(times)-1].Seconds(), name+"/s")
}
