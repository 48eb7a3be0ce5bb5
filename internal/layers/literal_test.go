package layers

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A word's constant is written by its name. Two things are found without a type checker: texts that
// can hardly mean anything else, and fields of words that are compared with one of their type's values.

// homonyms are literals that equal a word and are another one, or that stand where the words cannot be
// used: a directory, the text, and why. An entry that meets nothing any more must go.
var homonyms = []struct{ dir, text, why string }{
	{"cmd/palyra-verify", "*", "the independent checker shares no code with what it checks"},
	{"internal/agent", "model_not_found", "the providers' word for it"},
	{"internal/approval", "device.", "the first part of a capability; the word is that of a principal"},
	{"internal/cli/**", "other_uid", "shown beside levels that are not there yet"},
	{"internal/past", "read_only", "a member of a plan on record"},
	{"internal/policy/tables", "read_only", "a key of a test about that attribute"},
	{"internal/policy", "read_only", "an attribute of Cedar, whose name is a promise to policies"},
}

// words are the constants of the root, by their text: all that are texts, and those of each type.
type words struct {
	all    map[string]string          // text → name
	typed  map[string]map[string]bool // type → texts
	fields map[string]string          // field of a word → its type, where that is one for all
}

func wordsOf(t *tree) words {
	w := words{map[string]string{}, map[string]map[string]bool{}, map[string]string{}}
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
		typ := ""
		if id, ok := f.Type.(*ast.Ident); ok {
			typ = id.Name
		}
		for _, n := range f.Names {
			if was, seen := w.fields[n.Name]; seen && was != typ {
				typ = ""
			}
			w.fields[n.Name] = typ
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
	compared := func(x ast.Expr, with ...ast.Expr) {
		sel, ok := x.(*ast.SelectorExpr)
		if !ok {
			return
		}
		for _, e := range with {
			if text, ok := literal(e); ok && w.typed[w.fields[sel.Sel.Name]][text] {
				found[e] = text
			}
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			tags[n.Tag] = true // which are no literals of the code
		case *ast.BasicLit:
			if text, ok := literal(n); ok && !tags[n] && w.all[text] != "" && strings.ContainsAny(text, "_.") {
				found[n] = text
			}
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared(n.X, n.Y)
				compared(n.Y, n.X)
			}
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				compared(n.Tag, c.(*ast.CaseClause).List...)
			}
		}
		return true
	})
	return found
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
				return matches(h.dir, f.dir) && (h.text == text || strings.HasSuffix(h.text, "*") && strings.HasPrefix(text, strings.TrimSuffix(h.text, "*")))
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
	root := "package palyra\n\ntype Tier string\n\ntype Reason string\n\nconst (\n\tTierC Tier = \"c\"\n\tReasonTooLarge Reason = \"too_large\"\n\tToolEcho = \"palyra.echo\"\n)\n\n" +
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
		plant{"a short text elsewhere", with("\treturn s == \"c\""), nil},
		plant{"another text", with("\treturn p.Tier == \"off\""), nil},
		plant{"a tag", map[string]string{"words.go": root, "internal/x/x.go": "package x\n\ntype t struct {\n\tA int `too_large`\n}\n"}, nil},
		plant{"the checker", map[string]string{"words.go": root, "cmd/palyra-verify/x.go": "package main\n\nvar x = \"too_large\"\n"}, nil},
	)
}
