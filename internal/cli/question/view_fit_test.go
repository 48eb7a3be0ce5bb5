package question

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/cli/questiontest"
	"palyra/internal/show"
)

// rawName is a name that is as long as names get and has no letter that can be read.
func rawName() string { return strings.Repeat("\xff\n\u202e", 64) }

// worst makes a question of every kind as long as it gets, in a workspace that nobody registered.
func worst() map[string]palyra.Approval {
	out := map[string]palyra.Approval{
		"staged changes": effectsApproval(), "a run": longApproval(), "a script": roomApproval(), "hostile text": questiontest.HostileApproval(),
	}
	live := longApproval()
	live.Plan.Staging, live.Plan.Stdin, live.Plan.Terminal = palyra.Staging{Writes: palyra.WritesLive}, palyra.StdinLive, true
	live.Plan.Seals, live.Plan.AgentSocket, live.Plan.AgentWithin = nil, true, []string{palyra.AnyWorkspace, "/srv/x"}
	live.Plan.Enforcement.Mode = palyra.NetworkOpen
	live.Plan.Enforcement.Limits = map[string]palyra.Hold{"disk": palyra.HoldNone, "memory": palyra.HoldPolled}
	out["a live run"] = live
	write := questiontest.WriteApproval()
	write.Prompt.Options = []palyra.Widening{{Name: palyra.WidenWorkspace, Label: "any edit of files in " + rawName()}}
	out["a small write"] = write
	long := write
	long.Prompt.Diff = "--- a\n+++ b\n" + strings.Repeat("+line\n", 500)
	out["a long write"] = long
	unseen := write
	unseen.Plan.Unshown, unseen.Plan.Arguments = true, json.RawMessage(`{"path":"a.txt","content_b64":"`+strings.Repeat("AAAA", 2000)+`"}`)
	out["a write that is not shown"] = unseen
	patch := write
	patch.Plan.Tool, patch.Plan.Arguments = palyra.ToolFilePatch, json.RawMessage(`{"patch":"p"}`)
	patch.Plan.Writes = nil
	for i := range 50 {
		patch.Plan.Writes = append(patch.Plan.Writes, fmt.Sprintf("dir/%d", i)+rawName())
	}
	out["a patch"] = patch
	upstream := write
	upstream.Prompt.Diff, upstream.Plan.Writes, upstream.Plan.Source, upstream.Plan.Tool = "", nil, "mcp", "github.create_issue"
	upstream.Plan.Arguments = json.RawMessage(`{"title":"` + strings.Repeat("long ", 400) + `","b64":"YWJj","list":[1,2,3]}`)
	out["a tool of an upstream"] = upstream
	fetch := upstream
	fetch.Plan.Tool, fetch.Plan.Source = palyra.ToolFetch, palyra.SourceBuiltin
	for i := range 60 {
		fetch.Plan.Egress = append(fetch.Plan.Egress, fmt.Sprintf("10.0.0.%d:443", i), fmt.Sprintf("host-%d.example.org:443", i))
	}
	out["a fetch"] = fetch
	undo := effectsApproval()
	undo.Plan.Executable, undo.Plan.Argv, undo.Plan.Tool = palyra.Executable{}, nil, palyra.ToolUndo
	out["an undo"] = undo
	for name, a := range out {
		a.Plan.Workspace.Known, a.Plan.Workspace.Path = false, "/home/ann/"+rawName()
		a.Prompt.Notes = append(a.Prompt.Notes, "writes "+rawName(), "note\nof two lines")
		for i := range 40 {
			a.Prompt.Notes = append(a.Prompt.Notes, fmt.Sprintf("quarantined: file-%d", i))
		}
		a.Prompt.Explanation = "needs two\n" + strings.Repeat("a reason\nanother one\n", 10)
		a.Prompt.Remedy = "ask " + rawName()
		a.Prompt.Risk.Factors = append(a.Prompt.Risk.Factors, "writes "+rawName(), "hidden names")
		a.Need = palyra.Need{Votes: 3, OtherPerson: true, Device: true}
		a.Votes = []palyra.Vote{{Answer: palyra.AnswerAllow, By: "user:ann", Reason: rawName()}, {Answer: palyra.AnswerAllow, By: "user:eve"}}
		a.Waiting = 7
		out[name] = questiontest.Bound(a)
	}
	return out
}

// A question has twelve lines at most, whatever it is about, on any terminal and without one; asked in place it
// leaves room for the line before it and the one that takes the answer. It says how to see the rest.
func TestAQuestionHasTwelveLines(t *testing.T) {
	for name, a := range worst() {
		for _, width := range []int{0, 40, 80, 120, 300} {
			for _, once := range []bool{false, true} {
				got, most := asked(a, width, once), mostLines
				if once {
					most -= asking
				}
				if n := strings.Count(got, "\n"); n > most {
					t.Errorf("%s, %d columns: %d lines:\n%s", name, width, n, got)
				}
				flat := strings.NewReplacer("\n             ┆ ", "", "\n", " ").Replace(got)
				for _, want := range []string{"WARNING ", "Risk ", "Approval "} {
					if !strings.Contains(flat, want) {
						t.Errorf("%s, %d columns: no %q in\n%s", name, width, want, got)
					}
				}
				if width == 0 && !strings.Contains(flat, "--full") {
					t.Errorf("%s: nothing says how to see the rest:\n%s", name, got)
				}
			}
		}
	}
}

// asked is what a person sees who is asked, in place or elsewhere.
func asked(a palyra.Approval, width int, once bool) string {
	var b bytes.Buffer
	v := View{W: &b, Approval: a, Separation: palyra.SeparationNone, Now: questiontest.SampleNow, Width: width, Short: true, Once: once}
	v.Print()
	return b.String()
}

// What the question leaves out stands in the full view, word for word.
func TestTheFullViewHasWhatTheQuestionLeavesOut(t *testing.T) {
	for name, a := range worst() {
		full := render(a, palyra.SeparationNone, 0, false)
		want := []string{"quarantined: file-39", "hidden names", "of two lines", "3 different people", "7 calls wait", string(a.PlanDigest)}
		for _, host := range a.Plan.Egress {
			want = append(want, show.Arg(host))
		}
		if name == "a long write" {
			want = append(want, strings.Repeat("  │ +line\n", 500))
		}
		if len(a.Plan.Seals) > 0 {
			want = append(want, a.Plan.Seals[0])
		}
		for _, m := range a.Plan.Mounts {
			want = append(want, m.Source)
		}
		for _, w := range want {
			if !strings.Contains(full, w) {
				t.Errorf("%s: no %q in\n%s", name, w, full)
			}
		}
	}
}

// Property: no plan and no prompt makes a question longer, and the layout never fails.
func TestNoTextMakesAQuestionLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := questiontest.Poisoned[palyra.Approval]()
		a.Decision = palyra.Decision{}
		if rapid.Bool().Draw(t, "before") {
			a.Plan.Effects = nil
		}
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b c", "\xff", "\n", strings.Repeat("x", 700), "文"}), 0, 60)
		p := reflect.ValueOf(&a.Plan).Elem()
		for _, field := range []string{"Argv", "Reads", "Writes", "Egress", "Bindings", "Seals"} {
			if rapid.Bool().Draw(t, field) {
				p.FieldByName(field).Set(reflect.ValueOf(words.Draw(t, field)))
			}
		}
		a.Prompt.Notes, a.Prompt.Diff = words.Draw(t, "notes"), strings.Join(words.Draw(t, "diff"), "\n")
		width := rapid.SampledFrom([]int{0, 1, 20, 40, 80, 200}).Draw(t, "width")
		if got := asked(a, width, true); strings.Count(got, "\n") > mostLines-asking {
			t.Fatalf("%d lines:\n%s", strings.Count(got, "\n"), got)
		}
	})
}

// inPane is a question in a pane of the terminal UI.
func inPane(a palyra.Approval, width, lines int) string {
	var b bytes.Buffer
	v := View{
		W: &b, Approval: a, Separation: palyra.SeparationNone, Now: questiontest.SampleNow, Width: width, Short: true, Own: "palyra", Pane: lines,
	}
	v.Print()
	return b.String()
}
