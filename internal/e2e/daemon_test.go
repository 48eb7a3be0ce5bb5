//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/wasm/wasmtest"
)

// binaries are built once for the package, with the fault points in.
var binaries struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	if os.Getenv(puppetVariable) != "" {
		puppet(os.Stdin, os.Stdout)
		return
	}
	code := m.Run()
	wasmtest.Clean()
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir)
	}
	os.Exit(code)
}

func bin(t testing.TB, name string) string {
	t.Helper()
	binaries.once.Do(func() {
		binaries.dir, binaries.err = os.MkdirTemp("", "palyra-e2e-")
		if binaries.err != nil {
			return
		}
		if binaries.err = os.Chmod(binaries.dir, 0o755); binaries.err != nil { // an ordinary user runs them too
			return
		}
		binaries.err = buildAll(binaries.dir)
	})
	if binaries.err != nil {
		t.Fatal(binaries.err)
	}
	return filepath.Join(binaries.dir, name)
}

// buildAll builds the programs as the Makefile does: the cell first, whose
// digest is stamped into the daemon.
func buildAll(dir string) error {
	for _, b := range []string{
		"palyra-cell", "palyra-wasm", "palyrad", "palyra", "palyra-full", "palyra-tui", "palyra-verify", "palyra-sign",
	} {
		args, flags := []string{"build", "-o", filepath.Join(dir, b)}, "-s -w" // what only a debugger reads takes half of the time
		if b == "palyrad" {
			cell, err1 := os.ReadFile(filepath.Join(dir, "palyra-cell"))
			wasm, err2 := os.ReadFile(filepath.Join(dir, "palyra-wasm"))
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			args = append(args, "-tags", "faults")
			flags = fmt.Sprintf("%s -X main.cell=%x -X main.wasm=%x", flags, sha256.Sum256(cell), sha256.Sum256(wasm))
		}
		env := append(os.Environ(), "CGO_ENABLED=0")
		if b == "palyra-wasm" { // the one program with C in it
			env, flags = append(env, "CGO_ENABLED=1"), flags+" -linkmode external -extldflags -static"
		}
		cmd := exec.Command("go", append(args, "-ldflags", flags, "palyra/cmd/"+b)...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", b, err, out)
		}
	}
	return nil
}

var (
	// anyPort keeps the doors of tests that run beside each other apart.
	anyPort = []string{"PALYRA_CONSOLE_LISTEN=127.0.0.1:0", "PALYRA_REMOTE_LISTEN=127.0.0.1:0", "PALYRA_POLICY_PRESET=ask"}
	// unlimited is for those that ask faster than anybody may, and are not about
	// that.
	unlimited = []string{"PALYRA_LIMITS_REQUESTS_PER_SECOND=0", "PALYRA_LIMITS_PROPOSE_PER_SECOND=0", "PALYRA_LIMITS_DECIDE_PER_SECOND=0"}
)

// daemon is a palyrad on its own state directory.
type daemon struct {
	t     testing.TB
	home  string
	work  string // a directory to work in, outside the state
	cells string // where runs have their private directories
	cmd   *exec.Cmd
	env   []string
	log   *bytes.Buffer
	done  chan struct{}
	as    *client.Client   // who proposes, where it is not the local agent
	seen  map[refused]bool // what was asked about already, see askWhy
}

func newDaemon(t testing.TB) *daemon {
	t.Helper()
	root := t.TempDir()
	d := &daemon{t: t, home: filepath.Join(root, "home"), work: filepath.Join(root, "work"), cells: filepath.Join(root, "cells")}
	for dir := root; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil { // the way to both, for somebody who is not root
			t.Fatal(err)
		}
	}
	for _, dir := range []string{d.home, d.work} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(d.end)
	return d
}

// start runs the daemon and waits until it serves. It returns false when the
// daemon died first, which fault points make it do.
func (d *daemon) start(env ...string) bool {
	d.t.Helper()
	d.env = env
	d.command(bin(d.t, "palyrad"))
	return d.serving()
}

// command starts the daemon's process.
func (d *daemon) command(args ...string) {
	d.t.Helper()
	d.log = new(bytes.Buffer)
	d.cmd = exec.Command(args[0], args[1:]...)
	d.cmd.Env = slices.Concat(os.Environ(), anyPort, []string{"PALYRA_HOME=" + d.home, "PALYRA_PROCESS_DIR=" + d.cells}, d.env)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(d.cmd, d.done)
}

// serving waits until the daemon answers, or has died.
func (d *daemon) serving() bool {
	d.t.Helper()
	c := d.client(client.OperatorDoor)
	ctx, cancel := context.WithTimeout(d.t.Context(), waitMost)
	defer cancel()
	for {
		if err := c.Health(ctx); err == nil {
			return true
		}
		select {
		case <-d.done:
			return false
		case <-ctx.Done():
			d.t.Fatalf("the daemon does not serve:\n%s", d.log)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// mustStart is start for a daemon that has no reason to die.
func (d *daemon) mustStart(env ...string) {
	d.t.Helper()
	if !d.start(env...) {
		d.t.Fatalf("the daemon died:\n%s", d.log)
	}
}

// kill ends the daemon as a power cut would.
func (d *daemon) kill() {
	if d.cmd == nil || d.cmd.Process == nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGKILL)
	<-d.done
}

// end is for the end of a test: in good order where the daemon still can, so
// that no cgroup of it is left behind.
func (d *daemon) end() {
	if d.cmd == nil || d.cmd.Process == nil {
		return
	}
	d.askWhy()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(waitMost):
		d.kill()
	}
}

// stop ends it in good order.
func (d *daemon) stop() {
	d.t.Helper()
	d.askWhy()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(waitMost):
		d.t.Fatalf("the daemon does not stop:\n%s", d.log)
	}
}

func (d *daemon) client(door client.Door) *client.Client {
	d.t.Helper()
	cfg := client.Config{Home: d.home, Door: door}
	if door == client.OperatorDoor {
		if s, err := client.LoadSigner(filepath.Join(d.home, "operator.key"), nil); err == nil {
			cfg.Signer = s
		}
	}
	c, err := client.Open(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// write proposes a file, which asks under the default policy.
func write(work, name, content string) client.CallRequest {
	args, _ := json.Marshal(map[string]string{"path": name, "content": content})
	return client.CallRequest{Tool: "palyra.fs.write", Arguments: args, Workspace: work, Surface: palyra.SurfaceCLI}
}

func echo(text string) client.CallRequest {
	args, _ := json.Marshal(map[string]string{"text": text})
	return client.CallRequest{Tool: "palyra.echo", Arguments: args, Surface: palyra.SurfaceCLI}
}

// verify fails the test unless the journal is whole.
func (d *daemon) verify() {
	d.t.Helper()
	r, err := d.client(client.OperatorDoor).VerifyJournal(d.t.Context(), nil)
	if err != nil {
		d.t.Fatalf("journal: %v\n%s", err, d.log)
	}
	if !r.OK {
		d.t.Fatalf("journal: %+v", r)
	}
}

// entries reads the whole journal.
func (d *daemon) entries() []palyra.Entry {
	d.t.Helper()
	var all []palyra.Entry
	err := d.client(client.OperatorDoor).TailJournal(d.t.Context(), client.TailRequest{From: 1}, func(e palyra.Entry) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

// granted returns the calls that have a granted line.
func (d *daemon) granted() map[palyra.CallID]bool {
	m := map[palyra.CallID]bool{}
	for _, e := range d.entries() {
		if e.Kind == "call.granted" {
			m[e.Call] = true
		}
	}
	return m
}
