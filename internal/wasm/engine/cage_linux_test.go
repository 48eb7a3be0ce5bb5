package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/wasm"
	"palyra/internal/wasm/engine"
	"palyra/internal/wasm/wasmtest"
)

// TestAWorkerReachesNothing: a module that is let out of its box on purpose has the rights of its worker, and those are
// none: no file, no network, no process, nobody else's memory, no descriptor beside its pipes.
func TestAWorkerReachesNothing(t *testing.T) {
	program, sum := wasmtest.Escaping(t)
	e := wasmtest.Engine(t, engine.Config{Starter: wasmtest.StarterOf(t, program, sum)})
	m := wasmtest.Wat(t, strings.Replace(lean(`(return (i64.extend_i32_u (call $escape (i32.const 0) (i32.const 60000))))`,
		`(import "palyra" "escape" (func $escape (param i32 i32) (result i32)))`), "65536", "65536", 1))
	r, err := invoke(t, e, m, wasm.Limits{}, wasm.Grants{})
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]string
	if err := json.Unmarshal(r.Output, &said); err != nil {
		t.Fatal(err)
	}
	if len(said) < 40 {
		t.Errorf("only %d things were tried", len(said))
	}
	for what, became := range said {
		switch {
		case what == "environment":
			if became != "0" {
				t.Errorf("%s variables", became)
			}
		case strings.HasPrefix(what, "descriptor"):
			if became != "0" && became != "10000" { // of the kernel's own, without a file; of pipes
				t.Errorf("%s is open: a file of type %s", what, became)
			}
		case !strings.HasSuffix(became, "operation not permitted") && !strings.HasSuffix(became, "function not implemented"):
			t.Errorf("a worker may %s: %s", what, became)
		}
	}
	t.Logf("%v", said)
	if _, err := os.Stat("/tmp/escaped"); err == nil {
		t.Error("it made a file")
	}
	if _, err := invoke(t, wasmtest.Engine(t, engine.Config{}), m, wasm.Limits{}, wasm.Grants{}); err == nil {
		t.Error("the runtime that is shipped has the hole")
	}
}

// artifacts are the files of a cache.
func artifacts(t testing.TB, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.artifact"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestArtifactsAreLoadedOnlyAsTheyWereSealed: what somebody changed on disk is never given to a worker. The number of
// workers says so: one that compiles and one that runs, or the latter alone.
func TestArtifactsAreLoadedOnlyAsTheyWereSealed(t *testing.T) {
	dir, key := t.TempDir(), []byte(strings.Repeat("k", 32))
	one, two := wasmtest.Wat(t, echo), wasmtest.Wat(t, strings.Replace(echo, "1024", "4096", 1))
	start := wasmtest.Starter(t)
	run := func(t *testing.T, key []byte, m wasm.Module) int {
		t.Helper()
		r := &recorder{Starter: start}
		e := wasmtest.Engine(t, engine.Config{Starter: r, Dir: dir, Key: key})
		got, err := invoke(t, e, m, wasm.Limits{}, wasm.Grants{})
		if err != nil || string(got.Output) != "{}" {
			t.Fatalf("%+v %v", got, err)
		}
		return r.count()
	}
	if n := run(t, key, one); n != 2 {
		t.Errorf("%d workers for a new module", n)
	}
	if n := run(t, key, one); n != 1 {
		t.Errorf("%d workers for a module that was compiled", n)
	}
	path := artifacts(t, dir)[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() []byte{
		"a bit of the code":   func() []byte { b := []byte(string(whole)); b[len(b)/2] ^= 1; return b },
		"the last bit":        func() []byte { b := []byte(string(whole)); b[len(b)-1] ^= 0x80; return b },
		"a bit of the seal":   func() []byte { b := []byte(string(whole)); b[30] ^= 1; return b },
		"the first bit":       func() []byte { b := []byte(string(whole)); b[0] ^= 1; return b },
		"the end is missing":  func() []byte { return whole[:len(whole)-1] },
		"all but the seal":    func() []byte { return whole[:50] },
		"nothing":             func() []byte { return nil },
		"something behind it": func() []byte { return append([]byte(string(whole)), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, change(), 0o600); err != nil {
				t.Fatal(err)
			}
			if n := run(t, key, one); n != 2 {
				t.Errorf("%d workers", n)
			}
			if now, err := os.ReadFile(path); err != nil || len(now) != len(whole) {
				t.Errorf("it is not made anew: %d bytes, %v", len(now), err)
			}
		})
	}
	if n := run(t, []byte(strings.Repeat("x", 32)), one); n != 2 {
		t.Errorf("%d workers with another key", n)
	}
	run(t, key, one)
	run(t, key, two)
	for _, p := range artifacts(t, dir) { // one module's code under the other's name
		if p != path {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := run(t, key, one); n != 2 {
		t.Errorf("%d workers for another module's code", n)
	}
}
