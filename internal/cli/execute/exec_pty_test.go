//go:build linux

package execute_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cli"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/stagetest"
	"palyra/internal/rpc/rpctest"
)

// The person at the terminal sees what the plan binds and answers in place; the
// command's output follows, made safe.
func TestExecAsksInPlace(t *testing.T) {
	rpctest.Question = stagetest.PendingQuestion()
	s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
		x.Print("stdout", "caf\xc3")
		x.Print("stdout", "\xa9 \x1b[2J\x1b]0;owned\x07\tok")
		return stagetest.Finished(7, "caf\xc3\xa9 \x1b[2J\x1b]0;owned\x07\tok", "")
	})
	s.Asks()
	c := s.At("exec", "--", "./check.sh")
	c.Expect("Type allow to allow once, deny to deny (Ctrl-C cancels the call): ")
	for _, want := range []string{
		"/home/ann/shop/check.sh", "Command        ./check.sh --all \"a b\"", "CI=1", `"stdin":"hello"`,
		"memory, processes: only looked at from time to time", "NOT enforced: disk", "--full",
	} {
		if !strings.Contains(strings.ReplaceAll(c.Seen.String(), "\r\n", "\n"), want) {
			t.Errorf("no %q on the screen:\n%s", want, c.Seen.String())
		}
	}
	if n := strings.Count(c.Seen.String(), "\n") + 1; n > 12 {
		t.Errorf("the question has %d lines:\n%s", n, c.Seen.String())
	}
	if len(s.Started) != 0 {
		t.Fatal("it ran without an answer")
	}
	c.Send("allow\n")
	if code := c.End(); code != 7 {
		t.Errorf("exit %d", code)
	}
	if got := c.Seen.String(); !strings.Contains(got, "café \\x1b[2J\\x1b]0;owned\\x07") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("%q", got)
	}
	if x := s.Running(); x.Args.Live || x.Args.Stdin != "" {
		t.Error("the person's terminal was taken for input")
	}
}

// A question about the hosts of a group is answered for the group in place, and what is signed says for which and what is
// in it. Neither Enter nor part of the word is such an answer.
func TestExecAllowsAGroupInPlace(t *testing.T) {
	const name = "group:npm:sha256:00"
	a := stagetest.PendingQuestion()
	a.Plan = palyra.Plan{
		Tool: palyra.ToolAllowHost, Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, Workspace: a.Plan.Workspace,
		Arguments: []byte(`{"host":"registry.npmjs.org","port":443}`), Egress: []string{"registry.npmjs.org:443"},
	}
	a.Prompt.Options = []palyra.Widening{
		{Name: palyra.WidenExact, Label: "this exact plan"},
		{Name: name, Label: "hosts of npm (registry.npmjs.org), from this workspace", Saves: 12},
	}
	rpctest.Question = questiontest.Bound(a)
	s := stagetest.Open(t, cli.Main, func(*stagetest.Played) palyra.Outcome { return stagetest.Finished(0, "", "") })
	s.Asks()
	votes, decided := make(chan palyra.Vote, 1), s.Parts.OnDecide
	s.Parts.OnDecide = func(v palyra.Vote) (palyra.Approval, error) {
		votes <- v
		return decided(v)
	}
	c := s.At("exec", "--", "x")
	var seen string
	for _, typed := range []string{"", "allow-", "group", "allow-group"} {
		c.Expect("Type allow to allow once, allow-group or deny")
		if len(votes) > 0 {
			t.Fatalf("it was answered before %q", typed)
		}
		if typed == "" {
			seen = strings.Join(strings.Fields(c.Seen.String()), " ")
		}
		c.Send(typed + "\n")
	}
	if code := c.End(); code != exit.OK {
		t.Errorf("exit %d\n%s", code, c.Seen.String())
	}
	v := <-votes
	if v.Answer != palyra.AnswerAllow || v.Widen != name || v.Scope != palyra.ScopeTimeboxed || v.TTLMS != (8*time.Hour).Milliseconds() {
		t.Errorf("%+v", v)
	}
	if !strings.Contains(seen, "allow-group: npm, this workspace, 8h") {
		t.Errorf("what it is for is not on the screen: %s", seen)
	}
}

func TestExecDeniedInPlace(t *testing.T) {
	rpctest.Question = stagetest.PendingQuestion()
	s := stagetest.Open(t, cli.Main, nil)
	s.Asks()
	c := s.At("exec", "--", "x")
	c.Expect("Type allow")
	c.Send("deny\n")
	if code := c.End(); code != exit.Refused || !strings.Contains(c.Seen.String(), "refused: denied by user:ann (approval_denied)") {
		t.Errorf("exit %d\n%s", code, c.Seen.String())
	}
	c = s.At("exec", "--", "x")
	c.Expect("Type allow")
	c.Send("\x03")
	if code := c.End(); code != exit.Cancelled || len(s.Started) != 0 {
		t.Errorf("exit %d\n%s", code, c.Seen.String())
	}
}

// With -t the command has the terminal: keys as they are, sizes as they change.
// The question comes first, and afterwards all is as it was.
func TestExecOnATerminal(t *testing.T) {
	rpctest.Question = stagetest.PendingQuestion()
	const screen = "\x1b[2Jhello\r\n"
	s := stagetest.Open(t, cli.Main, nil)
	resized := make(chan palyra.Feed, 1)
	s.Plays(func(x *stagetest.Played) palyra.Outcome {
		x.Print("stdout", screen)
		keys := ""
		for {
			f := x.Fed(t)
			if f.Rows > 0 {
				resized <- f
			}
			if keys += string(f.Data); strings.HasSuffix(keys, "q") {
				break
			}
		}
		x.Print("stdout", "got "+keys)
		return stagetest.Finished(0, screen+"got "+keys, "")
	})
	s.Asks()
	c := s.At("exec", "-t", "--", "top")
	c.Expect("Type allow")
	before := c.Mode()
	if before.Lflag&unix.ICANON == 0 {
		t.Error("the terminal is raw while a person is asked")
	}
	c.Send("allow\n")
	x := s.Running()
	if tt := x.Args.Terminal; tt == nil || tt.Rows != 50 || tt.Cols != 100 || !x.Args.Live {
		t.Errorf("%+v", x.Args)
	}
	c.Expect(screen)
	stagetest.Eventually(t, "the terminal is never raw", func() bool { m := c.Mode(); return m.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0 })
	c.Resize(33, 44)
	if f := <-resized; f.Rows != 33 || f.Cols != 44 {
		t.Errorf("%+v", f)
	}
	c.Send("\x03\x1a\x04\rq")
	c.Expect("got \x03\x1a\x04\rq")
	if code := c.End(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if c.Mode() != before {
		t.Error("the terminal is not as it was")
	}
	if n := s.Looked.Load(); n != 0 {
		t.Errorf("the call was looked at %d times; that it runs is told", n)
	}
}

// However a command with a terminal ends, the terminal is given back.
func TestExecGivesTheTerminalBack(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*stagetest.AtTerminal, *stagetest.Played)
		code int
		says string
	}{
		"failed": {
			func(_ *stagetest.AtTerminal, x *stagetest.Played) { x.Cancel() }, 126,
			"palyra: call C1 refused: no room (quota_exceeded)",
		},
		"signalled": {func(c *stagetest.AtTerminal, x *stagetest.Played) { _ = c.Cmd.Process.Signal(syscall.SIGTERM) }, 126, "(quota_exceeded)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
				select {
				case <-x.Ctx.Done():
				case f := <-x.Feed:
					if f.Signal != "SIGTERM" {
						t.Errorf("%+v", f)
					}
				}
				return palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonQuotaExceeded, Reason: "no room"}
			})
			screen := s.At("exec", "-t", "--", "top")
			x := s.Running()
			stagetest.Eventually(t, "the terminal is never raw", func() bool { m := screen.Mode(); return m.Lflag&unix.ICANON == 0 })
			c.end(screen, x)
			code := screen.End()
			if m := screen.Mode(); code != c.code || m.Lflag&unix.ICANON == 0 || m.Lflag&unix.ECHO == 0 ||
				!strings.Contains(screen.Seen.String(), c.says) {
				t.Errorf("exit %d\n%s", code, screen.Seen.String())
			}
		})
	}
}

// Two Ctrl-C from elsewhere give up a command that has the terminal.
func TestExecOnATerminalCancelled(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
		<-x.Ctx.Done()
		return stagetest.Cancelled
	})
	c := s.At("exec", "-t", "--", "top")
	x := s.Running()
	stagetest.Eventually(t, "the terminal is never raw", func() bool { m := c.Mode(); return m.Lflag&unix.ICANON == 0 })
	stagetest.Fatal(t, c.Cmd.Process.Signal(os.Interrupt))
	if f := x.Fed(t); f.Signal != "SIGINT" {
		t.Errorf("%+v", f)
	}
	stagetest.Fatal(t, c.Cmd.Process.Signal(os.Interrupt))
	if code := c.End(); code != exit.Cancelled {
		t.Errorf("exit %d\n%s", code, c.Seen.String())
	}
	if m := c.Mode(); m.Lflag&unix.ICANON == 0 {
		t.Error("the terminal is still raw")
	}
}

// Without a terminal there is none to give.
func TestExecTerminalNeedsOne(t *testing.T) {
	for _, args := range [][]string{{"exec", "-t", "--", "x"}, {"exec", "-t", "--json", "--", "x"}, {"exec", "-t", "--no-stdin", "--", "x"}} {
		code, out, errs := stagetest.Program(cli.Main).Alone(t, []string{"PALYRA_HOME=" + t.TempDir()}, args...)
		if code != exit.Usage || out != "" || !strings.Contains(errs, "-t") {
			t.Errorf("%v: exit %d %s", args, code, errs)
		}
	}
}

// On a terminal our own words start a line of their own.
func TestExecEndsTheLine(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(x *stagetest.Played) palyra.Outcome {
		x.Print("stdout", "half a line")
		o := stagetest.Finished(137, "half a line", "")
		o.Signal, o.ReasonCode, o.Reason, o.Remedy = "SIGKILL", palyra.ReasonQuotaExceeded, "ended by its memory limit", "raise it"
		return o
	})
	c := s.At("exec", "--", "x")
	if code := c.End(); code != 137 || !strings.Contains(c.Seen.String(),
		"half a line\r\npalyra: call C1 finished: ended by its memory limit (quota_exceeded)\r\n  remedy: raise it\r\n") {
		t.Errorf("exit %d %q", code, c.Seen.String())
	}
}
