package foreign

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"hook.websearch", "hook.mcp__github__list-issues", "hook.a"} {
		got, ok := Tool(palyra.ToolName(name))
		if !ok || string(got.Name) != name || got.Source != palyra.SourceAgent ||
			got.Tier != palyra.TierUnsandboxed || got.ReadOnly || !got.Sensitive() ||
			got.MaxInput <= 0 || !json.Valid(got.InputSchema) {
			t.Errorf("%s: %+v %t", name, got, ok)
		}
	}
	for _, name := range []string{
		"", "hook.", "hook.A", "hook.a.b", "hook.a b", "hook.a\n", "palyra.echo", "xhook.a",
		"hook." + strings.Repeat("a", 101),
	} {
		if _, ok := Tool(palyra.ToolName(name)); ok {
			t.Errorf("%q is taken for a foreign tool", name)
		}
	}
}

func TestPlanShowsTheNameAndRunsNothing(t *testing.T) {
	plan := palyra.Plan{Tool: "hook.task", Arguments: json.RawMessage(`{"input":{"prompt":"x"},"tool":"Task"}`)}
	if err := (Driver{}).Plan(t.Context(), &palyra.Call{Proposal: palyra.Proposal{Check: true}}, &plan); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan.Detail.Summary, "Task") || len(plan.Detail.Notes) != 1 {
		t.Errorf("detail %+v", plan.Detail)
	}
	read := palyra.Plan{Tool: "hook.read", Arguments: json.RawMessage(`{"input":{"file_path":"/etc/hostname"},"tool":"Read"}`)}
	if err := (Driver{}).Plan(t.Context(), &palyra.Call{Proposal: palyra.Proposal{Check: true}}, &read); err != nil ||
		!strings.Contains(read.Detail.Summary, `read "/etc/hostname"`) {
		t.Errorf("%v %+v", err, read.Detail)
	}
	err := (Driver{}).Plan(t.Context(), &palyra.Call{}, &plan)
	if palyra.AsError(err).Reason != palyra.ReasonUnsupported {
		t.Errorf("a call that is to run: %v", err)
	}
	plan.Arguments = json.RawMessage(`{`)
	if err := (Driver{}).Plan(t.Context(), &palyra.Call{Proposal: palyra.Proposal{Check: true}}, &plan); err == nil {
		t.Error("arguments that do not parse")
	}
}
