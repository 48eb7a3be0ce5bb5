package layers

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Knowledge stands once. Three kinds of copies are found by their text: a constant that another package
// has as well, by a text that can hardly mean anything else or under the same name; a table of texts
// that two packages have letter by letter; an order of roles outside the root.

// again are texts that two packages may have, and why. An entry that meets nothing any more must go.
var again = map[string]string{
	"/usr/bin/bwrap": "the command looks for bubblewrap where the daemon does, and knows no part",
	"2026-07-28":     "a date of MCP, at its client and at its server",
	"dev-":           "the authority of devices and their register agree on it by their test vectors",
	"node_modules":   "one backend has it in its profile's language",
	".leaving-":      "two directories, each swept by its own",
	"answer":         "a kind of flip, in the explanation and in the policies that it turns",
	"config":         "the same",
	"policy":         "the same",
}

// told are a tree's text constants: text → package → names.
func told(t *tree) map[string]map[string][]string {
	out := map[string]map[string][]string{}
	for _, f := range t.code() {
		if f.suite() || f.dir == "cmd/palyra-verify" { // the independent checker shares nothing
			continue
		}
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, e := range v.Values {
					text, ok := literal(e)
					if !ok {
						continue
					}
					if out[text] == nil {
						out[text] = map[string][]string{}
					}
					out[text][f.dir] = append(out[text][f.dir], strings.ToLower(v.Names[i].Name))
				}
			}
		}
	}
	return out
}

// singular reports whether a text can hardly mean two things.
func singular(text string) bool { return len(text) >= 4 && strings.ContainsAny(text, "_./:-,") }

// namesake reports whether two packages have a constant of the same name.
func namesake(homes map[string][]string) bool {
	seen := map[string]bool{}
	for _, names := range homes {
		for _, n := range slices.Compact(slices.Sorted(slices.Values(names))) {
			if seen[n] {
				return true
			}
			seen[n] = true
		}
	}
	return false
}

func constantsTwice(t *tree) []string {
	var bad []string
	used := map[string]bool{}
	for text, homes := range told(t) {
		if len(homes) < 2 || !singular(text) && !namesake(homes) {
			continue
		}
		if _, ok := again[text]; ok {
			used[text] = true
			continue
		}
		bad = append(bad, fmt.Sprintf("%q is a constant of %s", text, strings.Join(slices.Sorted(maps.Keys(homes)), " and ")))
	}
	if len(t.files) > 100 { // a planted tree needs no exceptions
		for text := range again {
			if !used[text] {
				bad = append(bad, fmt.Sprintf("%q is a constant once: take it off the list", text))
			}
		}
	}
	slices.Sort(bad)
	return bad
}

// tablesTwice finds package variables of composed texts that two packages have alike.
func tablesTwice(t *tree) []string {
	const least = 3 // elements that make a table
	homes := map[string][]string{}
	for _, f := range t.code() {
		if f.suite() || f.dir == "cmd/palyra-verify" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			c, ok := n.(*ast.CompositeLit)
			if !ok || len(c.Elts) < least || c.Type == nil {
				return true
			}
			from, to := t.fset.Position(c.Lbrace).Offset, t.fset.Position(c.Rbrace).Offset
			text := strings.Join(strings.Fields(string(f.src[from:to])), " ")
			if strings.Count(text, `"`) >= 2*least && len(text) >= 60 && !slices.Contains(homes[text], f.dir) {
				homes[text] = append(homes[text], f.dir)
			}
			return true
		})
	}
	var bad []string
	for text, dirs := range homes {
		if len(dirs) > 1 {
			bad = append(bad, fmt.Sprintf("%v have the same table: %.60s…", dirs, text))
		}
	}
	slices.Sort(bad)
	return bad
}

// roleOrders finds lists of roles: which is more than which is said by palyra.PeopleRoles.
func roleOrders(t *tree) []string {
	var bad []string
	for _, f := range t.code() {
		if f.dir == "." || f.suite() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			c, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			roles := 0
			for _, e := range c.Elts {
				if sel, ok := e.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Role") {
					roles++
				}
			}
			if roles > 3 {
				bad = append(bad, t.where(f, c)+": roles have one order, palyra.PeopleRoles")
			}
			return true
		})
	}
	return bad
}

func TestConstantsOnce(t *testing.T)   { hold(t, constantsTwice) }
func TestTablesOnce(t *testing.T)      { hold(t, tablesTwice) }
func TestOneOrderOfRoles(t *testing.T) { hold(t, roleOrders) }

func TestOnceFires(t *testing.T) {
	two := func(a, b string) map[string]string {
		return map[string]string{"internal/a/a.go": "package a\n\n" + a + "\n", "internal/b/b.go": "package b\n\n" + b + "\n"}
	}
	fires(t, constantsTwice,
		plant{
			"a path", two(`const Path = "/usr/bin:/bin"`, `const where = "/usr/bin:/bin"`),
			[]string{`"/usr/bin:/bin" is a constant of internal/a and internal/b`},
		},
		plant{"a name", two(`const StdinLive = "live"`, `const stdinLive = "live"`), []string{`"live"`}},
		plant{"another thing", two(`const StdinLive = "live"`, `const shown = "live"`), nil},
		plant{"an alias", two(`const Path = "/usr/bin:/bin"`, `const Path = a.Path`), nil},
		plant{"the checker", map[string]string{
			"internal/a/a.go":        "package a\n\nconst F = \"x/1\"\n",
			"cmd/palyra-verify/b.go": "package main\n\nconst F = \"x/1\"\n",
		}, nil},
	)
	strength := `var strength = map[string]int{"none": 1, "polled": 2, "rlimit": 3, "rlimit+polled": 4, "cgroup": 5}`
	fires(t, tablesTwice,
		plant{"a table", two(strength, strings.ReplaceAll(strength, "strength", "order")), []string{"have the same table"}},
		plant{"a short one", two(`var x = []string{"a", "b", "c"}`, `var x = []string{"a", "b", "c"}`), nil},
	)
	fires(t, roleOrders,
		one("an order", "internal/a/a.go",
			"package a\n\nvar x = []palyra.Role{palyra.RoleViewer, palyra.RoleAuditor, palyra.RoleApprover, palyra.RoleAdmin}\n",
			"palyra.PeopleRoles"),
		one("a few", "internal/a/a.go", "package a\n\nvar x = []palyra.Role{palyra.RoleOwner, palyra.RoleAdmin}\n"),
	)
}
