package policy

import (
	"testing"

	"palyra"
)

// A background process is asked about under every preset that asks at all, also where the same command would run
// without a question: what it writes is neither staged nor judged.
func TestBackgroundProcessesAreAskedAbout(t *testing.T) {
	for preset, want := range map[string]palyra.Effect{
		"default": palyra.Ask, "ask": palyra.Ask, "strict": palyra.Ask, "ci": palyra.Deny, "readonly": palyra.Deny,
	} {
		r := program("make", "dev")
		r.Plan.Tool, r.Tool.Name = palyra.ToolProcessStart, palyra.ToolProcessStart
		r.Plan.Staging = palyra.Staging{Writes: palyra.WritesLive, Why: palyra.LiveBackground}
		v := engineOf(t, preset, understood(palyra.CommandBuild)).Judge(t.Context(), r)
		if v.Effect != want || preset == "strict" && !v.Need.Fresh {
			t.Errorf("%s: %s %+v", preset, v.Effect, v.Need)
		}
	}
}
