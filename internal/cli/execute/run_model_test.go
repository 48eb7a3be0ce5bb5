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
	"palyra/internal/cli/stagetest"
)

func TestRunOfAModel(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	s.Write(
		palyra.TapeEntry{RunAccepted: &palyra.TapeAccepted{Title: "do it"}},
		palyra.TapeEntry{ModelText: &palyra.TapeText{Turn: 1, Text: "half an ans"}},
		palyra.TapeEntry{ModelText: &palyra.TapeText{Turn: 1, Again: true}},
		palyra.TapeEntry{ModelText: &palyra.TapeText{Turn: 1, Text: "a whole one"}},
		palyra.TapeEntry{ModelText: &palyra.TapeText{Turn: 1, Done: true}},
		palyra.TapeEntry{RunFinished: &palyra.TapeRunFinished{
			State: palyra.RunDone, Calls: 2,
			Tokens: palyra.Tokens{InputTokens: 1200, OutputTokens: 1},
		}},
	)
	stagetest.Fatal(t, os.WriteFile(filepath.Join(s.Work, "system.txt"), []byte("in verse"), 0o600))
	code, out, errs := s.Main(nil, "run", "do it", "--model", "local/qwen3", "--system", "system.txt", "--max-turns", "3", "--session",
		"talk", "--max-calls", "4")
	if want := "run R1: do it\n│ half an ans\n  the answer broke off; it begins anew\n│ a whole one\nrun R1 done, 2 calls, 1200 " +
		"tokens in, 1 token out\n"; code != 0 || out != want || errs != "" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	r := s.Parts.Started()
	if want := `{"prompt":"do it","model":"local/qwen3","system":"in verse","max_turns":3}`; string(r.Input) != want {
		t.Errorf("%s", r.Input)
	}
	if r.Provider != "" || r.Session != "talk" || r.Workspace != s.Work || r.Budget.Calls != 4 {
		t.Errorf("%+v", r)
	}
	if code, _, errs := s.Main(strings.NewReader("from stdin\n"), "run", "-", "--provider", "local"); code != 0 ||
		!strings.Contains(string(s.Parts.Started().Input), `"from stdin\n"`) || s.Parts.Started().Provider != "local" {
		t.Errorf("exit %d %s %+v", code, errs, s.Parts.Started())
	}
}

func TestRunOfAModelThatCannotBe(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	s.Script()
	for _, c := range []struct {
		in   string
		args []string
		code int
		says string
	}{
		{"", nil, exit.Usage, "say what to do"},
		{"", []string{"a", "b"}, exit.Usage, "too many"},
		{"", []string{"go", "--script", "steps.yaml"}, exit.Usage, "exclude each other"},
		{"", []string{"--script", "steps.yaml", "--model", "m"}, exit.Usage, "not with --script"},
		{"", []string{"go", "--max-turns", "-1"}, exit.Usage, "--max-turns"},
		{"", []string{"  "}, exit.Usage, "empty"},
		{"\n", []string{"-"}, exit.Usage, "empty"},
		{"\xff", []string{"-"}, exit.Failure, "UTF-8"},
		{strings.Repeat("x", 256<<10+1), []string{"-"}, exit.Failure, "larger than"},
		{"", []string{"go", "--system", "none.txt"}, exit.Failure, "no such file"},
	} {
		code, out, errs := s.Main(strings.NewReader(c.in), append([]string{"run"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%v: exit %d %s%s", c.args, code, out, errs)
		}
	}
}

func TestProvidersAreCompleted(t *testing.T) {
	s := stagetest.Open(t, cli.Main, nil)
	stagetest.Fatal(t, os.WriteFile(filepath.Join(s.Home, "config.toml"),
		[]byte("[providers.local]\nkind = \"openai\"\n[providers.cloud]\nkind = \"anthropic\"\n"), 0o600))
	if code, out, _ := s.Main(nil, "__complete", "run", "--provider", ""); code != 0 || !strings.HasPrefix(out, "cloud\nlocal\n") {
		t.Errorf("exit %d %s", code, out)
	}
}
