package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/rpc/wire"
)

// reasonsIn are the values of the reasons that a file declares.
func reasonsIn(t *testing.T, file string) (all []palyra.Reason) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(v.Names[0].Name, "Reason") {
			return true
		}
		for _, x := range v.Values {
			text, err := strconv.Unquote(x.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, palyra.Reason(text))
		}
		return true
	})
	return all
}

// TestEveryReasonOfSkillsHasAdvice walks the reasons in the sources.
func TestEveryReasonOfSkillsHasAdvice(t *testing.T) {
	known := map[palyra.Reason]bool{}
	for file, least := range map[string]int{"../wasm/reason.go": 26, "../skill/skill.go": 17} {
		all := reasonsIn(t, file)
		if len(all) < least {
			t.Errorf("%s: only %d reasons", file, len(all))
		}
		for _, r := range all {
			known[r] = true
			for _, layer := range []palyra.Layer{palyra.LayerTier, palyra.LayerLimit, palyra.LayerPlan} {
				f, ok := ofSkill(&wire.Explanation{Layer: layer, ReasonCode: r}, palyra.Deny)
				if !ok || f.Becomes == palyra.Deny || f.Verified || !strings.Contains(f.Text, "; not tried: ") || strings.HasPrefix(f.Text, ";") {
					t.Errorf("%s: %+v", r, f)
				}
			}
		}
	}
	for r := range advice {
		if !known[r] {
			t.Errorf("advice on %s, which nobody says", r)
		}
	}
	late := &wire.Explanation{ReasonCode: palyra.ReasonTimedOut}
	if _, ok := ofSkill(late, palyra.Allow); ok {
		t.Error("a call that is no skill's is told of its manifest")
	}
	late.Plan.Source = palyra.SourceSkill
	if f, ok := ofSkill(late, palyra.Allow); !ok || !strings.Contains(f.Text, "timeout_ms") {
		t.Errorf("%+v", f)
	}
	if f, ok := ofSkill(&wire.Explanation{ReasonCode: palyra.ReasonInternal}, palyra.Allow); ok {
		t.Errorf("advice on what is no skill's: %+v", f)
	}
}

// TestRefusedHostCallsAreTold: some of them, and what to do about each kind once.
func TestRefusedHostCallsAreTold(t *testing.T) {
	if got := describeHostCalls(nil); got != nil {
		t.Error(got)
	}
	ran := &palyra.Runtime{}
	for range 10 {
		ran.Refused = append(ran.Refused, "wasm_not_granted handle hosts:evil.example:443")
	}
	got := describeHostCalls(ran)
	if len(got) != maxToldRefusals+2 || got[0] != "while it ran, handle hosts:evil.example:443 was refused (wasm_not_granted)" ||
		!strings.HasPrefix(got[8], "and 2 more") || !strings.Contains(got[9], "--grant") {
		t.Errorf("%q", got)
	}
}
