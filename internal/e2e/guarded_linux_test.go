package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// A file tool that would write where git's configuration or a link of a sealed name
// leads is asked about as one that writes to the sealed name itself.
func TestFileToolsGuardWhatSealsFollow(t *testing.T) {
	d := newDaemon(t)
	for name, text := range map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\thooksPath = scripts/hooks\n", ".git/objects/x": "", ".git/refs/x": "",
		"c/x": "", "scripts/hooks/x": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(d.work, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		save(t, filepath.Join(d.work, name), []byte(text))
	}
	if err := os.Symlink("c", filepath.Join(d.work, ".cargo")); err != nil {
		t.Fatal(err)
	}
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	if _, err := person.AddWorkspace(t.Context(), d.work, "w"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"scripts/hooks/pre-commit": true, "c/config.toml": true, "scripts/build.sh": false} {
		a, call, ch, err := question(t.Context(), agent, person, write(d.work, path, "x\n"))
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Contains(a.Prompt.Risk.Factors, "guarded_path: "+path)
		if got != want || want != a.Need.Fresh || want != (a.Prompt.Risk.Level == palyra.RiskCritical) ||
			want != slices.Contains(a.Plan.Guarded, path) {
			t.Errorf("%s: %+v, %+v, %q", path, a.Prompt.Risk, a.Need, a.Plan.Guarded)
		}
		if err := agent.CancelCall(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		<-ch
	}
}

// An agent's own Write and Edit of what other programs obey is destructive and asked
// about each time: no answer covers the next one. A path that is no text is a no.
func TestHookGuardsWhatOthersObey(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	d.put(".git/hooks/pre-commit", "one\n")
	d.inWorkspace()
	for path, input := range map[string]map[string]any{
		".envrc":                {"content": "one\n"},
		".git/hooks/pre-commit": {"old_string": "one", "new_string": "two"},
	} {
		tool := map[bool]string{true: "Write", false: "Edit"}[input["content"] != nil]
		input["file_path"] = filepath.Join(d.work, path)
		use := d.preToolUse(tool, input)
		for range 2 { // the answer to the first is none to the second
			said := make(chan hookSays, 1)
			go func() {
				says, _, _ := d.hook(use)
				said <- says
			}()
			if _, err := d.answerNext(t.Context(), palyra.AnswerAllow, palyra.ScopeSession); err == nil ||
				!strings.Contains(err.Error(), "fresh answer") {
				t.Errorf("%s: an answer for the session: %v", path, err)
			}
			a, err := d.decideNext(t.Context(), palyra.AnswerAllow)
			if err != nil || !a.Need.Fresh || a.Prompt.Risk.Level != palyra.RiskCritical ||
				!slices.Contains(a.Prompt.Risk.Factors, "guarded_path: "+path) || !slices.Contains(a.Plan.Guarded, path) {
				t.Errorf("%s: %+v, %+v, %q, %v", path, a.Prompt.Risk, a.Need, a.Plan.Guarded, err)
			}
			if says := <-said; says.Specific.Decision != "allow" {
				t.Errorf("%s, with the answer: %+v", path, says)
			}
		}
	}
	raw := strings.Replace(d.preToolUse("Write", map[string]any{"file_path": filepath.Join(d.work, "PLACE/.envrc"), "content": "x"}),
		"PLACE", "a\xff", 1)
	if says, code, errs := d.hook(raw, "--wait", "1s"); code == 0 && says.Specific.Decision != "deny" {
		t.Errorf("a path that is no text: %+v %s", says, errs)
	}
	d.checkedOnly()
}
