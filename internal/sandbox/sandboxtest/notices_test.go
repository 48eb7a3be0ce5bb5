//go:build linux

package sandboxtest

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

// openVar makes TestOpenHouse run the suite, which must fail. Its value says what
// the house pretends to be.
const (
	openVar = "PALYRA_SANDBOXTEST_OPEN"
	asShed  = "without anything of its own"
	asRoom  = "with everything of its own"
)

// noticed are the classes that a tier which denies nothing must fail, and for what.
// The others show by themselves, with a control, that they would see a defect.
var noticed = map[string]map[string]string{
	asShed: {
		"identity": "no_new_privs false", "descriptors": "descriptors inside:", "environment": "variables",
		"files": "read a planted secret: succeeds",
		"room":  "shared memory: succeeds", "links": "follow a planted link: succeeds", "devices": "open /dev/ptmx: succeeds",
		"sockets": "abstract socket: succeeds",
		"network": "the host heard", "processes": "read the environment of a process: succeeds", "signals": "succeeds inside",
		"system calls": "keyctl", "foreign ABIs": "i386: signal", "setuid programs": "make a program set-user-id: succeeds",
		"IPC":      "read shared memory of the host: succeeds",
		"keyrings": "read a key of the owner: succeeds", "other runs": "signal another run: succeeds", "failures": "more was expected",
	},
	asRoom: {
		"identity": "no_new_privs false", "files": "see what lies beside the workspace: succeeds", "room": "the host sees what a run left",
		"sockets": "listen to the host's devices: succeeds",
		"IPC":     "open messages of the host: succeeds", "seals": "changed: .git/config",
		"trusted later": "a hook: a trusted program ran what the sandbox left",
	},
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
	for i, v := range j.Env {
		j.Env[i] = strings.Replace(v, "="+cell.RoomHome, "="+os.TempDir(), 1) // a home that there is
	}
	c := &exec.Cmd{
		Path: j.Path, Args: j.Argv, Env: append(os.Environ(), j.Env...), Dir: j.Cwd, Stdin: j.Stdin, Stdout: j.Stdout,
		Stderr: j.Stderr,
	}
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
	f := Factory{hasty: true, Open: func(*testing.T, string) sandbox.Backend { return house{} }}
	switch os.Getenv(openVar) {
	case asShed:
		f.Lacks = map[string]string{}
		for _, what := range []string{ownFiles, ownNetwork, ownIPC, sealsPaths} {
			f.Lacks[what] = "it pretends to"
		}
	case asRoom:
		f.Tmp, f.Seals, f.Guard = 1<<20, []string{".envrc"}, func(*testing.T, string) sandbox.EgressGuard { return wide{} }
	default:
		return
	}
	Run(t, f)
}

// wide is a guard that opens nothing and so keeps nobody.
type wide struct{}

func (wide) Mode() palyra.NetworkMode { return "none" }
func (wide) Mechanisms() []string     { return []string{sandbox.Guarded} }

func (wide) Open(context.Context, *palyra.Call, palyra.Plan) (sandbox.Gateway, error) {
	return wide{}, nil
}

func (wide) Doors() []cell.Listener { return nil }

func (wide) Serve([]*os.File) error { return nil }

func (wide) Env() []string { return []string{"HTTPS_PROXY=http://x:y@127.0.0.1:1"} }

func (wide) Flows() ([]palyra.EgressFlow, int64) { return nil, 0 }

func (wide) Close() ([]palyra.EgressFlow, int64) { return nil, 0 }

// A suite that cannot fail defines nothing.
func TestTheSuiteNotices(t *testing.T) {
	who := self()
	if who.uid == 0 {
		who = ordinary(t) // what the house lets through is then a user's harm only
	}
	seedCache(t, Build(t, "palyra/internal/sandbox/sandboxtest/probe"))
	dir := passable(t)
	copyFile(t, "/proc/self/exe", dir+"/test", 0o755)
	for as, classes := range noticed {
		t.Run(as, func(t *testing.T) {
			names := strings.Join(slices.Sorted(maps.Keys(classes)), "|")
			run := "^TestOpenHouse$/^as_a_user$/^(" + strings.ReplaceAll(names, " ", "_") + ")$"
			cmd := exec.CommandContext(t.Context(), dir+"/test", "-test.run="+run, "-test.v", "-test.timeout=2m")
			cmd.Dir, cmd.SysProcAttr, cmd.WaitDelay = dir, who.credential(), patience
			cmd.Env = append(os.Environ(), openVar+"="+as, builtVar+"="+builtDir(), "HOME="+who.home)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("a tier that denies nothing passes:\n%s", out)
			}
			said := parts(string(out))
			for class, text := range classes {
				if !strings.Contains(said[class], text) {
					t.Errorf("%s: a tier that denies nothing is not blamed for %q:\n%s", class, text, said[class])
				}
			}
		})
	}
}

// parts cuts the output of a test at the lines that begin a class.
func parts(out string) map[string]string {
	all, class := map[string]string{}, ""
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "=== RUN   TestOpenHouse/as_a_user/"); ok {
			class, _, _ = strings.Cut(strings.TrimSpace(name), "/")
			class = strings.ReplaceAll(class, "_", " ")
		}
		if strings.HasPrefix(line, "--- FAIL: TestOpenHouse") {
			break
		}
		all[class] += line
	}
	return all
}

// Whatever is left out goes by Lacks, which the suite then holds the tier to.
func TestOnlyLacksLeaveOut(t *testing.T) {
	var l ledger
	l.read("x.go:1: the tier lacks \"a \\\"b\\\" c\": because\nthe tier lacks nothing\n")
	if !l.met[`a "b" c`] || len(l.met) != 1 {
		t.Errorf("met: %v", l.met)
	}
	b := &bench{Factory: Factory{Lacks: map[string]string{"x": "why"}, ledger: &l}}
	if !b.lacks(t, "x") || b.lacks(t, "y") || !l.met["x"] || l.met["y"] {
		t.Errorf("met: %v", l.met)
	}
	sources, err := filepath.Glob("*.go")
	check(t, err)
	skip := regexp.MustCompile(`\bt\.Skip(Now|f)?\(`)
	for _, name := range sources {
		text, err := os.ReadFile(name)
		check(t, err)
		if skip.Match(text) && name != "notices_test.go" {
			t.Errorf("%s skips", name)
		}
	}
}
