package tiera

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/sandbox/bare"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/wasm"
	"palyra/internal/wasm/wasmtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	wasmtest.Clean()
	os.Exit(code)
}

// tier is tier A with a program in cells.
func tier(t *testing.T, state, program, digest string) *TierA {
	t.Helper()
	cell, sum := celltest.Cell(t)
	a := New(Config{Digest: digest, State: state, Log: celltest.Log(t), Open: func() (Cells, error) {
		d, err := bare.New(bare.Config{
			Cell: cell, Digest: sum, StateID: celltest.StateID(), Kind: "w", Name: "palyra-wasm", Program: program, ProgramDigest: digest,
			Remedy: NoCompiler, Log: celltest.Log(t),
		})
		return CellsOf(d), err
	}})
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// TestWithoutARuntimeSkillsAreOff: the rest of the daemon does not care, and a status says why and what to do.
func TestWithoutARuntimeSkillsAreOff(t *testing.T) {
	program, digest := wasmtest.Program(t)
	for name, c := range map[string]struct{ program, digest string }{
		"built without a C compiler": {program, ""},
		"not installed":              {filepath.Join(t.TempDir(), "palyra-wasm"), digest},
	} {
		a := tier(t, t.TempDir(), c.program, c.digest)
		_, err := a.Runner().Run(t.Context(), wasm.Invocation{})
		for _, err := range []error{a.Runner().Ready(), err, a.Runner().Check(t.Context(), wasm.Module{}, wasm.Command, nil, wasm.Limits{})} {
			if e := palyra.AsError(err); e.Reason != wasm.ReasonNoRuntime || !strings.Contains(e.Remedy, "C compiler") {
				t.Errorf("%s: %v %q %q", name, e.Reason, e.Text, e.Remedy)
			}
		}
		before := map[string]string{"tier_c": "on"}
		if f := a.Feature(before); !strings.Contains(f["skills"], "skills are off") || f["tier_c"] != "on" || len(before) != 1 {
			t.Errorf("%s: %v", name, f)
		}
	}
	a := tier(t, t.TempDir(), program, strings.Repeat("0", 64))
	e := palyra.AsError(run(t, a))
	if e.Reason != palyra.ReasonTierUnavailable || e.Remedy == "" { // another program than the one that was built
		t.Errorf("%v %q", e.Reason, e.Text)
	}
}

func run(t *testing.T, a *TierA) error {
	t.Helper()
	m := wasmtest.Wat(t, `(module (memory (export "memory") 1) (data (i32.const 0) "7")
	  (func (export "palyra_alloc") (param i32) (result i32) i32.const 8) (func (export "run") (param i32 i32) (result i64) i64.const 1))`)
	r, err := a.Runner().Run(t.Context(), wasm.Invocation{Module: m, Kind: wasm.Export, Function: "run", Input: []byte("{}")})
	if err == nil && string(r.Output) != "7" {
		t.Errorf("%s", r.Output)
	}
	return err
}

// TestWhatIsCompiledIsKept: with the key of the daemon, in files that only it can read.
func TestWhatIsCompiledIsKept(t *testing.T) {
	program, digest := wasmtest.Program(t)
	state := t.TempDir()
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := run(t, tier(t, state, program, digest)); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(state, keyName))
	if err != nil || len(key) != keySize || bytes.Count(key, []byte{0}) > 8 {
		t.Errorf("%d bytes, %v", len(key), err)
	}
	if err := durable.CheckPrivate(filepath.Join(state, dirName)); err != nil {
		t.Error(err)
	}
	for _, name := range []string{keyName, dirName} {
		if fi, err := os.Stat(filepath.Join(state, name)); err != nil || fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", name, fi.Mode(), err)
		}
	}
	all, err := filepath.Glob(filepath.Join(state, dirName, "*.artifact"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	before, err := os.Stat(all[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t, tier(t, state, program, digest)); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(all[0])
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("it was compiled again: %v", err)
	}
	if again, err := os.ReadFile(filepath.Join(state, keyName)); err != nil || !bytes.Equal(key, again) {
		t.Errorf("another key: %v", err)
	}
}
