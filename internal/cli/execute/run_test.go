//go:build linux

package execute_test

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/cli"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/stagetest"
	"palyra/internal/rpc/rpctest"
)

func ended(state palyra.RunState) palyra.TapeEntry {
	return palyra.TapeEntry{Run: "R1", RunFinished: &palyra.TapeRunFinished{State: state, Calls: 1}}
}

func TestRunStartsAndFollows(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	s.Script()
	s.Write(questiontest.SampleTape()...)
	code, out, errs := s.Main(nil, "run", "--script", "steps.yaml", "--session", "mine", "--max-calls", "7", "--wall", "1m", "--key", "k",
		"--no-wait")
	if code != exit.Failure || errs != "" || !strings.HasPrefix(out, "run R1: first steps\n") ||
		!strings.HasSuffix(out, "  remedy: raise --max-calls\n") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	r := s.Parts.Started()
	if r.Provider != "scripted" || string(r.Input) != stagetest.AScript || r.Workspace != s.Work || r.Session != "mine" || r.Key != "k" ||
		!r.NoWait || r.Surface != palyra.SurfaceAPI ||
		r.Budget != (palyra.Budget{Calls: 7, WallMS: 60_000}) {
		t.Errorf("%+v", r)
	}
}

func TestRunEndsAsTheRunDid(t *testing.T) {
	for state, want := range map[palyra.RunState]int{palyra.RunDone: 0, palyra.RunFailed: 1, palyra.RunCancelled: 130} {
		s := stagetest.Open(t, cli.Main, nil)
		s.Write(ended(state))
		if code, out, _ := s.Main(strings.NewReader(stagetest.AScript), "run", "--script", "-"); code != want ||
			out != "run R1 "+string(state)+", 1 call\n" {
			t.Errorf("%s: exit %d %q", state, code, out)
		}
		if code, _, _ := s.Main(nil, "runs", "attach", "R1"); code != want {
			t.Errorf("attach %s: exit %d", state, code)
		}
	}
}

// With --json stdout has the tape, entry by entry, and nothing else is said.
func TestRunJSON(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	s.Write(append(questiontest.SampleTape()[:3], palyra.TapeEntry{ApprovalRequested: &palyra.TapeRequested{Approval: "A1", Call: "C1"}},
		ended(palyra.RunDone))...)
	code, out, errs := s.Main(strings.NewReader(stagetest.AScript), "run", "--script", "-", "--json")
	if code != 0 || errs != "" || strings.Count(out, "\n") != 5 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	seq := int64(0)
	for line := range strings.Lines(out) {
		var e palyra.TapeEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != seq+1 {
			t.Errorf("%v: %s", err, line)
		}
		seq = e.Seq
	}
	code, out, errs = s.Main(strings.NewReader(stagetest.AScript), "run", "--script", "-", "--json", "--detach")
	if id, err := stagetest.Dig([]byte(out), "run_id"); code != 0 || err != nil || id != "R1" || errs != "" {
		t.Errorf("exit %d %s%s", code, out, errs)
	}
}

func TestRunDetached(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	code, out, errs := s.Main(strings.NewReader(stagetest.AScript), "run", "--script", "-", "--detach")
	if code != 0 || out != "R1\n" || errs != "palyra: the run goes on; follow it with `palyra runs attach R1`\n" {
		t.Errorf("exit %d %q %q", code, out, errs)
	}
}

func TestRunWithABadScript(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	for _, c := range []struct {
		in   io.Reader
		args []string
		code int
		says string
	}{
		{nil, []string{"--script", "missing.yaml"}, exit.Failure, "no such file"},
		{strings.NewReader(strings.Repeat("x", 1<<20+1)), []string{"--script", "-"}, exit.Failure, "larger than 1 MiB"},
		{strings.NewReader("\xff"), []string{"--script", "-"}, exit.Failure, "is not UTF-8"},
	} {
		code, out, errs := s.Main(c.in, append([]string{"run"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d %s", c.args, code, errs)
		}
	}
}

// Ctrl-C cancels the run, and its end still arrives.
func TestRunCancelled(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	tape := s.Write(palyra.TapeEntry{RunAccepted: &palyra.TapeAccepted{Title: "x"}})
	cmd := s.Command("run", "--script", s.Script())
	out, err := cmd.StdoutPipe()
	stagetest.Fatal(t, err)
	errs, err := cmd.StderrPipe()
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Start())
	lines := bufio.NewReader(out)
	if line, _ := lines.ReadString('\n'); line != "run R1: x\n" {
		t.Errorf("%q", line)
	}
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGINT))
	if line, _ := bufio.NewReader(errs).ReadString('\n'); line != "palyra: cancelling run R1\n" {
		t.Errorf("%q", line)
	}
	stagetest.Eventually(t, "nobody cancelled it", func() bool {
		return strings.Contains(strings.Join(s.Parts.Seen(), "\n"), "cancel run R1 agent:local")
	})
	tape.Write(ended(palyra.RunCancelled))
	if line, _ := lines.ReadString('\n'); line != "run R1 cancelled, 1 call\n" {
		t.Errorf("%q", line)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled {
		t.Errorf("exit %d", code)
	}
}

// Whoever only follows leaves with Ctrl-C; nothing is cancelled.
func TestAttachLeft(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	s.Write(palyra.TapeEntry{ModelText: &palyra.TapeText{Text: "one\n"}}, palyra.TapeEntry{ModelText: &palyra.TapeText{Text: "two\n"}})
	cmd := s.Command("runs", "attach", "R1")
	out, err := cmd.StdoutPipe()
	stagetest.Fatal(t, err)
	errs, err := cmd.StderrPipe()
	stagetest.Fatal(t, err)
	stagetest.Fatal(t, cmd.Start())
	lines := bufio.NewReader(out)
	for _, want := range []string{"│ one\n", "│ two\n"} {
		if line, _ := lines.ReadString('\n'); line != want {
			t.Errorf("%q", line)
		}
	}
	stagetest.Fatal(t, cmd.Process.Signal(syscall.SIGINT))
	said, _ := io.ReadAll(errs)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled || !strings.Contains(string(said),
		"`palyra runs attach R1 --after 2` follows it again") {
		t.Errorf("exit %d %s", code, said)
	}
	if seen := strings.Join(s.Parts.Seen(), "\n"); strings.Contains(seen, "cancel") {
		t.Errorf("%s", seen)
	}
}

func TestAttachAfter(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	s.Write(append(questiontest.SampleTape()[:3:3], ended(palyra.RunDone))...)
	code, out, errs := s.Main(nil, "runs", "attach", "R1", "--json")
	if code != 0 || strings.Count(out, "\n") != 4 {
		t.Errorf("exit %d %s%s", code, out, errs)
	}
	if code, out, errs := s.Main(nil, "runs", "attach", "none"); code != exit.Failure || out != "" ||
		!strings.Contains(errs, "there is no such run") {
		t.Errorf("exit %d %s%s", code, out, errs)
	}
}

func TestRunsCommands(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	code, out, _ := s.Main(nil, "runs", "list", "--state", "done", "--principal", "agent:x", "--json")
	if n, err := stagetest.Dig([]byte(out), "runs.len"); code != 0 || err != nil || n != "2" {
		t.Errorf("exit %d %s", code, out)
	}
	if seen := s.Parts.Seen(); len(seen) != 1 || seen[0] != "runs agent:xdone" {
		t.Errorf("%q", seen)
	}
	if code, out, _ = s.Main(nil, "runs", "show", "R7"); code != 0 || !strings.HasPrefix(out, "Run        R7\nState      in_progress\n") {
		t.Errorf("exit %d %s", code, out)
	}
	if code, out, _ = s.Main(nil, "runs", "cancel", "R7"); code != 0 || out != "R7: in_progress\n" {
		t.Errorf("exit %d %s", code, out)
	}
	if seen := strings.Join(s.Parts.Seen(), "\n"); !strings.Contains(seen, "cancel run R7 user:ann") {
		t.Errorf("%s", seen)
	}
	if code, out, _ = s.Main(nil, "__complete", "runs", "attach", ""); code != 0 || !strings.HasPrefix(out, "R\n") {
		t.Errorf("exit %d %s", code, out)
	}
	if code, out, _ = s.Main(nil, "__complete", "runs", "list", "--state", ""); code != 0 || !strings.Contains(out, "in_progress\n") {
		t.Errorf("exit %d %s", code, out)
	}
	if code, out, _ = s.Main(nil, "__complete", "exec", "--tier", ""); code != 0 || !strings.HasPrefix(out, "b\nc\n") {
		t.Errorf("exit %d %s", code, out)
	}
}

// At a terminal the questions of a run are asked one after the other, and what
// is printed meanwhile waits.
func TestRunAsksInPlace(t *testing.T) {
	rpctest.Question = stagetest.PendingQuestion()
	s := stagetest.Open(t, cli.Main, nil)
	asked := func(id palyra.ApprovalID) palyra.TapeEntry {
		return palyra.TapeEntry{ApprovalRequested: &palyra.TapeRequested{
			Call: "C1", Approval: id, Plan: rpctest.Question.PlanDigest,
			Summary: "run it",
		}}
	}
	tape := s.Write(palyra.TapeEntry{RunAccepted: &palyra.TapeAccepted{Title: "x"}}, asked("A1"))
	c := s.At("run", "--script", s.Script())
	c.Expect("Type allow to allow once, deny to deny (Ctrl-C cancels the run): ")
	tape.Write(palyra.TapeEntry{ToolOutput: &palyra.TapeOutput{Call: "C2", Stream: "stdout", Data: []byte("meanwhile\n")}})
	tape.Write(asked("A2"))
	c.Send("allow\n")
	if a := <-s.Answer; a != palyra.AnswerAllow {
		t.Errorf("%s", a)
	}
	tape.Write(palyra.TapeEntry{ApprovalResolved: &palyra.TapeResolved{
		Call: "C1", Approval: "A1", Answer: palyra.AnswerAllow,
		By: "user:ann",
	}})
	c.Expect("meanwhile")
	if before, _, _ := strings.Cut(c.Seen.String(), "meanwhile"); strings.Contains(before, "Type allow") {
		t.Errorf("the second question came too early:\n%s", c.Seen.String())
	}
	c.Expect("waiting for an answer to A2")
	c.Expect("Type allow")
	tape.Write(ended(palyra.RunDone))
	if code := c.End(); code != 0 || !strings.Contains(c.Seen.String(), "run R1 done, 1 call") {
		t.Errorf("exit %d\n%s", code, c.Seen.String())
	}
}

// A terminal that can show marks gets them, and colour only where it is wanted.
func TestMarksOnATerminal(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	s.Write(questiontest.SampleTape()...)
	for want, env := range map[string][]string{
		"✓ palyra.fs.read":            {"LC_ALL=C.UTF-8", "NO_COLOR="},
		"\x1b[1;31m✗\x1b[0m palyra":   {"LC_ALL=C.UTF-8", "NO_COLOR="},
		"ok palyra.fs.read":           {"LC_ALL=C.UTF-8", "NO_COLOR=1"},
		"FAILED palyra.process.run e": {"LC_ALL=C", "NO_COLOR="},
	} {
		c := stagetest.OnTerminal(t, s.Work, append(env, "PALYRA_HOME="+s.Home, "TERM=xterm"), "palyra", "runs", "attach", "R1")
		if code := c.End(); code != exit.Failure || !strings.Contains(c.Seen.String(), want) {
			t.Errorf("%v: exit %d, no %q in\n%s", env, code, want, c.Seen.String())
		}
	}
}
