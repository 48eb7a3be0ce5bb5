package policy

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

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
		}[i%4]
		fmt.Fprintf(&b, "@id(\"op-%d\") permit (%s) when { context.approval.granted && context.writes.isEmpty() };\n", i, fmt.Sprintf(scope, i))
	}
	dir, err := fs.Sub(shipped, "default")
	if err != nil {
		t.Fatal(err)
	}
	files, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := fstest.MapFS{"operator.cedar": {Data: []byte(b.String())}}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	out, err := Load(m)
	if err != nil {
		t.Fatal(err)
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

// The cost of a verdict does not grow with the bundle: 10,000 policies take at
// most twice what five take. The best of many rounds is compared, so that a
// busy machine does not decide.
func TestJudgeStaysFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	small, large := engine(t, grown(t, 5)), engine(t, grown(t, 10_000))
	best := func(e *Engine) time.Duration {
		low := time.Hour
		for range 50 {
			start := time.Now()
			for range 20 {
				e.Judge(t.Context(), write("a.txt"))
			}
			low = min(low, time.Since(start))
		}
		return low
	}
	for range 5 {
		a, b := best(small), best(large)
		if b <= 2*a {
			return
		}
		t.Logf("5 policies %s, 10,000 policies %s", a, b)
	}
	t.Error("10,000 policies take more than twice the time of five")
}
