package corpustest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/cedar-policy/cedar-go"
)

// Oracle is the Rust engine in a process of its own. It is for one goroutine.
type Oracle struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

// Question is one request about a set of policies.
type Question struct {
	Set       string          `json:"set"`
	Principal cedar.EntityUID `json:"principal"`
	Action    cedar.EntityUID `json:"action"`
	Resource  cedar.EntityUID `json:"resource"`
	Context   cedar.Record    `json:"context"`
	Entities  []cedar.Entity  `json:"entities"`
}

// Answer is what the engine says, with ids in order.
type Answer struct {
	Decision string   `json:"decision"` // allow, deny
	Reasons  []string `json:"reasons"`
	Errors   []string `json:"errors"`
	Fault    string   `json:"fault"` // the question was not understood
}

// maxLine bounds an answer of the engine.
const maxLine = 1 << 20

// Rust starts the engine for a test. dir is where this package lies, seen from
// the test. It is part of what 'scripts/setup.sh test' installs.
func Rust(t testing.TB, dir string) *Oracle {
	t.Helper()
	dir = filepath.Join(dir, "rust")
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		if runtime.GOOS != "linux" {
			t.Skip("UNPROVEN HERE: the Rust engine is not installed")
		}
		t.Fatalf("the Rust engine is not installed; run scripts/setup.sh test: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "oracle.mjs")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("node: %v", err)
	}
	t.Cleanup(func() { // the test's context has ended it by now, if its input's end did not
		_ = in.Close()
		_ = cmd.Wait()
	})
	s := bufio.NewScanner(out)
	s.Buffer(nil, maxLine)
	return &Oracle{in: in, out: s}
}

// Load gives the engine a set of policies by id, in place of an earlier one of that name.
func (o *Oracle) Load(set string, policies map[string]string) error {
	_, err := o.do(map[string]any{"set": set, "policies": policies})
	return err
}

// Ask returns the engine's answer.
func (o *Oracle) Ask(q Question) (Answer, error) { return o.do(q) }

func (o *Oracle) do(question any) (a Answer, err error) {
	line, err := json.Marshal(question)
	if err != nil {
		return a, fmt.Errorf("rust: %w", err)
	}
	if _, err := o.in.Write(append(line, '\n')); err != nil {
		return a, fmt.Errorf("rust: %w", err)
	}
	if !o.out.Scan() {
		return a, fmt.Errorf("rust: no answer: %w", errors.Join(o.out.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(o.out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("rust: %w", err)
	}
	if a.Fault != "" {
		return a, fmt.Errorf("rust: %s", a.Fault)
	}
	slices.Sort(a.Reasons)
	slices.Sort(a.Errors)
	return a, nil
}
