package policy

import (
	"fmt"
	"strings"
	"testing"

	"palyra"
)

// grown is the default bundle with n policies of an operator beside it, spread
// over tools, agents and roles as in a large installation.
func grown(t testing.TB, n int) *Bundle {
	t.Helper()
	var b strings.Builder
	for i := range n {
		scope := [...]string{
			`principal, action == Action::"tool.execute", resource == Tool::"mcp.server.tool%d"`,
			`principal == Agent::"bot%d", action == Action::"tool.execute", resource`,
			`principal in Team::"team%d", action in Action::"call", resource`,
			`principal, action == Action::"vault.use", resource == Secret::"s%d"`,
			`principal in Role::"agent", action == Action::"tool.execute", resource == Tool::"mcp.other.tool%d"`,
			`principal in Team::"team%d", action == Action::"tool.execute", resource in ToolGroup::"allowed"`,
		}[i%6]
		fmt.Fprintf(&b, "@id(\"op-%d\") permit (%s) when { context.approval.granted && context.writes.isEmpty() };\n", i, fmt.Sprintf(scope, i))
	}
	files := defaults(t).Files()
	files["operator.cedar"] = b.String()
	out, report := Check(files)
	if out == nil {
		t.Fatal(report.Problems)
	}
	return out
}

func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{5, 100, 1000, 10_000} {
		e := engine(b, grown(b, n))
		for name, r := range map[string]palyra.Request{"allow": echo(), "ask": write("a.txt"), "fresh": write(".git/config")} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					e.Judge(b.Context(), r)
				}
			})
		}
	}
}

// The whole ladder, for a demand that nothing meets.
func BenchmarkJudgeClimb(b *testing.B) {
	e := engine(b, permitWhen(b, "context.approval.votes > 5"))
	r := write("a.txt")
	for b.Loop() {
		e.Judge(b.Context(), r)
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := Default(); err != nil {
			b.Fatal(err)
		}
	}
}

// The work of a verdict does not grow with the bundle: beside 10,000 policies
// that cannot matter it allocates what it does beside five. How long it takes is
// the benchmark's to say.
func TestJudgeStaysFlat(t *testing.T) {
	work := func(policies int) float64 {
		e, r := engine(t, grown(t, policies)), write("a.txt")
		return testing.AllocsPerRun(100, func() { e.Judge(t.Context(), r) })
	}
	if small, large := work(5), work(10_000); large > small*1.1 {
		t.Errorf("%v allocations with 5 policies, %v with 10,000", small, large)
	}
}
