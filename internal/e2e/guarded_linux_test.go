package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"palyra"
	"palyra/client"
)

// A file tool that would write where git's configuration or a link of a sealed name
// leads is asked about as one that writes to the sealed name itself.
func TestFileToolsGuardWhatSealsFollow(t *testing.T) {
	d := newDaemon(t)
	for name, text := range map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\thooksPath = scripts/hooks\n", ".git/objects/x": "", ".git/refs/x": "", "c/x": "", "scripts/hooks/x": "",
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
		if got != want || want != a.Need.Fresh || want != (a.Prompt.Risk.Level == palyra.RiskCritical) || want != slices.Contains(a.Plan.Guarded, path) {
			t.Errorf("%s: %+v, %+v, %q", path, a.Prompt.Risk, a.Need, a.Plan.Guarded)
		}
		if err := agent.CancelCall(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		<-ch
	}
}
