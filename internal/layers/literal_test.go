package layers

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A word's constant is written by its name. Three things are found without a type checker: texts that
// can hardly mean anything else, fields of words that are compared with, set to or made with one of their type's
// values, and such values in lists and maps of a word's type.

// homonyms are literals that equal a word and are another one, or that stand where the words cannot be
// used: a directory, the text, and why. An entry that meets nothing any more must go.
var homonyms = []struct{ dir, text, why string }{
	{"cmd/palyra-verify", "*", "the independent checker shares no code with what it checks"},
	{"internal/agent", "model_not_found", "the providers' word for it"},
	{"internal/approval", "device.", "the first part of a capability; the word is that of a principal"},
	{"internal/cli/mcp", "refused", "what became of a server that is imported"},
	{"internal/cli/**", "other_uid", "shown beside levels that are not there yet"},
	{"internal/past", "read_only", "a member of a plan on record"},
	{"internal/policy/tables", "read_only", "a key of a test about that attribute"},
	{"internal/sandbox/bubble", "user_namespace", "a mechanism; a limit is kept by it too"},
	{"internal/sandbox/jobobject", "job_object", "the same"},
	{"internal/policy/entity", "read_only", "an attribute of Cedar, whose name is a promise to policies"},
	{"internal/policy", "read_only", "an attribute of Cedar, whose name is a promise to policies"},
}

// words are the constants of the root, by their text: all that are texts, and those of each type.
type words struct {
	all    map[string]string          // text → name
	typed  map[string]map[string]bool // type → texts
	fields map[string]map[string]bool // field of a word → its types
}

func wordsOf(t *tree) words {
	w := words{map[string]string{}, map[string]map[string]bool{}, map[string]map[string]bool{}}
	for _, f := range t.code() {
		if f.dir != "." {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				if n.Tok == token.CONST {
					w.constants(n)
				}
			case *ast.StructType:
				w.structure(n)
			}
			return true
		})
	}
	return w
}

func (w words) constants(d *ast.GenDecl) {
	for _, s := range d.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, e := range v.Values {
			text, ok := literal(e)
			if !ok || !v.Names[i].IsExported() {
				continue
			}
			w.all[text] = v.Names[i].Name
			if id, ok := v.Type.(*ast.Ident); ok {
				if w.typed[id.Name] == nil {
					w.typed[id.Name] = map[string]bool{}
				}
				w.typed[id.Name][text] = true
			}
		}
	}
}

func (w words) structure(s *ast.StructType) {
	for _, f := range s.Fields.List {
		id, ok := f.Type.(*ast.Ident)
		if !ok {
			continue
		}
		for _, n := range f.Names {
			if w.fields[n.Name] == nil {
				w.fields[n.Name] = map[string]bool{}
			}
			w.fields[n.Name][id.Name] = true
		}
	}
}

func literal(e ast.Expr) (string, bool) {
	b, ok := e.(*ast.BasicLit)
	if !ok || b.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(b.Value)
	return s, err == nil && s != ""
}

// said finds the literals of a file that are words.
func (w words) said(f *file) map[ast.Expr]string {
	found, tags := map[ast.Expr]string{}, map[*ast.BasicLit]bool{}
	of := func(types map[string]bool, all ...ast.Expr) {
		for _, e := range all {
			text, ok := literal(e)
			if ok && slices.ContainsFunc(slices.Collect(maps.Keys(types)), func(typ string) bool { return w.typed[typ][text] }) {
				found[e] = text
			}
		}
	}
	compared := func(x ast.Expr, with ...ast.Expr) {
		if sel, ok := x.(*ast.SelectorExpr); ok {
			of(w.fields[sel.Sel.Name], with...)
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			tags[n.Tag] = true // which are no literals of the code
		case *ast.BasicLit:
			if text, ok := literal(n); ok && !tags[n] && w.all[text] != "" && strings.ContainsAny(text, "_.:") {
				found[n] = text
			}
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared(n.X, n.Y)
				compared(n.Y, n.X)
			}
		case *ast.AssignStmt:
			for i := range min(len(n.Lhs), len(n.Rhs)) {
				compared(n.Lhs[i], n.Rhs[i])
			}
		case *ast.CompositeLit:
			w.composed(n, of)
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				compared(n.Tag, c.(*ast.CaseClause).List...)
			}
		}
		return true
	})
	return found
}

// composed looks at what a word, or a list or map of a word's type, is made of.
func (w words) composed(c *ast.CompositeLit, of func(types map[string]bool, all ...ast.Expr)) {
	named := func(e ast.Expr) map[string]bool {
		if sel, ok := e.(*ast.SelectorExpr); ok {
			return map[string]bool{sel.Sel.Name: true}
		}
		return nil
	}
	for _, e := range c.Elts {
		pair, keyed := e.(*ast.KeyValueExpr)
		switch typ := c.Type.(type) {
		case *ast.MapType:
			if keyed {
				of(named(typ.Key), pair.Key)
				of(named(typ.Value), pair.Value)
			}
		case *ast.ArrayType:
			of(named(typ.Elt), e)
		case *ast.SelectorExpr:
			if id, ok := typ.X.(*ast.Ident); ok && keyed && id.Name == "palyra" {
				if field, ok := pair.Key.(*ast.Ident); ok {
					of(w.fields[field.Name], pair.Value)
				}
			}
		}
	}
}

func literals(t *tree) []string {
	w := wordsOf(t)
	used := make([]bool, len(homonyms))
	var bad []string
	for _, f := range t.code() {
		if f.dir == "." || f.suite() {
			continue
		}
		for e, text := range w.said(f) {
			i := slices.IndexFunc(homonyms, func(h struct{ dir, text, why string }) bool {
				return matches(h.dir, f.dir) && (h.text == text || strings.HasSuffix(h.text, "*") &&
					strings.HasPrefix(text, strings.TrimSuffix(h.text, "*")))
			})
			if i >= 0 {
				used[i] = true
				continue
			}
			bad = append(bad, fmt.Sprintf("%s: %q is palyra.%s", t.where(f, e), text, w.all[text]))
		}
	}
	if len(t.files) > 100 { // a planted tree needs no exceptions
		for i, h := range homonyms {
			if !used[i] {
				bad = append(bad, fmt.Sprintf("%s: %q is not said there any more: take it off the list", h.dir, h.text))
			}
		}
	}
	slices.Sort(bad)
	return bad
}

func TestLiterals(t *testing.T) { hold(t, literals) }

func TestLiteralsFires(t *testing.T) {
	root := "package palyra\n\ntype Tier string\n\ntype Reason string\n\nconst (\n\tTierC Tier = \"c\"\n\tReasonTooLarge Reason = " +
		"\"too_large\"\n\tToolEcho = \"palyra.echo\"\n)\n\n" +
		"type Plan struct {\n\tTier Tier `json:\"tier\"`\n}\n"
	with := func(body string) map[string]string {
		return map[string]string{"words.go": root, "internal/x/x.go": "package x\n\nfunc f(p Plan, s string) bool {\n" + body + "\n}\n"}
	}
	fires(t, literals,
		plant{"a reason by its text", with("\treturn s == \"too_large\""), []string{`"too_large" is palyra.ReasonTooLarge`}},
		plant{"a tool by its text", with("\treturn call(\"palyra.echo\")"), []string{"palyra.ToolEcho"}},
		plant{"a typed field", with("\treturn p.Tier == \"c\""), []string{"palyra.TierC"}},
		plant{"a typed field, the other way", with("\treturn \"c\" != p.Tier"), []string{"palyra.TierC"}},
		plant{"a switch", with("\tswitch p.Tier {\n\tcase \"c\":\n\t}\n\treturn true"), []string{"palyra.TierC"}},
		plant{"a word that is made", with("\tp = palyra.Plan{Tier: \"c\"}\n\treturn true"), []string{"palyra.TierC"}},
		plant{"a field that is set", with("\tp.Tier = \"c\"\n\treturn true"), []string{"palyra.TierC"}},
		plant{"a list", with("\treturn call([]palyra.Tier{\"c\"})"), []string{"palyra.TierC"}},
		plant{"the values of a map", with("\treturn call(map[string]palyra.Tier{\"c\": \"c\"})"), []string{"palyra.TierC"}},
		plant{"another's word", with("\treturn call(other.Plan{Tier: \"c\"})"), nil},
		plant{"a short text elsewhere", with("\treturn s == \"c\""), nil},
		plant{"another text", with("\treturn p.Tier == \"off\""), nil},
		plant{"a tag", map[string]string{"words.go": root, "internal/x/x.go": "package x\n\ntype t struct {\n\tA int `too_large`\n}\n"}, nil},
		plant{"the checker", map[string]string{"words.go": root, "cmd/palyra-verify/x.go": "package main\n\nvar x = \"too_large\"\n"}, nil},
	)
}
