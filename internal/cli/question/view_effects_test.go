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
		Title:       "keep what make changed?",
		Summary:     "keep what it changed: 30 removed, 40 created (7 bytes); makes other programs run code: .envrc",
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
	for _, width := range []int{0, 80, 120} {
		if got := renderShort(a, width); strings.Count(got, "\n") > 12 {
			t.Errorf("%d lines of %d:\n%s", strings.Count(got, "\n"), width, got)
		}
	}
	for _, want := range []string{
		"Keep?          30 removed, 40 created (7 bytes)\n               makes other programs run code: .envrc\\x1b[2J\n",
		"and more, 70 paths in all: see below, without --diff\n", "Risk           MEDIUM\n",
		"See it         palyra changes " + string(a.Call) + " --diff[=FILE]\n",
		"It ran         make all for agent:local in /", "Why asked      more than 20 files",
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

// A question about a write is as short as the others: a diff that does not fit is on demand, and the full view has it.
func TestALongDiffIsOnDemand(t *testing.T) {
	a := questiontest.WriteApproval()
	a.Plan.Workspace.Known = true
	a.Prompt.Diff = "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,40 @@\n" + strings.Repeat("+a line\n", 40)
	a = questiontest.Bound(a)
	got := renderShort(a, 100)
	if n := strings.Count(got, "\n"); n > mostLines || strings.Contains(got, "a line") {
		t.Errorf("%d lines:\n%s", n, got)
	}
	see := "See it         palyra changes " + string(a.Call) + " --diff[=FILE]\n"
	for _, want := range []string{see, a.Prompt.Summary, "Risk ", "deny: "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if full := render(a, palyra.SeparationNone, 0, false); strings.Count(full, "+a line\n") != 40 {
		t.Errorf("the full view is\n%s", full)
	}
}

// Every reason why changes are asked about is named, each on a line, and what would have kept them is none.
func TestReasonsOfChanges(t *testing.T) {
	a := effectsApproval()
	a.Policies = []string{"removing-effects", "trusted-effects", "keep-effects"}
	a.Prompt.Explanation = usualHead + ", for this call only: too many are gone; others run it; " + ordinaryWork +
		"\npolicy removing-effects (e:1): too many are gone\npolicy trusted-effects (e:2): others run it\n" +
		"policy keep-effects (e:3): " + ordinaryWork
	got := renderShort(questiontest.Bound(a), 120)
	if !strings.Contains(got, "Why asked      too many are gone\n               others run it\nIt ran") || strings.Count(got, "\n") > 12 {
		t.Error(got)
	}
}

// A line that fits is not shortened.
func TestALineThatFitsIsWhole(t *testing.T) {
	a := effectsApproval()
	a.Prompt.Notes = []string{strings.Repeat("n", 120-labelWidth)}
	if got := renderShort(questiontest.Bound(a), 120); !strings.Contains(got, a.Prompt.Notes[0]) {
		t.Error(got)
	}
}

// Who is asked before a run that is staged sees twelve lines, and in them what is out of the ordinary about it.
func TestAQuestionBeforeAStagedRunIsShort(t *testing.T) {
	a := longApproval()
	a.Plan.Argv, a.Plan.Executable.Path = []string{"sh", "-c", "git push"}, "/usr/bin/dash"
	a.Plan.Arguments, a.Plan.Inputs, a.Plan.Env, a.Plan.Workspace.Known = []byte(`{"command":"sh"}`), nil, nil, true
	a.Plan.Staging.Writes = palyra.WritesStaged
	a.Need.Fresh, a.Policies = true, []string{"destructive-command-needs-fresh-approval"}
	a.Prompt.Explanation = usualHead + ", for this call only: " + aboutIt + "git push: reaches beyond this machine\n" +
		"policy destructive-command-needs-fresh-approval: the command cannot be taken back"
	a.Prompt.Risk.Level = palyra.RiskCritical
	a.Prompt.Risk.Factors = []string{"process_exec", "destructive_command: git push: reaches beyond this machine"}
	a.Prompt.Notes = []string{
		"may change any file of the workspace; which ones is not known beforehand (not bound)",
		"writes to a layer of its own; what it changes is judged when it has ended, and is the workspace's then",
		"git knows no name and address of yours: set user.name and user.email in ~/.gitconfig",
	}
	got := renderShort(questiontest.Bound(a), 0)
	if n := strings.Count(got, "\n"); n > 12 {
		t.Errorf("%d lines:\n%s", n, got)
	}
	for _, want := range []string{
		"Command        sh -c \"git push\"\n", "staged: what it changes is judged",
		"Risk           CRITICAL: process_exec, destructive_command: git push",
		"it is asked about every time", "--full", "deny: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A sealed name counts where a command names it in the workspace, and not by chance of a path elsewhere.
func TestSealedWords(t *testing.T) {
	p := palyra.Plan{Seals: []string{".envrc", ".git/hooks", ".bashrc"}, Workspace: palyra.WorkspaceRef{Path: "/w"}}
	for line, want := range map[string]string{
		"cat .envrc": ".envrc", "cat sub/.envrc": ".envrc", "cat /w/.envrc": ".envrc", "sh -c 'echo x > .envrc'": ".envrc",
		"cat /home/ann/.bashrc": "", "cat ~/.bashrc": "", "ls": "",
	} {
		p.Argv = strings.Fields(line)
		if got := strings.Join(sealedWords(p), " "); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}
