//go:build linux

package execute_test

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
	"palyra/internal/cli"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/stagetest"
	"palyra/internal/rpc/rpctest"
)

// What the command line says is what is proposed, and no more.
func TestExecProposes(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(*stagetest.Played) palyra.Outcome { return stagetest.Finished(0, "", "") })
	code, out, errs := s.Main(nil, "exec", "--session", "mine", "--tier", "b", "--egress", "a.org:443", "--egress", "b.org:80", "--timeout",
		"30s", "--cwd", "src",
		"--profile", "go", "--require-limits", "--live", "--env", "A=1=2", "-e", "B=", "--key", "k", "--memory", "512M", "--processes", "9",
		"--cpu", "2s", "--", "make", "-j4", "--", "<x>\u202e", "")
	if code != exit.OK || out != "" || errs != "" {
		t.Fatalf("exit %d %q %q", code, out, errs)
	}
	x := s.Running()
	want := proposal.Arguments{
		Command: "make", Args: []string{"-j4", "--", "<x>\u202e", ""}, Cwd: "src", Env: map[string]string{"A": "1=2", "B": ""}, Tier: "b",
		Profile: "go", Held: true, Writes: true,
		Egress: []string{"a.org:443", "b.org:80"}, Limits: &proposal.Limits{CPUMS: 2000, MemoryBytes: 512 << 20, Processes: 9},
	}
	if diff := cmp.Diff(want, x.Args); diff != "" {
		t.Error(diff)
	}
	if x.Proposal.Tool != palyra.ToolProcessRun || x.Proposal.Workspace != s.Work || x.Proposal.Session != "mine" || x.Proposal.Key != "k" ||
		x.Proposal.TimeoutMS != 30_000 || x.Proposal.NoWait || x.Proposal.Surface != palyra.SurfaceCLI {
		t.Errorf("%+v", x.Proposal)
	}
	s.Main(nil, "exec", "--no-wait", "-w", "..", "--", "true")
	x = s.Running()
	if got := string(x.Proposal.Arguments); got != `{"command":"true","cwd":"."}` || !x.Proposal.NoWait ||
		x.Proposal.Workspace != filepath.Dir(s.Work) {
		t.Errorf("%s %+v", got, x.Proposal)
	}
}

// Output reaches the right stream as it is, piece by piece, and what did not
// come as pieces follows once.
func TestExecStreams(t *testing.T) {
	const cutOut = "\n… 1000 bytes left out …\n"
	for name, c := range map[string]struct {
		play           func(x *stagetest.Played)
		stdout, stderr string // of the outcome
		truncated      bool
	}{
		"all of it": {func(x *stagetest.Played) {
			x.Print("stdout", "one\n\x1b[1m\xff")
			x.Print("stderr", "bad\n")
			x.Print("stdout", "two")
		}, "one\n\x1b[1m\xfftwo", "bad\n", false},
		"none of it":     {func(*stagetest.Played) {}, "late\n", "also late", false},
		"the head of it": {func(x *stagetest.Played) { x.Print("stdout", "head") }, "head" + cutOut + "tail\n", "", true},
		"a gap": {func(x *stagetest.Played) {
			x.Print("stdout", "ab")
			x.Mu.Lock()
			x.Sent["stdout"] += 3
			x.Mu.Unlock()
			x.Print("stdout", "fg")
		}, "abcdefg", "", false},
		"twice": {func(x *stagetest.Played) {
			x.Print("stdout", "ab")
			x.Mu.Lock()
			x.Sent["stdout"] = 1
			x.Mu.Unlock()
			x.Print("stdout", "bcd")
		}, "abcd", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
				c.play(x)
				o := stagetest.Finished(0, c.stdout, c.stderr)
				o.Truncated = c.truncated
				return o
			})
			code, out, errs := s.Main(nil, "exec", "--", "x")
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
	s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
		x.Print("stdout", strings.Repeat("x", 100))
		o := stagetest.Finished(0, "xxxx\n… 90 bytes left out …\nxxxxxx", "")
		o.Truncated = true
		return o
	})
	if code, out, errs := s.Main(nil, "exec", "--", "x"); code != exit.OK || out != strings.Repeat("x", 100) || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// With --json stdout has the outcome's own bytes and nothing else, and while an
// answer is awaited stderr has one line.
func TestExecJSON(t *testing.T) {
	rpctest.Question = stagetest.PendingQuestion()
	o := stagetest.Finished(3, "out\x1b[2J\n", "err")
	s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
		x.Print("stdout", "out\x1b[2J\n")
		return o
	})
	s.Asks()
	s.Answer <- palyra.AnswerAllow
	code, out, errs := s.Main(strings.NewReader("in"), "exec", "--json", "--", "x")
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
	if json.Unmarshal([]byte(errs), &event) != nil || strings.Count(errs, "\n") != 1 || event.Event != "approval_requested" ||
		event.Approval != "A1" || event.Plan != rpctest.Question.PlanDigest {
		t.Errorf("stderr %s", errs)
	}
	s.Running()
	code, out, errs = s.Main(nil, "exec", "--json", "--no-wait", "--", "x")
	if code != exit.Refused || !strings.Contains(out, `"reason_code":"approval_not_awaited"`) || strings.Count(out, "\n") != 1 ||
		strings.Count(errs, "\n") != 1 {
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
			s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
				if x.Args.Live {
					got = x.Read()
				}
				return stagetest.Finished(0, "", "")
			})
			code, _, errs := s.Main(c.in, append(append([]string{"exec"}, c.args...), "--", "cat")...)
			x := s.Running()
			if code != 0 || errs != "" || x.Args.Stdin != c.text || x.Args.StdinB64 != base64.StdEncoding.EncodeToString([]byte(c.b64)) ||
				x.Args.Live != (c.live != "") || got != c.live {
				t.Errorf("exit %d %q: text %d, b64 %d, live %v %d", code, errs, len(x.Args.Stdin), len(x.Args.StdinB64), x.Args.Live, len(got))
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
	for name, in := range map[string]io.Reader{"endless": endless{}, "stuck": stuck{
		strings.NewReader(strings.Repeat("x", proposal.MaxStdin+1)), ever,
	}} {
		t.Run(name, func(t *testing.T) {
			s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
				x.Fed(t)
				return stagetest.Finished(4, "", "")
			})
			if code, _, errs := s.Main(in, "exec", "--", "head"); code != 4 || errs != "" {
				t.Errorf("exit %d %q", code, errs)
			}
		})
	}
}

// Whoever waits for stdin is told so; Ctrl-C then ends it before anything is
// proposed.
func TestExecWaitsForStdin(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(*stagetest.Played) palyra.Outcome { return stagetest.Finished(0, "", "") })
	cmd := s.Command("exec", "--", "cat")
	in, err := cmd.StdinPipe()
	stagetest.Fatal(t, err)
	defer in.Close()
	errs, err := cmd.StderrPipe()
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Start())
	said := make([]byte, 200)
	n, _ := errs.Read(said)
	if got := string(said[:n]); got != "palyra: reading stdin; end it with Ctrl-D, or use --no-stdin\n" {
		t.Errorf("%q", got)
	}
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled || len(s.Started) != 0 {
		t.Errorf("exit %d", code)
	}
}

// A real pipe, a real file and the null device.
func TestExecStdinOfAProcess(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome { return stagetest.Finished(0, x.Args.Stdin, "") })
	file := filepath.Join(s.Work, "in.txt")
	stagetest.Fatal(t, os.WriteFile(file, []byte("of a file"), 0o600))
	cmd := s.Command("exec", "--", "cat")
	cmd.Stdin = strings.NewReader("of a pipe") // which exec makes a pipe of
	if out, err := cmd.Output(); err != nil || string(out) != "of a pipe" {
		t.Errorf("%q %v", out, err)
	}
	f, err := os.Open(file)
	stagetest.Fatal(t, err)
	defer f.Close()
	cmd = s.Command("exec", "--", "cat")
	cmd.Stdin = f
	if out, err := cmd.Output(); err != nil || string(out) != "of a file" {
		t.Errorf("%q %v", out, err)
	}
	cmd = s.Command("exec", "--", "cat") // no Stdin is the null device
	if out, err := cmd.Output(); err != nil || len(out) != 0 {
		t.Errorf("%q %v", out, err)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", "exec palyra exec -- cat <&-") // none at all
	shell.Env, shell.Dir = cmd.Env, cmd.Dir
	if out, err := shell.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("%q %v", out, err)
	}
}

// Signals are the command's, and its code is ours.
func TestExecForwardsSignals(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	s.Plays(func(x *stagetest.Played) palyra.Outcome {
		x.Print("stderr", "ready\n")
		for f := range x.Feed {
			if f.Signal == "SIGQUIT" {
				break
			}
			x.Print("stderr", f.Signal+"\n")
		}
		o := stagetest.Finished(131, "", "ready\nSIGUSR1\nSIGUSR2\nSIGHUP\nSIGTERM\nSIGINT\n")
		o.Signal = "SIGQUIT"
		return o
	})
	cmd := s.Command("exec", "--", "x")
	errs, err := cmd.StderrPipe()
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Start())
	s.Running()
	buf := make([]byte, 100)
	if n, _ := errs.Read(buf); string(buf[:n]) != "ready\n" {
		t.Fatalf("%q", buf[:n])
	}
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		stagetest.Fatal(t, cmd.Process.Signal(sig))
		n, err := errs.Read(buf)
		if want := map[syscall.Signal]string{10: "SIGUSR1", 12: "SIGUSR2", 1: "SIGHUP", 15: "SIGTERM", 2: "SIGINT"}[sig]; err != nil ||
			string(buf[:n]) != want+"\n" {
			t.Fatalf("%v: %q %v", sig, buf[:n], err)
		}
	}
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGQUIT))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 131 {
		t.Errorf("exit %d", code)
	}
}

// Whoever ends a command hears that what it had changed by then is kept.
func TestExecSaysWhatIsKeptOfAnEndedCommand(t *testing.T) {
	for _, c := range []struct {
		name string
		o    palyra.Outcome
		want bool
	}{
		{"ended by a signal", palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 130, Signal: "SIGINT"}, true},
		{"says so itself", palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 130}, true},
		{"out of time", palyra.Outcome{Outcome: palyra.OutcomeTimedOut, ReasonCode: palyra.ReasonTimedOut, ExitCode: 143}, true},
		{"failed", palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 1}, false},
	} {
		for _, effects := range []palyra.Settlement{palyra.EffectsKept, palyra.EffectsDropped} {
			s := stagetest.Open(t, cli.Main, nil)
			o := stagetest.Finished(c.o.ExitCode, "", "")
			o.Outcome, o.Signal, o.ReasonCode, o.Effects, o.Changes = c.o.Outcome, c.o.Signal, c.o.ReasonCode, effects, &palyra.Effects{Created: 2}
			s.Plays(func(*stagetest.Played) palyra.Outcome { return o })
			_, _, errs := s.Main(nil, "exec", "--", "x")
			want := c.want && effects == palyra.EffectsKept
			if got := strings.Contains(errs, "what it had changed by then is kept, 2 paths: palyra undo "); got != want {
				t.Errorf("%s, %s: %s", c.name, effects, errs)
			}
		}
	}
}

// Ctrl-C twice in short order cancels the call; one that the command takes does
// not make its code another one.
func TestExecInterrupted(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	s.Plays(func(x *stagetest.Played) palyra.Outcome {
		<-x.Ctx.Done()
		return stagetest.Cancelled
	})
	cmd, errs, x := s.Start("exec", "--", "x")
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGINT))
	if f := x.Fed(t); f.Signal != "SIGINT" {
		t.Errorf("%+v", f)
	}
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled || !strings.Contains(errs.String(), "palyra: cancelling call C1\n") {
		t.Errorf("exit %d %s", code, errs)
	}

	s.Plays(func(x *stagetest.Played) palyra.Outcome {
		x.Fed(t)
		return stagetest.Finished(1, "ready", "")
	})
	cmd, errs, _ = s.Start("exec", "--", "x")
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || errs.Len() != 0 {
		t.Errorf("exit %d %s", code, errs)
	}
}

// While an answer is awaited a signal cancels the call; one that means nothing
// yet is let go.
func TestExecInterruptedWhileWaiting(t *testing.T) {
	rpctest.Question = stagetest.PendingQuestion()
	s := stagetest.Open(t, cli.Main, nil)
	s.Asks()
	cmd := s.Command("exec", "--", "x")
	errs, err := cmd.StderrPipe()
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Start())
	said := make([]byte, 1)
	_, err = errs.Read(said)
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGUSR1))
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, _ := io.ReadAll(errs)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled || !strings.Contains(string(rest), "cancelling call C1") ||
		len(s.Started) != 0 {
		t.Errorf("exit %d %s", code, rest)
	}
}

// A signal that comes when nobody knows yet that an answer will be needed counts
// as one that came later: nobody waits for the answer.
func TestExecInterruptedBeforeTheQuestion(t *testing.T) {
	rpctest.Question = stagetest.PendingQuestion()
	s := stagetest.Open(t, cli.Main, nil)
	told := make(chan palyra.Feed, 1)
	s.Before = func(x *stagetest.Played) {
		x.Print("stdout", "ready")
		told <- x.Fed(t)
	}
	s.Asks()
	cmd := s.Command("exec", "--", "x")
	out, err := cmd.StdoutPipe()
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Start())
	_, err = out.Read(make([]byte, 5))
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGTERM))
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
	s := stagetest.Open(t, cli.Main, nil)
	s.Plays(func(x *stagetest.Played) palyra.Outcome {
		for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
			x.Print("stdout", "y\n")
			if x.Ctx.Err() != nil {
				tick.Stop()
				return stagetest.Cancelled
			}
		}
	})
	cmd := s.Command("exec", "--", "yes")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Start())
	s.Running()
	_, err = out.Read(make([]byte, 1))
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, out.Close())
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Unread || stderr.String() != "palyra: cancelling call C1\n" {
		t.Errorf("exit %d, and it says %q", code, stderr.String())
	}
}

// A reader that pauses holds up nobody but itself.
func TestExecSlowReader(t *testing.T) {
	big := strings.Repeat("0123456789abcde\n", 1<<16) // far more than a pipe takes
	printed := make(chan struct{})
	s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
		for rest := big; rest != ""; rest = rest[32<<10:] {
			x.Print("stdout", rest[:32<<10])
		}
		close(printed)
		return stagetest.Finished(0, big, "")
	})
	cmd := s.Command("exec", "--", "x")
	out, err := cmd.StdoutPipe()
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Start())
	<-printed
	got, err := io.ReadAll(out)
	if err != nil || string(got) != big || cmd.Wait() != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A daemon that goes away in the middle leaves the call's name behind.
func TestExecLosesItsDaemon(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
		<-x.Ctx.Done()
		return stagetest.Cancelled
	})
	cmd, errs, x := s.Start("exec", "--", "x")
	defer x.Cancel()
	s.Stop()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Palyra || !strings.Contains(errs.String(),
		"palyra: what became of call C1: palyra calls show C1\n") || !strings.Contains(errs.String(), "  remedy: ") {
		t.Errorf("exit %d %s", code, errs)
	}
}

// A signal that was ignored when we started stays so.
func TestExecUnderNohup(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
		f := x.Fed(t)
		return stagetest.Finished(0, "ready", f.Signal)
	})
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "trap '' HUP; exec palyra exec -- x")
	cmd.Env, cmd.Dir = s.Command().Env, s.Work
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Start())
	x := s.Running()
	x.Print("stdout", "ready")
	_, err = out.Read(make([]byte, 5))
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGHUP))
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGUSR1))
	if err := cmd.Wait(); err != nil || errs.String() != "SIGUSR1" {
		t.Errorf("%v %s", err, errs.String())
	}
}
