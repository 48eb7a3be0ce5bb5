//go:build linux

package sandboxtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox"
)

// openVar makes TestOpenHouse run the suite, which must fail.
const openVar = "PALYRA_SANDBOXTEST_OPEN"

// noticed are the classes that a tier which denies nothing must fail. The others
// show by themselves, with a control, that they would see a defect.
var noticed = []string{
	"identity", "descriptors", "environment", "files", "links", "devices", "sockets", "processes", "signals", "system calls", "foreign ABIs",
	"setuid programs", "IPC", "other runs", "failures",
}

// house is a tier that denies nothing.
type house struct{}

func (house) Executor() string              { return "open_house" }
func (house) Tier() palyra.Tier             { return palyra.TierB }
func (house) Recover(context.Context) error { return nil }
func (house) Close() error                  { return nil }

func (house) Probe(context.Context, palyra.Limits) (palyra.Enforcement, error) {
	return palyra.Enforcement{Mode: "none"}, nil
}

func (house) Start(_ context.Context, j sandbox.Job) (sandbox.Process, error) {
	c := &exec.Cmd{Path: j.Path, Args: j.Argv, Env: append(os.Environ(), j.Env...), Dir: j.Cwd, Stdin: j.Stdin, Stdout: j.Stdout, Stderr: j.Stderr}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := c.Start()
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr} {
		_ = f.Close()
	}
	return &guest{Cmd: c}, err
}

// guest is a program in the house.
type guest struct {
	*exec.Cmd
	why string
}

func (g *guest) Signal(string) error   { return errors.ErrUnsupported }
func (g *guest) Resize(int, int) error { return errors.ErrUnsupported }

func (g *guest) Stop(why string, _ time.Duration) {
	g.why = why
	_ = unix.Kill(-g.Process.Pid, unix.SIGKILL)
}

func (g *guest) Wait() (sandbox.Exit, error) {
	_ = g.Cmd.Wait() // its failure is in the state
	x := sandbox.Exit{Code: g.ProcessState.ExitCode(), Stopped: g.why}
	if w := g.ProcessState.Sys().(syscall.WaitStatus); w.Signaled() {
		x.Code, x.Signal = 0, unix.SignalName(w.Signal())
	}
	return x, nil
}

// TestOpenHouse is the suite on a tier that denies nothing, for the test below.
func TestOpenHouse(t *testing.T) {
	if os.Getenv(openVar) == "" {
		return
	}
	Run(t, Factory{Open: func(*testing.T, string) sandbox.Backend { return house{} }})
}

// A suite that cannot fail defines nothing.
func TestTheSuiteNotices(t *testing.T) {
	who := self()
	if who.uid == 0 {
		who = ordinary(t) // what the house lets through is then a user's harm only
	}
	Build(t, "palyra/internal/sandbox/sandboxtest/probe")
	dir := passable(t)
	copyFile(t, "/proc/self/exe", dir+"/test", 0o755)
	run := "^TestOpenHouse$/^as_a_user$/^(" + strings.ReplaceAll(strings.Join(noticed, "|"), " ", "_") + ")$"
	cmd := exec.CommandContext(t.Context(), dir+"/test", "-test.run="+run, "-test.v", "-test.timeout=2m")
	cmd.Dir, cmd.SysProcAttr, cmd.WaitDelay = dir, who.credential(), patience
	cmd.Env = append(os.Environ(), openVar+"=1", builtVar+"="+builtDir(), "HOME="+who.home)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("a tier that denies nothing passes:\n%s", out)
	}
	for _, class := range noticed {
		if !strings.Contains(string(out), "--- FAIL: TestOpenHouse/as_a_user/"+strings.ReplaceAll(class, " ", "_")+" ") {
			t.Errorf("%s: a tier that denies nothing passes", class)
		}
	}
	if t.Failed() {
		t.Log(string(out))
	}
}
