//go:build linux

package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/proposal"
	"palyra/internal/rpc/rpctest"
)

// What the command line says is what is proposed, and no more.
func TestExecProposes(t *testing.T) {
	s := openStage(t, func(*played) palyra.Outcome { return finished(0, "", "") })
	code, out, errs := s.main(nil, "exec", "--session", "mine", "--tier", "b", "--egress", "a.org:443", "--egress", "b.org:80", "--timeout", "30s", "--cwd", "src",
		"--profile", "go", "--require-limits", "--env", "A=1=2", "-e", "B=", "--key", "k", "--memory", "512M", "--processes", "9", "--cpu", "2s", "--", "make", "-j4", "--", "<x>\u202e", "")
	if code != exit.OK || out != "" || errs != "" {
		t.Fatalf("exit %d %q %q", code, out, errs)
	}
	x := s.running()
	want := proposal.Arguments{
		Command: "make", Args: []string{"-j4", "--", "<x>\u202e", ""}, Cwd: "src", Env: map[string]string{"A": "1=2", "B": ""}, Tier: "b", Profile: "go", Held: true,
		Egress: []string{"a.org:443", "b.org:80"}, Limits: &proposal.Limits{CPUMS: 2000, MemoryBytes: 512 << 20, Processes: 9},
	}
	if diff := cmp.Diff(want, x.args); diff != "" {
		t.Error(diff)
	}
	if x.p.Tool != palyra.ToolProcessRun || x.p.Workspace != s.work || x.p.Session != "mine" || x.p.Key != "k" || x.p.TimeoutMS != 30_000 || x.p.NoWait || x.p.Surface != palyra.SurfaceCLI {
		t.Errorf("%+v", x.p)
	}
	s.main(nil, "exec", "--no-wait", "-w", "..", "--", "true")
	x = s.running()
	if got := string(x.p.Arguments); got != `{"command":"true","cwd":"."}` || !x.p.NoWait || x.p.Workspace != filepath.Dir(s.work) {
		t.Errorf("%s %+v", got, x.p)
	}
}

// Output reaches the right stream as it is, piece by piece, and what did not
// come as pieces follows once.
func TestExecStreams(t *testing.T) {
	const cutOut = "\n… 1000 bytes left out …\n"
	for name, c := range map[string]struct {
		play           func(x *played)
		stdout, stderr string // of the outcome
		truncated      bool
	}{
		"all of it": {func(x *played) {
			x.print("stdout", "one\n\x1b[1m\xff")
			x.print("stderr", "bad\n")
			x.print("stdout", "two")
		}, "one\n\x1b[1m\xfftwo", "bad\n", false},
		"none of it":     {func(*played) {}, "late\n", "also late", false},
		"the head of it": {func(x *played) { x.print("stdout", "head") }, "head" + cutOut + "tail\n", "", true},
		"a gap": {func(x *played) {
			x.print("stdout", "ab")
			x.mu.Lock()
			x.n["stdout"] += 3
			x.mu.Unlock()
			x.print("stdout", "fg")
		}, "abcdefg", "", false},
		"twice": {func(x *played) {
			x.print("stdout", "ab")
			x.mu.Lock()
			x.n["stdout"] = 1
			x.mu.Unlock()
			x.print("stdout", "bcd")
		}, "abcd", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStage(t, func(x *played) palyra.Outcome {
				c.play(x)
				o := finished(0, c.stdout, c.stderr)
				o.Truncated = c.truncated
				return o
			})
			code, out, errs := s.main(nil, "exec", "--", "x")
			if c.truncated { // into a pipe: no more than came whole, and no success
				if code != exit.Palyra || out != "head" || !strings.Contains(errs, "tool_call.output_bytes and is not whole") {
					t.Errorf("exit %d\nstdout %q\nstderr %q", code, out, errs)
				}
				return
			}
			if code != exit.OK || out != c.stdout || errs != c.stderr {
				t.Errorf("exit %d\nstdout %q\nstderr %q", code, out, errs)
			}
		})
	}
}

// Pieces that are more than the outcome keeps are not printed again, and where they
// are all there was nothing is missing.
func TestExecStreamsMoreThanIsKept(t *testing.T) {
	s := openStage(t, func(x *played) palyra.Outcome {
		x.print("stdout", strings.Repeat("x", 100))
		o := finished(0, "xxxx\n… 90 bytes left out …\nxxxxxx", "")
		o.Truncated = true
		return o
	})
	if code, out, errs := s.main(nil, "exec", "--", "x"); code != exit.OK || out != strings.Repeat("x", 100) || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// With --json stdout has the outcome's own bytes and nothing else, and while an
// answer is awaited stderr has one line.
func TestExecJSON(t *testing.T) {
	rpctest.Question = pendingQuestion()
	o := finished(3, "out\x1b[2J\n", "err")
	s := openStage(t, func(x *played) palyra.Outcome {
		x.print("stdout", "out\x1b[2J\n")
		return o
	})
	s.asks()
	s.answer <- palyra.AnswerAllow
	code, out, errs := s.main(strings.NewReader("in"), "exec", "--json", "--", "x")
	o.CallID, o.Tool = "C1", palyra.ToolProcessRun
	want, err := o.Marshal()
	if err != nil || code != 3 || out != string(want)+"\n" {
		t.Errorf("exit %d\n%s", code, out)
	}
	var event struct {
		Event    string            `json:"event"`
		Approval palyra.ApprovalID `json:"approval_id"`
		Plan     palyra.Digest     `json:"plan_digest"`
	}
	if json.Unmarshal([]byte(errs), &event) != nil || strings.Count(errs, "\n") != 1 || event.Event != "approval_requested" || event.Approval != "A1" || event.Plan != rpctest.Question.PlanDigest {
		t.Errorf("stderr %s", errs)
	}
	s.running()
	code, out, errs = s.main(nil, "exec", "--json", "--no-wait", "--", "x")
	if code != exit.Refused || !strings.Contains(out, `"reason_code":"approval_not_awaited"`) || strings.Count(out, "\n") != 1 || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d %s %s", code, out, errs)
	}
}

// What it reads: bound where it is short, fed where it is long.
func TestExecStdin(t *testing.T) {
	exactly, more := strings.Repeat("a", proposal.MaxStdin), strings.Repeat("b", proposal.MaxStdin+1)
	long := strings.Repeat("0123456789abcdef", 5*proposal.MaxStdin/32) + "end"
	for name, c := range map[string]struct {
		in   io.Reader
		args []string
		text string
		b64  string
		live string
	}{
		"no stdin":         {in: nil},
		"empty":            {in: strings.NewReader("")},
		"turned off":       {in: strings.NewReader("x"), args: []string{"--no-stdin"}},
		"text":             {in: strings.NewReader("caf\u00e9\n"), text: "caf\u00e9\n"},
		"binary":           {in: strings.NewReader("\x00\xff\n"), b64: "\x00\xff\n"},
		"many controls":    {in: strings.NewReader(strings.Repeat("\x01", proposal.MaxStdin)), b64: strings.Repeat("\x01", proposal.MaxStdin)},
		"1 MiB":            {in: strings.NewReader(exactly), text: exactly},
		"1 MiB and a byte": {in: strings.NewReader(more), live: more},
		"long":             {in: slowly{strings.NewReader(long)}, live: long},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			s := openStage(t, func(x *played) palyra.Outcome {
				if x.args.Live {
					got = x.read()
				}
				return finished(0, "", "")
			})
			code, _, errs := s.main(c.in, append(append([]string{"exec"}, c.args...), "--", "cat")...)
			x := s.running()
			if code != 0 || errs != "" || x.args.Stdin != c.text || x.args.StdinB64 != base64.StdEncoding.EncodeToString([]byte(c.b64)) || x.args.Live != (c.live != "") || got != c.live {
				t.Errorf("exit %d %q: text %d, b64 %d, live %v %d", code, errs, len(x.args.Stdin), len(x.args.StdinB64), x.args.Live, len(got))
			}
		})
	}
}

// slowly gives what it reads in odd pieces.
type slowly struct{ r io.Reader }

func (s slowly) Read(b []byte) (int, error) { return s.r.Read(b[:min(len(b), 40_001)]) }

// endless never ends.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// stuck gives what it has and then nothing, for ever.
type stuck struct {
	r    io.Reader
	ever chan struct{}
}

func (s stuck) Read(b []byte) (int, error) {
	if n, err := s.r.Read(b); err == nil {
		return n, nil
	}
	<-s.ever
	return 0, io.EOF
}

// A command that ends early does not wait for its input, whether that comes
// without end or does not come at all.
func TestExecEndsBeforeItsStdin(t *testing.T) {
	ever := make(chan struct{})
	defer close(ever)
	for name, in := range map[string]io.Reader{"endless": endless{}, "stuck": stuck{strings.NewReader(strings.Repeat("x", proposal.MaxStdin+1)), ever}} {
		t.Run(name, func(t *testing.T) {
			s := openStage(t, func(x *played) palyra.Outcome {
				x.fed(t)
				return finished(4, "", "")
			})
			if code, _, errs := s.main(in, "exec", "--", "head"); code != 4 || errs != "" {
				t.Errorf("exit %d %q", code, errs)
			}
		})
	}
}

// Whoever waits for stdin is told so; Ctrl-C then ends it before anything is
// proposed.
func TestExecWaitsForStdin(t *testing.T) {
	s := openStage(t, func(*played) palyra.Outcome { return finished(0, "", "") })
	cmd := s.command("exec", "--", "cat")
	in, err := cmd.StdinPipe()
	fatal(t, err)
	defer in.Close()
	errs, err := cmd.StderrPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	said := make([]byte, 200)
	n, _ := errs.Read(said)
	if got := string(said[:n]); got != "palyra: reading stdin; end it with Ctrl-D, or use --no-stdin\n" {
		t.Errorf("%q", got)
	}
	fatal(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled || len(s.started) != 0 {
		t.Errorf("exit %d", code)
	}
}

// A real pipe, a real file and the null device.
func TestExecStdinOfAProcess(t *testing.T) {
	s := openStage(t, func(x *played) palyra.Outcome { return finished(0, x.args.Stdin, "") })
	file := filepath.Join(s.work, "in.txt")
	fatal(t, os.WriteFile(file, []byte("of a file"), 0o600))
	cmd := s.command("exec", "--", "cat")
	cmd.Stdin = strings.NewReader("of a pipe") // which exec makes a pipe of
	if out, err := cmd.Output(); err != nil || string(out) != "of a pipe" {
		t.Errorf("%q %v", out, err)
	}
	f, err := os.Open(file)
	fatal(t, err)
	defer f.Close()
	cmd = s.command("exec", "--", "cat")
	cmd.Stdin = f
	if out, err := cmd.Output(); err != nil || string(out) != "of a file" {
		t.Errorf("%q %v", out, err)
	}
	cmd = s.command("exec", "--", "cat") // no Stdin is the null device
	if out, err := cmd.Output(); err != nil || len(out) != 0 {
		t.Errorf("%q %v", out, err)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", "exec palyra exec -- cat <&-") // none at all
	shell.Env, shell.Dir = cmd.Env, cmd.Dir
	if out, err := shell.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("%q %v", out, err)
	}
}

// start runs palyra as a process and waits until it knows that its command runs.
func (s *stage) start(args ...string) (*exec.Cmd, *bytes.Buffer, *played) {
	s.t.Helper()
	cmd := s.command(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	fatal(s.t, err)
	fatal(s.t, cmd.Start())
	x := s.running()
	x.print("stdout", "ready")
	_, err = out.Read(make([]byte, 5))
	fatal(s.t, err)
	return cmd, &errs, x
}

// Signals are the command's, and its code is ours.
func TestExecForwardsSignals(t *testing.T) {
	s := openStage(t, nil)
	s.plays(func(x *played) palyra.Outcome {
		x.print("stderr", "ready\n")
		for f := range x.feed {
			if f.Signal == "SIGQUIT" {
				break
			}
			x.print("stderr", f.Signal+"\n")
		}
		o := finished(131, "", "ready\nSIGUSR1\nSIGUSR2\nSIGHUP\nSIGTERM\nSIGINT\n")
		o.Signal = "SIGQUIT"
		return o
	})
	cmd := s.command("exec", "--", "x")
	errs, err := cmd.StderrPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	s.running()
	buf := make([]byte, 100)
	if n, _ := errs.Read(buf); string(buf[:n]) != "ready\n" {
		t.Fatalf("%q", buf[:n])
	}
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		fatal(t, cmd.Process.Signal(sig))
		n, err := errs.Read(buf)
		if want := map[syscall.Signal]string{10: "SIGUSR1", 12: "SIGUSR2", 1: "SIGHUP", 15: "SIGTERM", 2: "SIGINT"}[sig]; err != nil || string(buf[:n]) != want+"\n" {
			t.Fatalf("%v: %q %v", sig, buf[:n], err)
		}
	}
	fatal(t, cmd.Process.Signal(syscall.SIGQUIT))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 131 {
		t.Errorf("exit %d", code)
	}
}

// Ctrl-C twice in short order cancels the call; one that the command takes does
// not make its code another one.
func TestExecInterrupted(t *testing.T) {
	s := openStage(t, nil)
	s.plays(func(x *played) palyra.Outcome {
		<-x.ctx.Done()
		return cancelled
	})
	cmd, errs, x := s.start("exec", "--", "x")
	fatal(t, cmd.Process.Signal(syscall.SIGINT))
	if f := x.fed(t); f.Signal != "SIGINT" {
		t.Errorf("%+v", f)
	}
	fatal(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled || !strings.Contains(errs.String(), "palyra: cancelling call C1\n") {
		t.Errorf("exit %d %s", code, errs)
	}

	s.plays(func(x *played) palyra.Outcome {
		x.fed(t)
		return finished(1, "ready", "")
	})
	cmd, errs, _ = s.start("exec", "--", "x")
	fatal(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || errs.Len() != 0 {
		t.Errorf("exit %d %s", code, errs)
	}
}

// While an answer is awaited a signal cancels the call; one that means nothing
// yet is let go.
func TestExecInterruptedWhileWaiting(t *testing.T) {
	rpctest.Question = pendingQuestion()
	s := openStage(t, nil)
	s.asks()
	cmd := s.command("exec", "--", "x")
	errs, err := cmd.StderrPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	said := make([]byte, 1)
	_, err = errs.Read(said)
	fatal(t, err)
	fatal(t, cmd.Process.Signal(syscall.SIGUSR1))
	fatal(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, _ := io.ReadAll(errs)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled || !strings.Contains(string(rest), "cancelling call C1") || len(s.started) != 0 {
		t.Errorf("exit %d %s", code, rest)
	}
}

// A signal that comes when nobody knows yet that an answer will be needed counts
// as one that came later: nobody waits for the answer.
func TestExecInterruptedBeforeTheQuestion(t *testing.T) {
	rpctest.Question = pendingQuestion()
	s := openStage(t, nil)
	told := make(chan palyra.Feed, 1)
	s.before = func(x *played) {
		x.print("stdout", "ready")
		told <- x.fed(t)
	}
	s.asks()
	cmd := s.command("exec", "--", "x")
	out, err := cmd.StdoutPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	_, err = out.Read(make([]byte, 5))
	fatal(t, err)
	fatal(t, cmd.Process.Signal(syscall.SIGTERM))
	if f := <-told; f.Signal != "SIGTERM" {
		t.Errorf("%+v", f)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled {
		t.Errorf("exit %d", code)
	}
}

// When nobody reads the output any more the call is cancelled, not left behind.
func TestExecIntoAClosedPipe(t *testing.T) {
	s := openStage(t, nil)
	s.plays(func(x *played) palyra.Outcome {
		for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
			x.print("stdout", "y\n")
			if x.ctx.Err() != nil {
				tick.Stop()
				return cancelled
			}
		}
	})
	cmd := s.command("exec", "--", "yes")
	out, err := cmd.StdoutPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	s.running()
	_, err = out.Read(make([]byte, 1))
	fatal(t, err)
	fatal(t, out.Close())
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled {
		t.Errorf("exit %d", code)
	}
}

// A reader that pauses holds up nobody but itself.
func TestExecSlowReader(t *testing.T) {
	big := strings.Repeat("0123456789abcde\n", 1<<16) // far more than a pipe takes
	printed := make(chan struct{})
	s := openStage(t, func(x *played) palyra.Outcome {
		for rest := big; rest != ""; rest = rest[32<<10:] {
			x.print("stdout", rest[:32<<10])
		}
		close(printed)
		return finished(0, big, "")
	})
	cmd := s.command("exec", "--", "x")
	out, err := cmd.StdoutPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	<-printed
	got, err := io.ReadAll(out)
	if err != nil || string(got) != big || cmd.Wait() != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A daemon that goes away in the middle leaves the call's name behind.
func TestExecLosesItsDaemon(t *testing.T) {
	s := openStage(t, func(x *played) palyra.Outcome {
		<-x.ctx.Done()
		return cancelled
	})
	cmd, errs, x := s.start("exec", "--", "x")
	defer x.cancel()
	s.stop()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Palyra || !strings.Contains(errs.String(), "palyra: what became of call C1: palyra calls show C1\n") || !strings.Contains(errs.String(), "  remedy: ") {
		t.Errorf("exit %d %s", code, errs)
	}
}

// A signal that was ignored when we started stays so.
func TestExecUnderNohup(t *testing.T) {
	s := openStage(t, func(x *played) palyra.Outcome {
		f := x.fed(t)
		return finished(0, "ready", f.Signal)
	})
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "trap '' HUP; exec palyra exec -- x")
	cmd.Env, cmd.Dir = s.command().Env, s.work
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	x := s.running()
	x.print("stdout", "ready")
	_, err = out.Read(make([]byte, 5))
	fatal(t, err)
	fatal(t, cmd.Process.Signal(syscall.SIGHUP))
	fatal(t, cmd.Process.Signal(syscall.SIGUSR1))
	if err := cmd.Wait(); err != nil || errs.String() != "SIGUSR1" {
		t.Errorf("%v %s", err, errs.String())
	}
}
