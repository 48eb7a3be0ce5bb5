package tui

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"palyra"
)

// question2 is a write with a diff.
func question2(id string) palyra.Approval {
	p := question1(id, "overwrite .envrc, 33 bytes (+2 -1 lines)")
	p.Call = "01M7THM0000000000000000000"
	p.Plan = palyra.Plan{
		Tool: palyra.ToolFileWrite, Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, Writes: []string{".envrc"},
		Arguments: []byte(`{"path":".envrc","content":"x"}`), Workspace: palyra.WorkspaceRef{Path: "/w", Known: true},
	}
	p.Prompt.Diff = "--- a/.envrc\n+++ b/.envrc\n@@ -1,2 +1,3 @@\n-A=1\n+A=2\n B=2\n+export PATH=/tmp/evil\n"
	p.PlanDigest, _ = p.Plan.Digest()
	return p
}

// At every usual size the question shows what it would do, and names the keys of the screen.
func TestTheQuestionShowsTheEffect(t *testing.T) {
	for _, size := range [][2]int{{120, 30}, {110, 30}, {80, 24}, {60, 24}, {42, 24}} {
		b := newTable(t, size[0], size[1])
		b.send(approvalMsg{question2("Q1")})
		b.press("enter")
		for _, field := range []bool{false, true} {
			if field {
				b.press("a")
				b.wait()
			}
			page := b.page()
			for _, want := range []string{"overwrite .envrc", "│ -A=1", "│ +export PATH=/tmp/evil", "Risk ", "Answer with", "Tab: "} {
				if narrow := size[0] < 60; narrow && want == "Tab: " {
					continue // the field says it
				}
				if !strings.Contains(page, want) {
					t.Errorf("%d: no %q in\n%s", size, want, page)
				}
			}
			if strings.Contains(page, "--scope") || strings.Contains(page, "palyra approvals") {
				t.Errorf("%d: the commands stand there:\n%s", size, page)
			}
		}
	}
}

// d shows the difference and nothing else: of a write its diff, of changes that are held what the daemon has, else that
// there is none; and back.
func TestDifference(t *testing.T) {
	b := newTable(t, 80, 24)
	b.send(approvalMsg{question2("Q1")})
	b.press("enter", "f", "d")
	if page := b.page(); !strings.Contains(page, "│ +export PATH=/tmp/evil") || strings.Contains(page, "Risk ") || len(b.filled) > 0 {
		t.Errorf("a write:\n%s", page)
	}
	b.press("d")
	if page := b.page(); !strings.Contains(page, "Risk ") {
		t.Errorf("back:\n%s", page)
	}
	b.press("esc")
	held := question1("Q2", "keep what it changed: 30 removed; more")
	held.Call, held.RequestedAt = "C2", noon
	held.Plan.Effects = &palyra.Effects{Removed: 30}
	for i := range 40 {
		held.Prompt.Notes = append(held.Prompt.Notes, fmt.Sprintf("removed  old/%d", i))
	}
	b.send(approvalMsg{held})
	b.press("down", "enter", "d")
	if len(b.filled) != 1 || !slices.Equal(b.filled[0], []string{"changes", "C2", "--diff"}) {
		t.Fatalf("%q", b.filled)
	}
	b.send(approvalMsg{held}, textMsg{turn: b.pane.turn, text: "--- a/old/0\n-gone\n"})
	b.send(tea.WindowSizeMsg{Width: 80, Height: 30})
	b.send(textMsg{turn: b.pane.turn, text: "--- a/old/0\n-gone\n"})
	if page := b.page(); strings.Count(page, "-gone") != 1 || strings.Contains(page, "Risk ") {
		t.Errorf("held:\n%s", page)
	}
	b.send(approvalMsg{answered(held, palyra.AnswerDeny)})
	if page := b.page(); !strings.Contains(page, "deny by") && !strings.Contains(page, "Decided") || strings.Contains(page, "-gone") {
		t.Errorf("settled:\n%s", page)
	}
	b = newTable(t, 80, 24)
	b.send(approvalMsg{question1("Q3", "run it")})
	b.press("enter", "d")
	if page := b.page(); !strings.Contains(page, "There is no diff") {
		t.Errorf("a run:\n%s", page)
	}
}

// In a window of few lines, what is grave and the words are on the page while one types.
func TestLowWindows(t *testing.T) {
	for _, ask := range []palyra.Approval{question1("Q1", "run git push"), question2("Q1")} {
		b := newTable(t, 42, 10)
		b.send(approvalMsg{ask})
		b.press("enter", "a")
		b.wait()
		for _, want := range []string{"Risk ", "Answer with"} {
			if page := b.page(); !strings.Contains(page, want) {
				t.Errorf("no %q in\n%s", want, page)
			}
		}
	}
}

// No line of the help and no key of the last line is cut.
func TestNothingOfTheHelpIsCut(t *testing.T) {
	for _, width := range []int{40, 42, 60, 80, 110, 160} {
		b := newTable(t, width, 50)
		b.press("?")
		page := b.page()
		if strings.Contains(page, "…") || !strings.Contains(strings.Join(strings.Fields(page), " "), "its passphrase is asked for each time.") {
			t.Errorf("%d:\n%s", width, page)
		}
		b.press("esc")
		b.send(approvalMsg{question2("Q1")})
		for in := range sections {
			b.press(fmt.Sprint(in+1), "enter")
			if all := b.screen(); strings.Contains(all[len(all)-1], "…") || !strings.Contains(all[len(all)-1], "q: quit") {
				t.Errorf("%d: %q", width, all[len(all)-1])
			}
		}
	}
}
