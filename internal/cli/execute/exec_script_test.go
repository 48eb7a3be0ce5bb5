//go:build linux

package execute_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/stagetest"
)

// A script is proposed as it is, from a file or from stdin; what comes from stdin
// is not the script's to read.
func TestExecScript(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(*stagetest.Played) palyra.Outcome { return stagetest.Finished(3, "out\n", "") })
	file := filepath.Join(s.Work, "a b.sh")
	const text = "echo '<é>'\n-x\n"
	stagetest.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
	if code, out, errs := s.Main(strings.NewReader("fed"), "exec", "--script", file, "--profile", "none"); code != 3 || out != "out\n" ||
		errs != "" {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	x := s.Running()
	if got := string(x.Proposal.Arguments); got != `{"cwd":".","stdin":"fed","profile":"none","script":"echo '<é>'\n-x\n"}` {
		t.Error(got)
	}
	if code, _, errs := s.Main(strings.NewReader(text), "exec", "--script", "-"); code != 3 || errs != "" {
		t.Fatalf("%d %q", code, errs)
	}
	x = s.Running()
	if got := string(x.Proposal.Arguments); got != `{"cwd":".","script":"echo '<é>'\n-x\n"}` {
		t.Error(got)
	}
}

func TestExecScriptRefused(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(*stagetest.Played) palyra.Outcome {
		t.Error("proposed")
		return stagetest.Finished(0, "", "")
	})
	write := func(name, text string) string {
		p := filepath.Join(s.Work, name)
		stagetest.Fatal(t, os.WriteFile(p, []byte(text), 0o600))
		return p
	}
	for _, c := range []struct {
		args  []string
		stdin string
		code  int
		says  string
	}{
		{[]string{"--script", ""}, "", exit.Usage, "needs a file"},
		{[]string{"--script", "x", "--", "ls"}, "", exit.Usage, "exclude"},
		{[]string{"--script", "x", "ls"}, "", exit.Usage, "exclude"},
		{[]string{"--script", "-", "-t"}, "", exit.Usage, "stdin is the script"},
		{[]string{"--script", "x", "--profile", "\xff"}, "", exit.Usage, "UTF-8"},
		{[]string{"--script", filepath.Join(s.Work, "gone")}, "", exit.Palyra, "no such file"},
		{[]string{"--script", s.Work}, "", exit.Palyra, "cannot read"},
		{[]string{"--script", write("empty", " \n\t")}, "", exit.Palyra, "is empty"},
		{[]string{"--script", write("nul", "a\x00b")}, "", exit.Palyra, "not text"},
		{[]string{"--script", write("latin", "a\xe9b")}, "", exit.Palyra, "not text"},
		{[]string{"--script", write("long", strings.Repeat("x", proposal.MaxScript+1))}, "", exit.Palyra, "larger than"},
		{[]string{"--script", "-"}, "", exit.Palyra, "is empty"},
		{[]string{"--script", "-"}, strings.Repeat("x", proposal.MaxScript+1), exit.Palyra, "larger than"},
		{[]string{"--script", "-"}, strings.Repeat("x", proposal.MaxStdin+2), exit.Palyra, "larger than"},
	} {
		code, _, errs := s.Main(strings.NewReader(c.stdin), append([]string{"exec"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d, %q; want %d with %q", c.args, code, errs, c.code, c.says)
		}
	}
	if _, err := proposal.ScriptText([]byte(strings.Repeat("x", proposal.MaxScript))); err != nil {
		t.Error(err)
	}
}

// What was taken away is named, safely and not without end.
func TestExecNamesWhatWasTakenAway(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(*stagetest.Played) palyra.Outcome {
		o := stagetest.Finished(0, "out", "")
		o.Quarantined = []palyra.PathText{".git/hooks/pre-commit", "a\x1b[2J", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"}
		return o
	})
	code, out, errs := s.Main(nil, "exec", "--", "x")
	if code != exit.OK || out != "out" || !strings.Contains(errs, ".git/hooks/pre-commit\n") || !strings.Contains(errs, "and 2 more") ||
		strings.Contains(errs, "\x1b") || !strings.Contains(errs, "remedy") {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// A write that the room refused is explained, also where the command goes on.
func TestExecExplainsAReadOnlyPath(t *testing.T) {
	for stderr, want := range map[string]bool{"sh: 1: cannot create .git/hooks/y: Read-only file system\n": true, "other\n": false} {
		s := stagetest.Open(t, cli.Main, func(*stagetest.Played) palyra.Outcome { return stagetest.Finished(0, "", stderr) })
		code, _, errs := s.Main(nil, "exec", "--", "x")
		if said := strings.Contains(errs, "palyra: the command could not write something"); code != exit.OK || said != want {
			t.Errorf("%d %q", code, errs)
		}
	}
}
