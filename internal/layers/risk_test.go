package layers

import (
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"testing"

	"palyra"
)

// Every reason for a risk has its row, with the level that the code gives it. Names
// are what policies match, so one that is not told cannot be asked for.
func TestPolicyTellsEveryRiskFactor(t *testing.T) {
	levels := []string{"low", "medium", "high", "critical"}
	text := section(t, read(t, "docs/policy.md"), "Risk")
	told := map[string]string{}
	for _, r := range rows(text)[1:] {
		told[quoted(r[0])[0]] = r[1]
	}
	want := []string{
		string(palyra.FilesystemWrite), string(palyra.Network), string(palyra.ProcessExec), string(palyra.SecretsRead),
		string(palyra.ChannelSend),
		string(palyra.Browser), string(palyra.NodeInvoke), string(palyra.DevicePair),
	}
	hold(t, func(tr *tree) []string {
		var bad []string
		for _, f := range tr.code() {
			if f.dir != "internal/policy/risk" {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				c, ok := n.(*ast.CallExpr)
				if !ok || len(c.Args) != 3 {
					return true
				}
				fun, ok := c.Fun.(*ast.SelectorExpr)
				name, ok2 := c.Args[1].(*ast.BasicLit)
				if !ok || !ok2 || fun.Sel.Name != "add" {
					return true
				}
				factor, err := strconv.Unquote(name.Value)
				if err != nil {
					return true
				}
				want = append(want, factor)
				rank, ok := c.Args[0].(*ast.BasicLit)
				if level, err := strconv.Atoi(value(rank, ok)); err == nil && told[factor] != levels[level] {
					bad = append(bad, tr.where(f, c)+": "+factor+" is "+levels[level]+", docs/policy.md says "+strconv.Quote(told[factor]))
				}
				return true
			})
		}
		return bad
	})
	slices.Sort(want)
	same(t, "risk factor", slices.Collect(maps.Keys(told)), slices.Compact(want))
	if len(told) != len(rows(text))-1 || len(want) < 20 {
		t.Errorf("%d names in %d rows, %d in the code", len(told), len(rows(text))-1, len(want))
	}
}

// value is the text of a literal, where there is one.
func value(lit *ast.BasicLit, ok bool) string {
	if !ok {
		return ""
	}
	return lit.Value
}
