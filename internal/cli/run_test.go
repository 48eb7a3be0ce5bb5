//go:build linux

package cli

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/questiontest"
	"palyra/internal/rpc/rpctest"
)

const aScript = "title: steps\nturns: []\n"

// script writes a script into the stage's directory.
func (s *stage) script() string {
	s.t.Helper()
	path := filepath.Join(s.work, "steps.yaml")
	fatal(s.t, os.WriteFile(path, []byte(aScript), 0o600))
	return path
}

// write puts a whole tape on the stage.
func (s *stage) write(entries ...palyra.TapeEntry) *rpctest.FakeTape {
	t := s.parts.Tape("R1")
	for _, e := range entries {
		t.Write(e)
	}
	return t
}

func ended(state palyra.RunState) palyra.TapeEntry {
	return palyra.TapeEntry{Run: "R1", RunFinished: &palyra.TapeRunFinished{State: state, Calls: 1}}
}

func TestRunStartsAndFollows(t *testing.T) {
	s := openStage(t, nil)
	s.script()
	s.write(questiontest.SampleTape()...)
	code, out, errs := s.main(nil, "run", "--script", "steps.yaml", "--session", "mine", "--max-calls", "7", "--wall", "1m", "--key", "k", "--no-wait")
	if code != exit.Failure || errs != "" || !strings.HasPrefix(out, "run R1: first steps\n") || !strings.HasSuffix(out, "  remedy: raise --max-calls\n") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	r := s.parts.Started()
	if r.Provider != "scripted" || string(r.Input) != aScript || r.Workspace != s.work || r.Session != "mine" || r.Key != "k" || !r.NoWait || r.Surface != palyra.SurfaceAPI ||
		r.Budget != (palyra.Budget{Calls: 7, WallMS: 60_000}) {
		t.Errorf("%+v", r)
	}
}

func TestRunEndsAsTheRunDid(t *testing.T) {
	for state, want := range map[palyra.RunState]int{palyra.RunDone: 0, palyra.RunFailed: 1, palyra.RunCancelled: 130} {
		s := openStage(t, nil)
		s.write(ended(state))
		if code, out, _ := s.main(strings.NewReader(aScript), "run", "--script", "-"); code != want || out != "run R1 "+string(state)+", 1 call\n" {
			t.Errorf("%s: exit %d %q", state, code, out)
		}
		if code, _, _ := s.main(nil, "runs", "attach", "R1"); code != want {
			t.Errorf("attach %s: exit %d", state, code)
		}
	}
}

// With --json stdout has the tape, entry by entry, and nothing else is said.
func TestRunJSON(t *testing.T) {
	s := openStage(t, nil)
	s.write(append(questiontest.SampleTape()[:3], palyra.TapeEntry{ApprovalRequested: &palyra.TapeRequested{Approval: "A1", Call: "C1"}}, ended(palyra.RunDone))...)
	code, out, errs := s.main(strings.NewReader(aScript), "run", "--script", "-", "--json")
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
	code, out, errs = s.main(strings.NewReader(aScript), "run", "--script", "-", "--json", "--detach")
	if id, err := dig([]byte(out), "run_id"); code != 0 || err != nil || id != "R1" || errs != "" {
		t.Errorf("exit %d %s%s", code, out, errs)
	}
}

func TestRunDetached(t *testing.T) {
	s := openStage(t, nil)
	code, out, errs := s.main(strings.NewReader(aScript), "run", "--script", "-", "--detach")
	if code != 0 || out != "R1\n" || errs != "palyra: the run goes on; follow it with `palyra runs attach R1`\n" {
		t.Errorf("exit %d %q %q", code, out, errs)
	}
}

func TestRunWithABadScript(t *testing.T) {
	s := openStage(t, nil)
	for _, c := range []struct {
		in   io.Reader
		args []string
		code int
		says string
	}{
		{nil, []string{"--script", "missing.yaml"}, exit.Failure, "no such file"},
		{strings.NewReader(strings.Repeat("x", 1<<20+1)), []string{"--script", "-"}, exit.Failure, "larger than 1 MiB"},
		{strings.NewReader("\xff"), []string{"--script", "-"}, exit.Failure, "not text in UTF-8"},
	} {
		code, out, errs := s.main(c.in, append([]string{"run"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d %s", c.args, code, errs)
		}
	}
}

// Ctrl-C cancels the run, and its end still arrives.
func TestRunCancelled(t *testing.T) {
	s := openStage(t, nil)
	tape := s.write(palyra.TapeEntry{RunAccepted: &palyra.TapeAccepted{Title: "x"}})
	cmd := s.command("run", "--script", s.script())
	out, err := cmd.StdoutPipe()
	fatal(t, err)
	errs, err := cmd.StderrPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	lines := bufio.NewReader(out)
	if line, _ := lines.ReadString('\n'); line != "run R1: x\n" {
		t.Errorf("%q", line)
	}
	fatal(t, cmd.Process.Signal(syscall.SIGINT))
	if line, _ := bufio.NewReader(errs).ReadString('\n'); line != "palyra: cancelling run R1\n" {
		t.Errorf("%q", line)
	}
	eventually(t, "nobody cancelled it", func() bool {
		return strings.Contains(strings.Join(s.parts.Seen(), "\n"), "cancel run R1 agent:local")
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
	s := openStage(t, nil)
	s.write(palyra.TapeEntry{ModelText: &palyra.TapeText{Text: "one\n"}}, palyra.TapeEntry{ModelText: &palyra.TapeText{Text: "two\n"}})
	cmd := s.command("runs", "attach", "R1")
	out, err := cmd.StdoutPipe()
	fatal(t, err)
	errs, err := cmd.StderrPipe()
	fatal(t, err)
	fatal(t, cmd.Start())
	lines := bufio.NewReader(out)
	for _, want := range []string{"│ one\n", "│ two\n"} {
		if line, _ := lines.ReadString('\n'); line != want {
			t.Errorf("%q", line)
		}
	}
	fatal(t, cmd.Process.Signal(syscall.SIGINT))
	said, _ := io.ReadAll(errs)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Cancelled || !strings.Contains(string(said), "`palyra runs attach R1 --after 2` follows it again") {
		t.Errorf("exit %d %s", code, said)
	}
	if seen := strings.Join(s.parts.Seen(), "\n"); strings.Contains(seen, "cancel") {
		t.Errorf("%s", seen)
	}
}

func TestAttachAfter(t *testing.T) {
	s := openStage(t, nil)
	s.write(append(questiontest.SampleTape()[:3:3], ended(palyra.RunDone))...)
	code, out, errs := s.main(nil, "runs", "attach", "R1", "--json")
	if code != 0 || strings.Count(out, "\n") != 4 {
		t.Errorf("exit %d %s%s", code, out, errs)
	}
	if code, out, errs := s.main(nil, "runs", "attach", "none"); code != exit.Failure || out != "" || !strings.Contains(errs, "there is no such run") {
		t.Errorf("exit %d %s%s", code, out, errs)
	}
}

func TestRunsCommands(t *testing.T) {
	s := openStage(t, nil)
	code, out, _ := s.main(nil, "runs", "list", "--state", "done", "--principal", "agent:x", "--json")
	if n, err := dig([]byte(out), "runs.len"); code != 0 || err != nil || n != "2" {
		t.Errorf("exit %d %s", code, out)
	}
	if seen := s.parts.Seen(); len(seen) != 1 || seen[0] != "runs agent:xdone" {
		t.Errorf("%q", seen)
	}
	if code, out, _ = s.main(nil, "runs", "show", "R7"); code != 0 || !strings.HasPrefix(out, "Run        R7\nState      in_progress\n") {
		t.Errorf("exit %d %s", code, out)
	}
	if code, out, _ = s.main(nil, "runs", "cancel", "R7"); code != 0 || out != "R7: in_progress\n" {
		t.Errorf("exit %d %s", code, out)
	}
	if seen := strings.Join(s.parts.Seen(), "\n"); !strings.Contains(seen, "cancel run R7 user:ann") {
		t.Errorf("%s", seen)
	}
	if code, out, _ = s.main(nil, "__complete", "runs", "attach", ""); code != 0 || !strings.HasPrefix(out, "R\n") {
		t.Errorf("exit %d %s", code, out)
	}
	if code, out, _ = s.main(nil, "__complete", "runs", "list", "--state", ""); code != 0 || !strings.Contains(out, "in_progress\n") {
		t.Errorf("exit %d %s", code, out)
	}
	if code, out, _ = s.main(nil, "__complete", "exec", "--tier", ""); code != 0 || !strings.HasPrefix(out, "b\nc\n") {
		t.Errorf("exit %d %s", code, out)
	}
}

// At a terminal the questions of a run are asked one after the other, and what
// is printed meanwhile waits.
func TestRunAsksInPlace(t *testing.T) {
	rpctest.Question = pendingQuestion()
	s := openStage(t, nil)
	asked := func(id palyra.ApprovalID) palyra.TapeEntry {
		return palyra.TapeEntry{ApprovalRequested: &palyra.TapeRequested{Call: "C1", Approval: id, Plan: rpctest.Question.PlanDigest, Summary: "run it"}}
	}
	tape := s.write(palyra.TapeEntry{RunAccepted: &palyra.TapeAccepted{Title: "x"}}, asked("A1"))
	c := s.at("run", "--script", s.script())
	c.expect("Type allow to allow once, deny to deny (Ctrl-C cancels the run): ")
	tape.Write(palyra.TapeEntry{ToolOutput: &palyra.TapeOutput{Call: "C2", Stream: "stdout", Data: []byte("meanwhile\n")}})
	tape.Write(asked("A2"))
	c.send("allow\n")
	if a := <-s.answer; a != palyra.AnswerAllow {
		t.Errorf("%s", a)
	}
	tape.Write(palyra.TapeEntry{ApprovalResolved: &palyra.TapeResolved{Call: "C1", Approval: "A1", Answer: palyra.AnswerAllow, By: "user:ann"}})
	c.expect("meanwhile")
	if before, _, _ := strings.Cut(c.seen.String(), "meanwhile"); strings.Contains(before, "Type allow") {
		t.Errorf("the second question came too early:\n%s", c.seen.String())
	}
	c.expect("waiting for an answer to A2")
	c.expect("Type allow")
	tape.Write(ended(palyra.RunDone))
	if code := c.end(); code != 0 || !strings.Contains(c.seen.String(), "run R1 done, 1 call") {
		t.Errorf("exit %d\n%s", code, c.seen.String())
	}
}

// A terminal that can show marks gets them, and colour only where it is wanted.
func TestMarksOnATerminal(t *testing.T) {
	s := openStage(t, nil)
	s.write(questiontest.SampleTape()...)
	for want, env := range map[string][]string{
		"✓ palyra.fs.read":            {"LC_ALL=C.UTF-8", "NO_COLOR="},
		"\x1b[1;31m✗\x1b[0m palyra":   {"LC_ALL=C.UTF-8", "NO_COLOR="},
		"ok palyra.fs.read":           {"LC_ALL=C.UTF-8", "NO_COLOR=1"},
		"FAILED palyra.process.run e": {"LC_ALL=C", "NO_COLOR="},
	} {
		c := onTerminal(t, s.work, append(env, "PALYRA_HOME="+s.home, "TERM=xterm"), "palyra", "runs", "attach", "R1")
		if code := c.end(); code != exit.Failure || !strings.Contains(c.seen.String(), want) {
			t.Errorf("%v: exit %d, no %q in\n%s", env, code, want, c.seen.String())
		}
	}
}
