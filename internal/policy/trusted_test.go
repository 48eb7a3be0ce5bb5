package policy

import (
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/policy/risk"
	"palyra/internal/trusted"
)

// Whatever a sandbox holds because other programs obey it, a tool may write only
// with an answer for that very call, wherever it is and however it is spelt.
func TestTrustedNamesAreGuarded(t *testing.T) {
	e := engine(t, defaults(t))
	for _, name := range slices.Concat(trusted.With(trusted.Held), trusted.With(trusted.Noted), trusted.With(trusted.Asked)) {
		if strings.HasPrefix(name, trusted.Repository) {
			continue
		}
		own := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSuffix(name, "/"), "**", "m"), "*", "x")
		for _, p := range []string{own, "src/" + own, "src/a/b/" + strings.ToUpper(own), "src/" + own + "."} {
			r := write("src/plain.go", p)
			if f := risk.Examine(r); !f.Destructive || !strings.Contains(strings.Join(f.Risk().Factors, "\n"), "guarded_path") {
				t.Errorf("%s: writing %q is not guarded", name, p)
			}
			for _, door := range []palyra.Surface{palyra.SurfaceMCP, palyra.SurfaceHook} { // an agent's own tool is judged as ours
				r.Surface = door
				if v := e.Judge(t.Context(), r); v.Effect != palyra.Ask {
					t.Errorf("%s: %q at %s: %s", name, p, door, v.Effect)
				}
			}
			r.Approval = &palyra.ApprovalFacts{Scope: palyra.ScopeSession, Votes: 1} // an answer of an earlier call
			if v := e.Judge(t.Context(), r); v.Effect == palyra.Allow {
				t.Errorf("%s: %q is covered by an earlier answer", name, p)
			}
		}
	}
}
