package engine_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/wasm"
	"palyra/internal/wasm/engine"
	"palyra/internal/wasm/wasmtest"
)

// TestOrdinaryUser runs every other test of the package as somebody who may do nothing special.
func TestOrdinaryUser(t *testing.T) {
	wasmtest.Program(t)
	if os.Geteuid() == 0 { // what takes long is done once, and shared
		wasmtest.Escaping(t)
		if _, _, err := guest(t, wasmtest.Engine(t, engine.Config{}), wasm.Grants{}, wasm.Host{}); err != nil {
			t.Fatal(err)
		}
		wasmtest.Share(t)
	}
	celltest.AsOrdinary(t, ".", 30)
}

// lean is a module of the ABI of exports, with a function and more.
func lean(body, more string) string {
	return `(module ` + strings.ReplaceAll(more, "IMPORT", "import") + `
  (memory (export "memory") 1)
  (func (export "palyra_alloc") (param i32) (result i32) i32.const 1024)
  (func (export "run") (param i32 i32) (result i64) ` + body + ` (i64.const 0)))`
}

const logImport = `(import "palyra" "log" (func $log (param i64 i32 i32 i32) (result i32)))
  (import "palyra" "handle" (func $handle (param i32 i32 i32 i32) (result i64)))
  (data (i32.const 0) "log")`

// invoke runs the function "run" of a module.
func invoke(t testing.TB, e *engine.Engine, m wasm.Module, l wasm.Limits, g wasm.Grants) (wasm.Result, error) {
	t.Helper()
	return e.Run(t.Context(), wasm.Invocation{Module: m, Kind: wasm.Export, Function: "run", Input: []byte(`{}`), Limits: l, Grants: g})
}

// wants fails unless the error has the reason, and what every refusal has.
func wants(t testing.TB, err error, reason palyra.Reason) {
	t.Helper()
	e := palyra.AsError(err)
	if err == nil || e.Reason != reason || e.Remedy == "" || e.Text == "" {
		t.Errorf("%v %q, remedy %q, of %v; want %s", e.Reason, e.Text, e.Remedy, err, reason)
	}
}

// TestBadModulesEndByTheirLimits: what a module does to its host ends by the name of the limit, soon, and the next
// invocation finds a worker as before.
func TestBadModulesEndByTheirLimits(t *testing.T) {
	t.Parallel()
	e := wasmtest.Engine(t, engine.Config{})
	quick := wasm.Limits{Fuel: 20_000_000, Deadline: 5 * time.Second}
	slow := wasm.Limits{Fuel: 1 << 62, Deadline: 200 * time.Millisecond}
	loop := `(loop $l (br $l))`
	for _, c := range []struct {
		name, text string
		limits     wasm.Limits
		grants     wasm.Grants
		want       palyra.Reason
	}{
		{"infinite loop", lean(loop, ""), quick, wasm.Grants{}, wasm.ReasonFuel},
		{"infinite loop with all fuel", lean(loop, ""), slow, wasm.Grants{}, wasm.ReasonDeadline},
		{"start that loops", lean("", `(start $s) (func $s `+loop+`)`), quick, wasm.Grants{}, wasm.ReasonFuel},
		{"start that loops with all fuel", lean("", `(start $s) (func $s `+loop+`)`), slow, wasm.Grants{}, wasm.ReasonDeadline},
		{
			"memory growth", lean(`(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable`, ""),
			quick,
			wasm.Grants{},
			wasm.ReasonMemory,
		},
		{"memory from the beginning", strings.Replace(lean("", ""), `"memory") 1`, `"memory") 2000`, 1), quick, wasm.Grants{}, wasm.ReasonMemory},
		{"a huge table", lean("", "(table 10000001 funcref)"), quick, wasm.Grants{}, wasm.ReasonTable},
		{"many tables", lean("", strings.Repeat("(table 60000 funcref)", 90)), quick, wasm.Grants{}, wasm.ReasonTable},
		{"recursion", lean(`call $r`, `(func $r (call $r) (call $r))`), quick, wasm.Grants{}, wasm.ReasonStack},
		{"unreachable", lean(`unreachable`, ""), quick, wasm.Grants{}, wasm.ReasonTrap},
		{"a division by zero", lean(`(drop (i32.div_u (i32.const 1) (i32.const 0)))`, ""), quick, wasm.Grants{}, wasm.ReasonTrap},
		{"memory that is not there", lean(`(drop (i32.load (i32.const 100000)))`, ""), quick, wasm.Grants{}, wasm.ReasonTrap},
		{
			"a storm of host calls", lean(`(local $h i64) (local.set $h (call $handle (i32.const 0) (i32.const 3) (i32.const 0) (i32.const 0)))
			  (loop $l (drop (call $log (local.get $h) (i32.const 0) (i32.const 3) (i32.const 1))) (br $l))`, logImport),
			quick,
			wasm.Grants{Log: true},
			wasm.ReasonHostCalls,
		},
		{
			"a storm of dear host calls", lean(`(local $h i64) (local.set $h (call $handle (i32.const 0) (i32.const 3) (i32.const 0) (i32.const 0)))
			  (loop $l (drop (call $log (local.get $h) (i32.const 0) (i32.const 60000) (i32.const 1))) (br $l))`, logImport),
			wasm.Limits{Fuel: 20_000_000, HostCalls: 1 << 30, HostBytes: 1 << 20},
			wasm.Grants{Log: true},
			wasm.ReasonHostBytes,
		},
		{
			"fuel burnt in host calls", lean(`(local $h i64) (local.set $h (call $handle (i32.const 0) (i32.const 3) (i32.const 0) (i32.const 0)))
			  (loop $l (drop (call $log (local.get $h) (i32.const 0) (i32.const 60000) (i32.const 1))) (br $l))`, logImport),
			wasm.Limits{Fuel: 1_000_000, HostCalls: 1 << 30},
			wasm.Grants{Log: true},
			wasm.ReasonFuel,
		},
		{
			"host calls that the worker answers", lean(`(loop $l (drop (call $handle (i32.const 0) (i32.const 3) (i32.const 0) (i32.const 0))) (br $l))`,
				logImport), quick, wasm.Grants{}, wasm.ReasonFuel,
		},
		{
			"a guessed handle", lean(`(drop (call $log (i64.const 1) (i32.const 0) (i32.const 3) (i32.const 1)))`, logImport),
			quick,
			wasm.Grants{Log: true},
			wasm.ReasonHandle,
		},
		{
			"no handle", lean(`(drop (call $log (i64.const 0) (i32.const 0) (i32.const 3) (i32.const 1)))`, logImport),
			quick,
			wasm.Grants{Log: true},
			wasm.ReasonHandle,
		},
		{
			"a handle for something else", lean(`(drop (call $clock (call $handle (i32.const 0) (i32.const 3) (i32.const 0) (i32.const 0))))`,
				`(import "palyra" "clock" (func $clock (param i64) (result i64)))`+logImport),
			quick,
			wasm.Grants{Log: true, Clock: true},
			wasm.ReasonHandle,
		},
		{
			"a pointer out of memory", lean(`(drop (call $log (i64.const 1) (i32.const 65530) (i32.const 100) (i32.const 1)))`, logImport),
			quick,
			wasm.Grants{},
			wasm.ReasonPointer,
		},
		{
			"a pointer that wraps", lean(`(drop (call $log (i64.const 1) (i32.const -1) (i32.const -1) (i32.const 1)))`, logImport),
			quick,
			wasm.Grants{},
			wasm.ReasonPointer,
		},
		{"an output out of memory", lean(`(return (i64.const 0x7fffffff00000010))`, ""), quick, wasm.Grants{}, wasm.ReasonPointer},
		{"an output that is too large", lean(`(return (i64.const 60000))`, ""), wasm.Limits{Output: 1000}, wasm.Grants{}, wasm.ReasonOutput},
		{"no JSON", lean(`(return (i64.const 3))`, `(data (i32.const 0) "abc")`), quick, wasm.Grants{}, wasm.ReasonNotJSON},
		{"nothing", lean(``, ""), quick, wasm.Grants{}, wasm.ReasonNotJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := wasmtest.Wat(t, c.text)
			began := time.Now()
			r, err := invoke(t, e, m, c.limits, c.grants)
			wants(t, err, c.want)
			if took := r.Took; took > 5*5*time.Second {
				t.Errorf("it took %s, with the compiler %s", took, time.Since(began))
			}
			free := []palyra.Reason{wasm.ReasonMemory, wasm.ReasonTable, wasm.ReasonNotJSON, wasm.ReasonDeadline}
			if r.Fuel == 0 && !slices.Contains(free, c.want) {
				t.Errorf("no fuel used: %+v", r)
			}
			if c.want == wasm.ReasonHandle && (len(r.Used) == 0 || r.Used[0].Refused == 0) {
				t.Errorf("no record of the handle: %+v", r.Used)
			}
			if r, err := invoke(t, e, wasmtest.Wat(t, echo), wasm.Limits{}, wasm.Grants{}); err != nil || string(r.Output) != "{}" {
				t.Errorf("the next one: %+v %v", r, err)
			}
		})
	}
}

// TestBadModulesAreRefused: what is not right is said before anything runs.
func TestBadModulesAreRefused(t *testing.T) {
	t.Parallel()
	e := wasmtest.Engine(t, engine.Config{})
	good := wasmtest.Wat(t, echo)
	binary, _ := good.Bytes()
	for _, c := range []struct {
		name string
		m    wasm.Module
		want palyra.Reason
	}{
		{"no module", wasmtest.Module([]byte("hello")), wasm.ReasonBadModule},
		{"nothing", wasmtest.Module(nil), wasm.ReasonBadModule},
		{"half a module", wasmtest.Module(binary[:len(binary)/2]), wasm.ReasonBadModule},
		{"another's digest", wasm.Module{Digest: palyra.SumBytes([]byte("x")), Bytes: good.Bytes}, wasm.ReasonDigest},
		{"too large", wasmtest.Module(make([]byte, 17<<20)), wasm.ReasonTooLarge},
		{"an import that is not offered", wasmtest.Wat(t, lean("", `(import "env" "system" (func (param i32)))`)), wasm.ReasonImport},
		{"an import that would show a secret", wasmtest.Wat(t, lean("", `(import "palyra" "secret_reveal" (func (param i64) (result i32)))`)), wasm.ReasonImport},
		{"an import of another type", wasmtest.Wat(t, lean("", `(import "palyra" "log" (func (param i32)))`)), wasm.ReasonImport},
		{"an imported memory", wasmtest.Wat(t, lean("", `(import "palyra" "memory" (table 1 funcref))`)), wasm.ReasonImport},
		{"no function", wasmtest.Wat(t, strings.Replace(echo, `"run"`, `"ran"`, 1)), wasm.ReasonExport},
		{"no memory", wasmtest.Wat(t, strings.Replace(echo, `"memory"`, `"mem"`, 1)), wasm.ReasonExport},
		{"another type", wasmtest.Wat(t, strings.Replace(echo, `(param i32) (result i32)`, `(param i64) (result i32)`, 1)), wasm.ReasonExport},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := invoke(t, e, c.m, wasm.Limits{}, wasm.Grants{})
			wants(t, err, c.want)
			if err := e.Check(t.Context(), c.m, wasm.Export, []string{"run"}, wasm.Limits{}); palyra.AsError(err).Reason != c.want {
				t.Errorf("check: %v", err)
			}
		})
	}
	if err := e.Check(t.Context(), good, wasm.Export, []string{"run"}, wasm.Limits{}); err != nil {
		t.Error(err)
	}
	if err := e.Check(t.Context(), good, wasm.Command, nil, wasm.Limits{}); palyra.AsError(err).Reason != wasm.ReasonExport {
		t.Errorf("as a command: %v", err)
	}
	_, err := e.Run(t.Context(), wasm.Invocation{Module: good, Kind: wasm.Export, Function: "run", Input: []byte(`{`)})
	wants(t, palyra.AsError(err).WithRemedy("-"), palyra.ReasonMalformedInput)
	_, err = e.Run(t.Context(), wasm.Invocation{
		Module: good, Kind: wasm.Export, Function: "run", Input: []byte(`"` + strings.Repeat("x", 100) + `"`), Limits: wasm.Limits{Input: 10},
	})
	wants(t, err, wasm.ReasonInput)
}

// recorder remembers what was started.
type recorder struct {
	engine.Starter
	mu  sync.Mutex
	all []*engine.Process
}

func (r *recorder) Start(ctx context.Context, memory int64) (*engine.Process, error) {
	p, err := r.Starter.Start(ctx, memory)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.all = append(r.all, p)
	}
	return p, err
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// TestAWorkerThatIsKilledOrStalls costs its own invocation; others go on, and the next finds a new one.
func TestAWorkerThatIsKilledOrStalls(t *testing.T) {
	r := &recorder{Starter: wasmtest.Starter(t)}
	e := wasmtest.Engine(t, engine.Config{Starter: r, Grace: 200 * time.Millisecond})
	long := wasm.Limits{Fuel: 1 << 62, Deadline: time.Second}
	loop, other := wasmtest.Wat(t, lean(`(loop $l (br $l))`, "")), wasmtest.Wat(t, echo)
	for name, c := range map[string]struct {
		signal unix.Signal
		want   palyra.Reason
	}{"killed": {unix.SIGKILL, wasm.ReasonWorkerDied}, "stalled": {unix.SIGSTOP, wasm.ReasonStalled}} {
		t.Run(name, func(t *testing.T) {
			if _, err := invoke(t, e, other, wasm.Limits{}, wasm.Grants{}); err != nil {
				t.Fatal(err)
			}
			_, err := invoke(t, e, loop, wasm.Limits{Fuel: 1000}, wasm.Grants{}) // a worker with the module
			wants(t, err, wasm.ReasonFuel)
			before := wasmtest.Workers(t)
			done := make(chan error, 1)
			go func() {
				_, err := invoke(t, e, loop, long, wasm.Grants{})
				done <- err
			}()
			<-time.After(200 * time.Millisecond)
			busy := before[0]
			for _, pid := range before {
				if cpu(t, pid) > cpu(t, busy) {
					busy = pid
				}
			}
			if err := unix.Kill(busy, c.signal); err != nil {
				t.Fatal(err)
			}
			if _, err := invoke(t, e, other, wasm.Limits{}, wasm.Grants{}); err != nil { // meanwhile
				t.Error(err)
			}
			wants(t, <-done, c.want)
			_, err = invoke(t, e, loop, wasm.Limits{Fuel: 1000}, wasm.Grants{})
			wants(t, err, wasm.ReasonFuel)
			if unix.Kill(busy, 0) == nil {
				gone(t, busy)
			}
		})
	}
}

// gone waits until a process is no more.
func gone(t testing.TB, pid int) {
	t.Helper()
	for range 500 {
		if unix.Kill(pid, 0) != nil {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
}

// cpu is the time that a process used, in ticks.
func cpu(t testing.TB, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	n, _ := strconv.Atoi(strings.Fields(rest)[11])
	return n
}

// TestCancelEndsTheWork: nobody works for a caller who has gone.
func TestCancelEndsTheWork(t *testing.T) {
	e := wasmtest.Engine(t, engine.Config{})
	loop := wasmtest.Wat(t, lean(`(loop $l (br $l))`, ""))
	_, err := invoke(t, e, loop, wasm.Limits{Fuel: 1000}, wasm.Grants{})
	wants(t, err, wasm.ReasonFuel)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	_, err = e.Run(ctx, wasm.Invocation{
		Module: loop, Kind: wasm.Export, Function: "run", Input: []byte("{}"), Limits: wasm.Limits{Fuel: 1 << 62, Deadline: time.Minute},
	})
	if e := palyra.AsError(err); e.Reason != palyra.ReasonCancelled || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	for _, pid := range wasmtest.Workers(t) {
		gone(t, pid)
	}
}

// TestAThousandInstances: instances leave nothing behind in their worker.
func TestAThousandInstances(t *testing.T) {
	e := wasmtest.Engine(t, engine.Config{})
	m := wasmtest.Wat(t, lean(`(drop (memory.grow (i32.const 100))) (memory.fill (i32.const 0) (i32.const 1) (i32.const 100000)) (return (i64.const 0x7530_00000001))`,
		`(data (i32.const 0) "7")`))
	run := func(n int) {
		for range n {
			if _, err := invoke(t, e, m, wasm.Limits{}, wasm.Grants{}); err != nil {
				if palyra.AsError(err).Reason != wasm.ReasonNotJSON {
					t.Fatal(err)
				}
			}
		}
	}
	run(300) // until its heap is as large as it becomes
	workers := wasmtest.Workers(t)
	if len(workers) != 1 {
		t.Fatalf("%d workers", len(workers))
	}
	before := wasmtest.Resident(t, workers[0])
	run(1000)
	after := wasmtest.Resident(t, workers[0])
	if w := wasmtest.Workers(t); len(w) != 1 || w[0] != workers[0] {
		t.Errorf("workers %v, then %v", workers, w)
	}
	t.Logf("%d KiB, then %d", before>>10, after>>10)
	if after > before+8<<20 {
		t.Errorf("%d bytes, and a thousand instances later %d", before, after)
	}
}

// TestWorkersAreNotKeptForever: idle ones end, and so do those beyond the number that is kept.
func TestWorkersAreNotKeptForever(t *testing.T) {
	r := &recorder{Starter: wasmtest.Starter(t)}
	e := wasmtest.Engine(t, engine.Config{Starter: r, Keep: 1, Idle: 300 * time.Millisecond})
	for i := range 3 {
		m := wasmtest.Wat(t, strings.Replace(echo, "1024", strconv.Itoa(2048+i), 1))
		if _, err := invoke(t, e, m, wasm.Limits{}, wasm.Grants{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range r.all {
		select {
		case <-p.Done:
		case <-time.After(10 * time.Second):
			t.Fatal("a worker does not end")
		}
	}
}
