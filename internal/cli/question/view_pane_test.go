package question

import (
	"fmt"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/questiontest"
)

// overwrite is a small write that makes another program run code.
func overwrite() palyra.Approval {
	a := questiontest.WriteApproval()
	a.Plan.Arguments, a.Plan.Writes = []byte(`{"path":".envrc","content":"A=2\nB=2\nexport PATH=/tmp/evil\n"}`), []string{".envrc"}
	a.Prompt.Summary = "overwrite .envrc, 33 bytes (+2 -1 lines)"
	a.Prompt.Diff = "--- a/.envrc\n+++ b/.envrc\n@@ -1,2 +1,3 @@\n-A=1\n+A=2\n B=2\n+export PATH=/tmp/evil\n"
	a.Prompt.Risk = palyra.Risk{Level: palyra.RiskHigh, Factors: []string{"filesystem_write", "guarded_path: .envrc"}}
	a.Prompt.Notes = []string{"overwrites .envrc (8 bytes)", strings.Repeat("a note that says much ", 10)}
	a.Prompt.Explanation = "needs the approval of one operator\n" + strings.Repeat("a long reason ", 12)
	return questiontest.Bound(a)
}

// Where a pane has room, what a write does is in the question, before why it is asked; nothing is cut beside empty lines.
func TestAPaneShowsTheEffect(t *testing.T) {
	for _, size := range [][2]int{{65, 26}, {55, 26}, {80, 20}, {60, 20}, {42, 20}} {
		got := inPane(overwrite(), size[0], size[1])
		at := -1
		for _, want := range []string{
			"Summary ", "overwrite .envrc", "│ -A=1\n", "│ +A=2\n", "│ +export PATH=/tmp/evil\n", "Risk ",
			"Answer with ",
		} {
			i := strings.Index(got, want)
			if i <= at {
				t.Errorf("%d: no %q, or not in its place:\n%s", size, want, got)
			}
			at = i
		}
		if i := strings.Index(got, "Why asked"); i >= 0 && i < strings.Index(got, "/tmp/evil") {
			t.Errorf("%d: the reason is before the effect:\n%s", size, got)
		}
		if n := strings.Count(got, "\n"); n > size[1] || strings.Contains(got, "palyra approvals") || strings.Contains(got, "--") ||
			strings.Contains(got, "left out") && n < size[1] {
			t.Errorf("%d: %d lines:\n%s", size, n, got)
		}
	}
}

// A question about changes has them and its reasons whole where there is room.
func TestAPaneShowsTheChanges(t *testing.T) {
	a := effectsApproval()
	a.Call = "01M7THM0000000000000000000"
	a.Prompt.Notes = []string{"makes other programs run code: " + strings.Repeat("deep/", 30) + ".envrc"}
	for i := range 30 {
		a.Prompt.Notes = append(a.Prompt.Notes, fmt.Sprintf("removed  old/%d", i))
	}
	a = questiontest.Bound(a)
	got := inPane(a, 60, 24)
	flat := strings.NewReplacer("\n             ┆ ", "").Replace(got)
	if strings.Contains(got, "left out") || strings.Contains(got, "--diff") || strings.Contains(got, "⋯") || strings.Contains(got, "--full") ||
		!strings.Contains(flat, "deep/.envrc") || !strings.Contains(got, "and more, 70 paths in all: d shows") ||
		strings.Count(got, "\n") > 24 || strings.Count(got, "removed  old/") < 4 {
		t.Errorf("%d lines\n%s", strings.Count(got, "\n"), got)
	}
}

// A command that somebody would type is never cut in its middle, nor is an id.
func TestWhatIsTypedIsWhole(t *testing.T) {
	for name, a := range worst() {
		a.Call, a.ID = "01M7THM0000000000000000000", "01M7THN0000000000000000000"
		a = questiontest.Bound(a)
		for _, width := range []int{40, 46, 64} {
			for _, lines := range []int{0, 7, 13} {
				got := inPane(a, width, lines)
				for line := range strings.Lines(strings.NewReplacer("\n             ┆ ", " ").Replace(got)) {
					cut := strings.Contains(line, "⋯")
					if strings.HasPrefix(line, "See it") && cut || strings.HasPrefix(line, "Approval") && !strings.Contains(line, string(a.ID)) {
						t.Errorf("%s, %d × %d: %s", name, width, lines, line)
					}
				}
			}
		}
	}
}

// In a window of few lines the risk, the warnings and the answers come first.
func TestALowPane(t *testing.T) {
	for name, a := range worst() {
		got := inPane(a, 42, 6)
		lines := strings.Split(got, "\n")
		top := strings.Join(lines[:min(7, len(lines))], "\n")
		for _, want := range []string{"Risk ", "WARNING ", "Answer with "} {
			if !strings.Contains(top, want) {
				t.Errorf("%s: no %q in\n%s", name, want, top)
			}
		}
		if len(lines) > mostLines+3 {
			t.Errorf("%s: %d lines\n%s", name, len(lines), got)
		}
	}
}
