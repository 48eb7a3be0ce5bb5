package layers

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// streams are the names that only an Invocation's own fields have, in capitals. A second set in
// small letters reads the same and is something else.
var streams = []string{"stdin", "stdout", "stderr"}

// invocations finds types of the command that build an Invocation into themselves, or have
// streams that can be taken for its own.
func invocations(t *tree) []string {
	var bad []string
	for _, f := range t.code() {
		if f.dir != "internal/cli" && !strings.HasPrefix(f.dir, "internal/cli/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				if len(field.Names) == 0 && embedded(field.Type) == "Invocation" {
					bad = append(bad, t.where(f, field)+" embeds an Invocation: keep it in a field")
				}
				for _, name := range field.Names {
					if slices.Contains(streams, name.Name) {
						bad = append(bad, t.where(f, name)+" is a second "+name.Name+": the streams are the Invocation's")
					}
				}
			}
			return true
		})
	}
	return bad
}

// embedded is the name of a type that stands without a field's name.
func embedded(x ast.Expr) string {
	if p, ok := x.(*ast.StarExpr); ok {
		x = p.X
	}
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func TestInvocations(t *testing.T) { hold(t, invocations) }

func TestInvocationsFires(t *testing.T) {
	body := func(field string) string { return "package x\n\ntype t struct {\n\t" + field + "\n}\n" }
	fires(t, invocations,
		one("embedded", "internal/cli/x/x.go", body("*invocation.Invocation"), "embeds an Invocation"),
		one("embedded by value", "internal/cli/x.go", body("Invocation"), "embeds an Invocation"),
		one("a second stdout", "internal/cli/x/x.go", body("stdout int"), "a second stdout"),
		one("a field", "internal/cli/x/x.go", body("inv *invocation.Invocation")),
		one("its own streams", "internal/cli/invocation/x.go", body("Stdout io.Writer")),
		one("another package", "internal/run/x.go", body("stdout int")),
	)
}
