package engine_test

import (
	"os"
	"strings"
	"testing"

	"palyra/internal/wasm"
	"palyra/internal/wasm/engine"
	"palyra/internal/wasm/wasmtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	wasmtest.Clean()
	os.Exit(code)
}

const echo = `(module
  (memory (export "memory") 1)
  (func (export "palyra_alloc") (param i32) (result i32) i32.const 1024)
  (func (export "run") (param i32 i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32)) (i64.extend_i32_u (local.get 1)))))`

// TestEcho also holds the name of the runtime in attestations against the module that is linked.
func TestEcho(t *testing.T) {
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		mod = []byte("wasmtime-go/v44 v44.0.0\n") // as an ordinary user, elsewhere
	}
	_, rest, _ := strings.Cut(string(mod), "wasmtime-go/v44 v")
	version, _, _ := strings.Cut(rest, "\n")
	e := wasmtest.Engine(t, engine.Config{})
	for range 3 {
		r, err := e.Run(t.Context(), wasm.Invocation{Module: wasmtest.Wat(t, echo), Kind: wasm.Export, Function: "run", Input: []byte(`{"a":1}`)})
		if err != nil {
			t.Fatalf("%v", err)
		}
		if string(r.Output) != `{"a":1}` || r.Runtime != "wasmtime "+version || r.Fuel == 0 || r.ABI != wasm.ABI {
			t.Errorf("%+v", r)
		}
	}
}
