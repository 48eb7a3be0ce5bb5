package question

import (
	"fmt"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/questiontest"
)

// effectsApproval is a question about what a run changed, with text from outside in it.
func effectsApproval() palyra.Approval {
	a := longApproval()
	a.Plan.Effects = &palyra.Effects{Created: 40, Removed: 30, BytesNow: 7, Digest: questiontest.SampleDigest, List: "LIST"}
	a.Plan.Workspace.Known = true
	a.Prompt = palyra.Prompt{
		Title: "keep what make changed?", Summary: "keep what it changed: 30 removed, 40 created (7 bytes)",
		Risk:        palyra.Risk{Level: palyra.RiskMedium},
		Explanation: "more than 20 files that were there before are gone",
	}
	a.Prompt.Notes = []string{"makes other programs run code: .envrc\x1b[2J", "removes 30 files: " + strings.Repeat("x", 500)}
	for i := range 9 {
		a.Prompt.Notes = append(a.Prompt.Notes, fmt.Sprintf("removed  old/%d", i))
	}
	a.Need.Fresh = true
	return questiontest.Bound(a)
}

// Who is asked whether changes are kept sees what was done first, in twelve lines, and how to see all of it; the
// full view has everything that the answer is bound to.
func TestEffectsAreShownFirst(t *testing.T) {
	a := effectsApproval()
	got := renderShort(a, 0)
	above, _, _ := strings.Cut(got, "Answer with")
	if n := strings.Count(above, "\n"); n > 12 {
		t.Errorf("%d lines:\n%s", n, got)
	}
	for _, want := range []string{
		"Keep?          30 removed, 40 created (7 bytes)\n               makes other programs run code: .envrc\\x1b[2J\n", "and 7 more lines",
		"See it         palyra changes " + string(a.Call) + "\n", "It ran         make all for agent:local", "Why asked      more than 20 files",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	full := render(a, palyra.SeparationNone, 0, false)
	for _, want := range []string{"40 created", "30 removed", string(questiontest.SampleDigest), "LIST", "old/8", string(a.PlanDigest)} {
		if !strings.Contains(full, want) {
			t.Errorf("no %q in\n%s", want, full)
		}
	}
}
