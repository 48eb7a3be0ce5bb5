package celltest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// cellVar tells a test process that became an ordinary user which cell root built for it.
const cellVar = "PALYRA_TEST_CELL"

// built is the cell under test.
var built struct {
	sync.Once
	dir, path, digest string
	err               error
}

// Cell builds the cell, once for the process and those that AsOrdinary starts. It
// returns where it is, and the digest that a release would have stamped.
func Cell(t testing.TB) (path, digest string) {
	t.Helper()
	built.Do(func() {
		if built.path = os.Getenv(cellVar); built.path == "" {
			built.err = build()
		}
		b, err := os.ReadFile(built.path)
		sum := sha256.Sum256(b)
		built.digest, built.err = hex.EncodeToString(sum[:]), errors.Join(built.err, err)
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path, built.digest
}

func build() (err error) {
	if built.dir, err = os.MkdirTemp("", "palyra-cell-"); err != nil {
		return err
	}
	built.path = filepath.Join(built.dir, "palyra-cell")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", built.path, "palyra/cmd/palyra-cell")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the cell: %w\n%s", err, out)
	}
	return errors.Join(os.Chmod(built.dir, 0o755), os.Chmod(built.path, 0o755))
}

// Clean removes what Cell built. A TestMain calls it when its tests are over.
func Clean() {
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
}

var states atomic.Int64

// StateID is one that no other test has.
func StateID() string { return fmt.Sprintf("test-%d-%d", os.Getpid(), states.Add(1)) }

type logTo struct{ t testing.TB }

func (w logTo) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// Log is a logger into a test's own log.
func Log(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(logTo{t}, nil)) }

// TempDir is a directory that everybody can pass through, which t.TempDir is not.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "palyra-celltest-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err = errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}
