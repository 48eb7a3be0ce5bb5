package engine_test

import (
	"os"
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

func TestEcho(t *testing.T) {
	e := wasmtest.Engine(t, engine.Config{})
	for range 3 {
		r, err := e.Run(t.Context(), wasm.Invocation{Module: wasmtest.Wat(t, echo), Kind: wasm.Export, Function: "run", Input: []byte(`{"a":1}`)})
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Logf("%+v", r)
		if string(r.Output) != `{"a":1}` {
			t.Errorf("%s", r.Output)
		}
	}
}
