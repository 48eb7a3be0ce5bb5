package layers

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// Whether a path lies in another is asked of internal/subpath: a beginning that a slash is added to is
// a copy of it, and one that forgets about "..", about "/" or about which path comes first.

// slashed are beginnings with a slash that are no directories, or that stand where the package cannot be
// used: a directory, and why. An entry that meets nothing any more must go.
var slashed = []struct{ dir, why string }{
	{"cmd/palyra-cell", "options of its own command line, and a path that was checked"},
	{"internal/agent", "a provider before the name of its model"},
	{"internal/policy", "names of a bundle's files, which are no paths"},
	{"internal/run/tapeline", "a run before the number of its turn"},
	{"internal/subpath", "it is the one place"},
	{"internal/trusted", "a name of the list that stands for any repository"},
}

// prefixed finds beginnings that are made by adding a slash, and those that lead up.
func prefixed(f *file) (found []ast.Node) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok || len(c.Args) != 2 {
			return true
		}
		sel, ok := c.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"HasPrefix", "CutPrefix", "TrimPrefix"}, sel.Sel.Name) {
			return true
		}
		if text, ok := literal(c.Args[1]); ok && text == "../" {
			found = append(found, n)
		}
		if sum, ok := c.Args[1].(*ast.BinaryExpr); ok && sum.Op == token.ADD {
			if text, ok := literal(sum.Y); ok && text == "/" {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

func subpaths(t *tree) []string {
	used := make([]bool, len(slashed))
	var bad []string
	for _, f := range t.code() {
		if f.suite() {
			continue
		}
		for _, n := range prefixed(f) {
			i := slices.IndexFunc(slashed, func(s struct{ dir, why string }) bool { return s.dir == f.dir })
			if i >= 0 {
				used[i] = true
				continue
			}
			bad = append(bad, fmt.Sprintf("%s: whether a path lies in another is asked of internal/subpath", t.where(f, n)))
		}
	}
	if len(t.files) > 100 { // a planted tree needs no exceptions
		for i, s := range slashed {
			if !used[i] {
				bad = append(bad, s.dir+" has no such beginning any more: take it off the list")
			}
		}
	}
	return bad
}

func TestSubpaths(t *testing.T) { hold(t, subpaths) }

func TestSubpathsFires(t *testing.T) {
	src := func(expr string) string {
		return "package x\n\nimport \"strings\"\n\nfunc f(dir, p string) bool { return " + expr + " }\n"
	}
	const want = "asked of internal/subpath"
	fires(t, subpaths,
		one("a copy", "internal/x/x.go", src(`p == dir || strings.HasPrefix(p, dir+"/")`), want),
		one("a copy that trims", "internal/x/x.go", src(`strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")`), want),
		one("a cut", "internal/x/x.go", src(`strings.TrimPrefix(p, dir+"/") != p`), want),
		one("a climb", "internal/x/x.go", src(`strings.HasPrefix(p, "../")`), want),
		one("another beginning", "internal/x/x.go", src(`strings.HasPrefix(p, dir+":") || strings.HasPrefix(p, "/")`)),
		one("the place itself", "internal/subpath/x.go", src(`strings.HasPrefix(p, dir+"/")`)),
		one("a test", "internal/x/x_test.go", src(`strings.HasPrefix(p, dir+"/")`)),
	)
}
