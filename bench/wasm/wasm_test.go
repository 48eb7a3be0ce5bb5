//go:build linux

// Package wasm measures the runtime of skills, beside wazero.
package wasm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"palyra/internal/sandbox/celltest"
	"palyra/internal/wasm"
	"palyra/internal/wasm/engine"
	"palyra/internal/wasm/wasmtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	wasmtest.Clean()
	os.Exit(code)
}

const trivial = `(module
  (memory (export "memory") 1)
  (func (export "palyra_alloc") (param i32) (result i32) i32.const 1024)
  (func (export "run") (param i32 i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32)) (i64.extend_i32_u (local.get 1)))))`

// busy works on the processor: calls, arithmetic, memory.
const busy = `(module
  (memory (export "memory") 16)
  (func $fib (param i32) (result i32)
    (if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
      (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
  (func $sieve (local $i i32) (local $j i32)
    (memory.fill (i32.const 0) (i32.const 0) (i32.const 1000000))
    (local.set $i (i32.const 2))
    (loop $a
      (if (i32.eqz (i32.load8_u (local.get $i))) (then
        (local.set $j (i32.mul (local.get $i) (i32.const 2)))
        (loop $b
          (i32.store8 (local.get $j) (i32.const 1))
          (local.set $j (i32.add (local.get $j) (local.get $i)))
          (br_if $b (i32.lt_u (local.get $j) (i32.const 1000000))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $a (i32.lt_u (local.get $i) (i32.const 1000)))))
  (func $hash (result i32) (local $h i32) (local $i i32)
    (local.set $h (i32.const 0x811c9dc5))
    (loop $a
      (local.set $h (i32.mul (i32.xor (local.get $h) (i32.load8_u (i32.and (local.get $i) (i32.const 0xfffff)))) (i32.const 16777619)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $a (i32.lt_u (local.get $i) (i32.const 20000000))))
    (local.get $h))
  (func (export "work")
    (drop (call $fib (i32.const 30)))
    (call $sieve)
    (drop (call $hash))))`

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSkill measures in one run: compiling a module of Go's without anything that is kept, the first call with what is
// on disk, a call of a trivial function with a worker at hand, and what 1,000 of those leave in their worker; and the same of
// wazero in the process, which isolates nothing.
func BenchmarkSkill(b *testing.B) {
	start, dir := wasmtest.Starter(b), b.TempDir()
	fresh := func(dir string) *engine.Engine {
		return wasmtest.Engine(b, engine.Config{Starter: start, Dir: dir, Key: make([]byte, 32)})
	}
	small, large := wasmtest.Wat(b, trivial), wasmtest.Guest(b)
	call := func(e *engine.Engine, m wasm.Module, k wasm.Kind, in string) {
		_, err := e.Run(b.Context(), wasm.Invocation{Module: m, Kind: k, Function: "run", Input: []byte(in)})
		must(b, err)
	}
	binary, err := large.Bytes()
	must(b, err)
	tiny, err := small.Bytes()
	must(b, err)
	warm := fresh(dir)
	call(warm, small, wasm.Export, "{}")
	call(warm, large, wasm.Command, "[]")
	ctx := context.Background()
	other := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCloseOnContextDone(true))
	defer func() { _ = other.Close(ctx) }()
	compiled, err := other.CompileModule(ctx, tiny)
	must(b, err)
	var colds, cacheds, warms, guests, compiles, others []time.Duration
	for b.Loop() {
		colds = append(colds, celltest.Timed(func() { call(fresh(b.TempDir()), large, wasm.Command, "[]") }))
		cacheds = append(cacheds, celltest.Timed(func() { call(fresh(dir), large, wasm.Command, "[]") }))
		compiles = append(compiles, celltest.Timed(func() {
			r := wazero.NewRuntime(ctx)
			_, err := r.CompileModule(ctx, binary)
			must(b, err)
			_ = r.Close(ctx)
		}))
		for range 100 {
			warms = append(warms, celltest.Timed(func() { call(warm, small, wasm.Export, "{}") }))
			others = append(others, celltest.Timed(func() {
				m, err := other.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName(""))
				must(b, err)
				_, err = m.ExportedFunction("run").Call(ctx, 1024, 2)
				must(b, err)
				_ = m.Close(ctx)
			}))
		}
		for range 5 {
			guests = append(guests, celltest.Timed(func() { call(warm, large, wasm.Command, "[]") }))
		}
	}
	left := kept(b, func() { call(warm, small, wasm.Export, "{}") })
	ms := func(all []time.Duration) float64 { return float64(celltest.At(all, 50).Microseconds()) / 1000 }
	b.ReportMetric(ms(colds), "cold-ms")
	b.ReportMetric(ms(compiles), "wazero-compile-ms")
	b.ReportMetric(ms(colds)/ms(compiles), "cold/wazero")
	b.ReportMetric(ms(cacheds), "cached-ms")
	b.ReportMetric(ms(cacheds)/ms(colds), "cached/cold")
	b.ReportMetric(float64(left)/(1<<20), "kept-MiB")
	b.ReportMetric(1000*ms(warms), "warm-p50-µs")
	b.ReportMetric(float64(celltest.At(warms, 99).Microseconds()), "warm-p99-µs")
	b.ReportMetric(1000*ms(others), "wazero-p50-µs")
	b.ReportMetric(ms(guests), "go-guest-p50-ms")
}

// kept is by how much workers have grown after 1,000 calls, once their heaps are as large as they become.
func kept(b *testing.B, call func()) int64 {
	b.Helper()
	all := func() (n int64) {
		for _, pid := range wasmtest.Workers(b) {
			n += wasmtest.Resident(b, pid)
		}
		return n
	}
	for range 2000 {
		call()
	}
	before := all()
	for range 1000 {
		call()
	}
	return max(all()-before, 0)
}

// BenchmarkFuel compares work on the processor with fuel, as modules have it here, with the same without, and with wazero, in one run
// and in turns. The tightest loops are slower by more, such as one that only stores bytes; calls by less.
func BenchmarkFuel(b *testing.B) {
	dir := b.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", dir, "./fueled")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	m := wasmtest.Wat(b, busy)
	binary, err := m.Bytes()
	must(b, err)
	path := filepath.Join(dir, "busy.wasm")
	must(b, os.WriteFile(path, binary, 0o600))
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCloseOnContextDone(true))
	defer func() { _ = r.Close(ctx) }()
	other, err := r.Instantiate(ctx, binary)
	must(b, err)
	var on, off, wazeros []time.Duration
	for b.Loop() {
		out, err := exec.Command(filepath.Join(dir, "fueled"), path).Output()
		must(b, err)
		f := strings.Fields(string(out))
		for i, all := range []*[]time.Duration{&on, &off} {
			n, err := strconv.ParseInt(f[i], 10, 64)
			must(b, err)
			*all = append(*all, time.Duration(n))
		}
		wazeros = append(wazeros, celltest.Timed(func() {
			_, err := other.ExportedFunction("work").Call(ctx)
			must(b, err)
		}))
	}
	n, f, w := celltest.At(on, 50), celltest.At(off, 50), celltest.At(wazeros, 50)
	b.ReportMetric(float64(f.Microseconds())/1000, "plain-ms")
	b.ReportMetric(float64(n)/float64(f), "fuel/plain")
	b.ReportMetric(float64(w)/float64(n), "wazero/fuel")
}
