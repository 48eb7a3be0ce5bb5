// Package wasmtest is what tests of modules share: the runtime as it is shipped, in its cell, and modules to run in it.
//
// Its words are those of docs/words.md.
package wasmtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"palyra"
	"palyra/internal/sandbox/bare"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/wasm"
	"palyra/internal/wasm/engine"
)

// builtVar tells a test process that became an ordinary user where root built the programs.
const builtVar = "PALYRA_TEST_WASM"

var built struct {
	place  sync.Once
	dir    string
	mine   bool
	wat    func() error
	whole  sync.Once
	digest string
	err    error
}

// directory is where programs are built, once for the process and those that it starts.
func directory() (dir string, err error) {
	built.place.Do(func() {
		built.wat = sync.OnceValue(func() error { return static(built.dir, "palyra/internal/wasm/wasmtest/wat") })
		if built.dir = os.Getenv(builtVar); built.dir != "" {
			built.wat = func() error { return nil } // it is there
			return
		}
		built.mine = true
		if built.dir, built.err = os.MkdirTemp("", "palyra-wasm-"); built.err == nil {
			built.err = errors.Join(os.Chmod(built.dir, 0o755), os.Setenv(builtVar, built.dir))
		}
	})
	return built.dir, built.err
}

// programs builds palyra-wasm and the compiler of texts.
func programs() (string, error) {
	if _, err := directory(); err != nil {
		return "", err
	}
	built.whole.Do(func() {
		if built.mine {
			built.err = errors.Join(static(built.dir, "palyra/cmd/palyra-wasm"), built.wat())
		}
		b, err := os.ReadFile(filepath.Join(built.dir, "palyra-wasm"))
		sum := sha256.Sum256(b)
		built.digest, built.err = hex.EncodeToString(sum[:]), errors.Join(built.err, err)
	})
	return built.dir, built.err
}

// static builds a program with C in it.
func static(out, pkg string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w -linkmode external -extldflags -static", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return nil
}

// Escaping is a palyra-wasm with a hole: its modules can import "palyra.escape", which does what somebody would do who
// broke out of an instance.
func Escaping(t testing.TB) (path, digest string) {
	t.Helper()
	dir, err := programs()
	path = filepath.Join(dir, "palyra-wasm-escaping")
	if _, none := os.Stat(path); err == nil && none != nil {
		err = static(path, "palyra/cmd/palyra-wasm", "-tags=escape")
	}
	b, read := os.ReadFile(path)
	if err := errors.Join(err, read); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return path, hex.EncodeToString(sum[:])
}

// Guest is a module in Go that does what its input says (testdata/guest).
func Guest(t testing.TB) wasm.Module {
	t.Helper()
	dir, err := directory()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "guest.wasm")
	if _, err := os.Stat(path); err != nil {
		buildGo(t, "palyra/internal/wasm/wasmtest/testdata/guest", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return Module(b)
}

// Program is where palyra-wasm is, and the digest that a release would have stamped.
func Program(t testing.TB) (path, digest string) {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "palyra-wasm"), built.digest
}

// Clean removes what was built. A TestMain calls it when its tests are over.
func Clean() {
	celltest.Clean()
	if built.mine {
		_ = os.RemoveAll(built.dir)
	}
}

// Starter returns workers in their cells.
func Starter(t testing.TB) engine.Starter {
	t.Helper()
	program, sum := Program(t)
	return StarterOf(t, program, sum)
}

// StarterOf returns workers of a program of one's own.
func StarterOf(t testing.TB, program, sum string) engine.Starter {
	t.Helper()
	cell, digest := celltest.Cell(t)
	d, err := bare.New(bare.Config{
		Cell: cell, Digest: digest, StateID: celltest.StateID(), Kind: "w", Name: "palyra-wasm", Program: program, ProgramDigest: sum,
		Log: celltest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return starter{d}
}

type starter struct{ *bare.Driver }

// Start implements engine.Starter.
func (s starter) Start(ctx context.Context, memory int64) (*engine.Process, error) {
	return engine.Cell(s.Driver.Start(ctx, engine.Needs(memory)))
}

// Engine returns a runtime with workers in their cells. What c leaves open is usual.
func Engine(t testing.TB, c engine.Config) *engine.Engine {
	t.Helper()
	if c.Starter == nil {
		c.Starter = Starter(t)
	}
	if c.Log == nil {
		c.Log = celltest.Log(t)
	}
	if c.Dir == "" { // large modules take seconds, and every test would compile them
		c.Dir, c.Key = artifacts(t), make([]byte, 32)
	}
	c.Runtime = built.digest
	e, err := engine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// artifacts is a directory for what is compiled by this process.
func artifacts(t testing.TB) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "artifacts")
	if !built.mine {
		return dir // what root compiled, to be read
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Share lets processes of other users read what was compiled by this one.
func Share(t testing.TB) {
	t.Helper()
	dir := artifacts(t)
	all, err := os.ReadDir(dir)
	for _, f := range all {
		err = errors.Join(err, os.Chmod(filepath.Join(dir, f.Name()), 0o644))
	}
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
}

var texts sync.Map // of modules, by their text

// Wat makes a module of WebAssembly's text format.
func Wat(t testing.TB, text string) wasm.Module {
	t.Helper()
	if m, ok := texts.Load(text); ok {
		return m.(wasm.Module)
	}
	dir, err := directory()
	if err = errors.Join(err, built.wat()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "wat"))
	cmd.Stdin = strings.NewReader(text)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil || len(b) == 0 {
		t.Fatalf("%v: %s", err, errs.String())
	}
	m := Module(b)
	texts.Store(text, m)
	return m
}

// Module is a module of these bytes.
func Module(b []byte) wasm.Module {
	return wasm.Module{Digest: palyra.SumBytes(b), Bytes: func() ([]byte, error) { return b, nil }}
}

// buildGo builds a program as a WASI command.
func buildGo(t testing.TB, pkg, out string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}
