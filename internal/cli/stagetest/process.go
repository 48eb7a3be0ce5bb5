//go:build unix

// Package stagetest has a simulated daemon, for tests of the command: real doors and real people, and behind them
// calls that the test plays; and the command as a process of its own, at a terminal where that is wanted.
//
// It knows no command: the test says which program it is about.
package stagetest

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"palyra/internal/cli/invocation"
)

// Patience is how long a test waits for another program.
const Patience = 90 * time.Second

// Program is the command, as the process that it is started in runs it.
type Program func(context.Context, invocation.Process) int

// Alone runs the program here, with nothing to read.
func (p Program) Alone(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = p(t.Context(), invocation.Process{Args: args, Env: env, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

// AsProcess does what cmd/palyra does.
func AsProcess(f Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return f(ctx, invocation.Process{Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
}

// Run runs the tests of a package with palyra in PATH, played by the test binary.
func Run(m *testing.M, palyra Program) {
	testscript.Main(hearing{m}, map[string]func(){"palyra": func() { os.Exit(AsProcess(palyra)) }})
}

// hearing is a test run. A hangup that is handled here is as by default in what the
// tests start, also where our parent ignores it (nohup).
type hearing struct{ m *testing.M }

// Run implements testscript.TestingM.
func (h hearing) Run() int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	return h.m.Run()
}
