//go:build linux

package execute_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
)

func TestCheckProposes(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(*stagetest.Played) palyra.Outcome {
		return palyra.Outcome{Outcome: palyra.OutcomeAllowed, Reason: "policy allows it"}
	})
	file := filepath.Join(s.Work, "s.sh")
	stagetest.Fatal(t, os.WriteFile(file, []byte("echo <x>\n"), 0o600))
	for _, c := range []struct {
		args []string
		in   string
		want string
	}{
		{[]string{"--", "make", "-j", "test"}, "", `palyra.process.run {"command":"make","args":["-j","test"]}`},
		{[]string{"--cwd", "a", "--", "ls"}, "", `palyra.process.run {"command":"ls","cwd":"a"}`},
		{[]string{"--script", file}, "", `palyra.process.run {"script":"echo <x>\n"}`},
		{[]string{"--script", "-"}, "echo y", `palyra.process.run {"script":"echo y"}`},
		{[]string{"--tool", "palyra.fs.read", "--input", `{"path":"a"}`}, "", `palyra.fs.read {"path":"a"}`},
		{[]string{"--tool", "palyra.fs.read", "--input", "-"}, `{"path":"b"}`, `palyra.fs.read {"path":"b"}`},
	} {
		code, out, errs := s.Main(strings.NewReader(c.in), append([]string{"check", "--json"}, c.args...)...)
		var o palyra.Outcome
		if code != exit.OK || errs != "" || json.Unmarshal([]byte(out), &o) != nil || o.Outcome != palyra.OutcomeAllowed {
			t.Fatalf("%v: %d %q %q", c.args, code, out, errs)
		}
		x := s.Running()
		var got, want any
		name, args, _ := strings.Cut(c.want, " ")
		_ = json.Unmarshal(x.Proposal.Arguments, &got)
		_ = json.Unmarshal([]byte(args), &want)
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(x.Proposal.Tool) != name || string(a) != string(b) || !x.Proposal.Check ||
			x.Proposal.Surface != palyra.SurfaceHook || x.Proposal.Workspace != s.Work {
			t.Errorf("%v: %s %s, %+v", c.args, x.Proposal.Tool, a, x.Proposal)
		}
	}
	code, out, errs := s.Main(nil, "check", "--", "ls")
	if code != 0 || out != "" || !strings.Contains(errs, "C1 allowed: policy allows it") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	s.Running()
	s.Asks()
	if code, out, _ = s.Main(nil, "check", "--json", "--no-wait", "--", "ls"); code != exit.Refused ||
		!strings.Contains(out, `"approval_not_awaited"`) {
		t.Errorf("%d %q", code, out)
	}
}

func TestCheckCommandLine(t *testing.T) {
	s := stagetest.Open(t, cli.Main, func(*stagetest.Played) palyra.Outcome { t.Error("proposed"); return palyra.Outcome{} })
	for _, args := range [][]string{
		nil,
		{"ls"},
		{"--", ""},
		{"--tool", "x", "--", "ls"},
		{"--script", "x", "--tool", "y"},
		{"--script", "x", "--", "ls"},
		{"--input", "{}", "--", "ls"},
		{"--tool", "x", "--cwd", "a"},
		{"--nope"},
	} {
		if code, out, _ := s.Main(nil, append([]string{"check"}, args...)...); code != exit.Usage || out != "" {
			t.Errorf("%v: %d %q", args, code, out)
		}
	}
	for _, args := range [][]string{{"--script", "/no/such/file"}, {"--home", "/nowhere", "--", "ls"}} {
		if code, out, _ := s.Main(nil, append([]string{"check"}, args...)...); code != exit.Palyra || out != "" {
			t.Errorf("%v: %d %q", args, code, out)
		}
	}
}
