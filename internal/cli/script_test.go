//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"palyra/internal/agefile"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
	"palyra/internal/cli/terminal"
)

// TestMain runs the tests with palyra in PATH, played by the test binary, and
// beside it the daemon and the verifier, built for real.
func TestMain(m *testing.M) {
	agefile.Cheapen()
	testscript.Main(built{m}, map[string]func(){
		"palyra":     func() { os.Exit(stagetest.AsProcess(Main)) },
		"ask-line":   func() { os.Exit(stagetest.AsProcess(askLineMain)) },
		"ask-secret": func() { os.Exit(stagetest.AsProcess(askSecretMain)) },
	})
}

// askLineMain and askSecretMain are small programs that only ask.
func askLineMain(ctx context.Context, p Process) int {
	line, err := terminal.AskLine(ctx, "word? ")
	fmt.Fprintf(p.Stdout, "got %q %v\n", line, err)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return exit.Cancelled
	}
	return exit.OK
}

func askSecretMain(ctx context.Context, p Process) int {
	s, err := terminal.AskSecret(ctx, "secret? ")
	_ = s.Use(func(b []byte) error { _, e := fmt.Fprintf(p.Stdout, "got %q %v\n", b, err); return e })
	return 0
}

// built is the test run, with the other programs beside palyra.
type built struct{ m *testing.M }

// Run builds the other programs and runs the tests. A hangup that is handled here
// is as by default in what the tests start, also where our parent ignores it (nohup).
func (b built) Run() int {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	for _, name := range []string{"palyrad", "palyra-verify"} {
		if err := build1(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return b.m.Run()
}

func build1(name string) error {
	palyra, err := exec.LookPath("palyra")
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(filepath.Dir(palyra), name), "palyra/cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return nil
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("PALYRA_HOME", home)
			env.Setenv("NO_COLOR", "1")
			env.Setenv("PALYRA_CONSOLE_LISTEN", "127.0.0.1:0")
			env.Setenv("PALYRA_POLICY_PRESET", "ask") // most scripts are about questions
			env.Defer(func() { endDaemon(home) })
			return os.Mkdir(home, 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": scriptExits, "getjson": scriptGet, "field": scriptField, "pending": scriptPending, "tamper": scriptTamper, "grow": scriptGrow,
		},
	})
}

// endDaemon ends the daemon of a home, however its script ended.
func endDaemon(home string) {
	cmd := exec.Command("palyra", "status", "--json", "--home", home)
	out, err := cmd.Output()
	if err != nil {
		return
	}
	killStatus(string(out))
}

// killStatus ends the daemon that a status speaks of.
func killStatus(status string) {
	var s struct{ PID int }
	if json.Unmarshal([]byte(status), &s) == nil && s.PID > 1 {
		endProcess(s.PID)
	}
}

// scriptExits runs a command and checks its exit code: exits 5 palyra status.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	for range 3 { // a refusal at the door can cross with what is still being sent, and then reads as a lost connection
		var status *exec.ExitError
		err = ts.Exec(args[1], args[2:]...)
		if code = 0; errors.As(err, &status) {
			code = status.ExitCode()
		} else {
			ts.Check(err)
		}
		if code != exit.NoDaemon || want == exit.NoDaemon {
			break
		}
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// scriptGet sets a variable from JSON: getjson ID stdout approvals.0.approval_id.
func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: getjson VARIABLE FILE PATH")
	}
	v, err := stagetest.Dig([]byte(ts.ReadFile(args[1])), args[2])
	ts.Check(err)
	ts.Setenv(args[0], v)
}

// scriptField checks a value in JSON: field stdout outcome finished.
func scriptField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] field FILE PATH VALUE")
	}
	v, err := stagetest.Dig([]byte(ts.ReadFile(args[0])), args[1])
	ts.Check(err)
	if (v == args[2]) == neg {
		ts.Fatalf("%s is %q", args[1], v)
	}
}

// scriptPending waits until N approvals are pending and leaves the list in
// $WORK/pending.json: pending 1.
func scriptPending(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: pending N")
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(stagetest.Patience)
	for {
		out, err := exec.Command("palyra", "approvals", "list", "--pending", "--json", "--home", ts.Getenv("PALYRA_HOME")).Output()
		ts.Check(err)
		n, err := stagetest.Dig(out, "approvals.len")
		ts.Check(err)
		if n == args[0] {
			ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), "pending.json"), out, 0o600))
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("there are %s pending approvals, not %s", n, args[0])
		}
	}
}

// scriptTamper changes one byte in the first occurrence of a text:
// tamper FILE TEXT.
func scriptTamper(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tamper FILE TEXT")
	}
	raw := []byte(ts.ReadFile(args[0]))
	i := bytes.Index(raw, []byte(args[1]))
	if i < 0 {
		ts.Fatalf("no %q in %s", args[1], args[0])
	}
	raw[i+len(args[1])/2] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), raw, 0o600))
}

// scriptGrow writes an argument document of about N bytes: grow FILE N.
func scriptGrow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: grow FILE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(`{"text":"`+strings.Repeat("x", n)+`"}`), 0o600))
}

// endProcess ends a daemon, in good order where it still can: one that is killed
// leaves cgroups behind.
func endProcess(pid int) {
	_ = syscall.Kill(pid, syscall.SIGTERM)
	for end := time.Now().Add(stagetest.Patience); syscall.Kill(pid, 0) == nil; {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
			return // over, and nobody has asked for it yet
		}
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}
