package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAction runs the script of the GitHub action as a runner does: a command that the preset lets run, one that fails,
// and one that it refuses; what is kept of each is checked.
func TestAction(t *testing.T) {
	t.Parallel()
	programs := filepath.Dir(bin(t, "palyra"))
	script, err := filepath.Abs("../../action/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		line    string
		code    int
		summary string
		proved  bool
	}{
		"works":   {"cat in.txt", 0, "### Palyra: finished", true},
		"fails":   {"cat none.txt; exit 7", 7, "### Palyra: finished", true},
		"refused": {"curl https://example.org", 126, "### Palyra: refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			work, temp := filepath.Join(dir, "work"), filepath.Join(dir, "t")
			for _, d := range []string{work, temp} {
				if err := os.Mkdir(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(work, "in.txt"), []byte("from the workspace\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			summary, output := filepath.Join(dir, "summary.md"), filepath.Join(dir, "output")
			cmd := exec.Command(script)
			cmd.Env = []string{
				"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "PALYRA_RUN=" + c.line, "PALYRA_BIN=" + programs, "GITHUB_WORKSPACE=" + work,
				"RUNNER_TEMP=" + temp, "GITHUB_STEP_SUMMARY=" + summary, "GITHUB_OUTPUT=" + output,
			}
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Fatalf("exit %d, want %d\n%s", code, c.code, out)
			}
			said, _ := os.ReadFile(summary)
			if !strings.Contains(string(said), c.summary) || strings.Contains(string(said), "attestation verified") != c.proved {
				t.Errorf("the summary: %s\n%s", said, out)
			}
			if told, _ := os.ReadFile(output); !strings.Contains(string(told), "exit-code=") {
				t.Errorf("the output: %s", told)
			}
			evidence := filepath.Join(temp, "palyra-evidence")
			verify := exec.Command(
				bin(t, "palyra"), "journal", "verify", filepath.Join(evidence, "journal.ndjson"), "--key", filepath.Join(evidence, "trust.json"),
			)
			if out, err := verify.CombinedOutput(); err != nil {
				t.Errorf("the journal: %v %s", err, out)
			}
			if _, err := os.Stat(filepath.Join(evidence, "proof.json")); (err == nil) != c.proved {
				t.Errorf("the proof: %v", err)
			}
		})
	}
}
