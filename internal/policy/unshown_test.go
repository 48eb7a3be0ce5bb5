package policy

import (
	"slices"
	"testing"

	"palyra"
)

// Content that nobody was shown is a high risk that policy can name, and wants an
// answer of its own every time, also where what is
// shown is written without a question.
func TestContentNotShown(t *testing.T) {
	e := engine(t, defaults(t))
	r := write("ok.txt")
	seen := e.Judge(t.Context(), r)
	r.Plan.Unshown = true
	hidden := e.Judge(t.Context(), r)
	if seen.Effect != palyra.Allow || hidden.Effect != palyra.Ask || !hidden.Need.Fresh {
		t.Errorf("%+v\n%+v", seen.Need, hidden.Need)
	}
	r.Plan.Unshown, r.Plan.Lasting = false, true
	if v := e.Judge(t.Context(), r); v.Effect != palyra.Ask || !v.Need.Fresh || !slices.Contains(v.Risk.Factors, "lasting") {
		t.Errorf("what cannot be undone: %+v", v)
	}
	if hidden.Risk.Level != palyra.RiskHigh || !slices.Contains(hidden.Risk.Factors, "content_not_shown") {
		t.Errorf("%+v", hidden.Risk)
	}
}
