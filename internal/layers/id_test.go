package layers

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"

	"palyra/internal/subpath"
)

// ofItsOwn are the words whose ids have a type of their own.
var ofItsOwn = []string{"Call", "Run", "Session", "Approval", "Lease", "Grant"}

// ids refuses a field, parameter or result that is named for an id and has another type:
// the compiler keeps a session's id out of a call's place only where both say what they
// are. A field that is a call's and says palyra.ID is one of these.
func ids(t *tree) []string {
	var bad []string
	for _, f := range t.code() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok {
				return true
			}
			typ := plainType(field.Type)
			for _, name := range field.Names {
				if want := idNamed(name.Name, typ); want != "" && typ != want {
					bad = append(bad, fmt.Sprintf("%s: %s is a palyra.%s, not %s", t.where(f, name), name.Name, want, typ))
				}
			}
			return true
		})
	}
	return bad
}

// idNamed returns the type that a name promises, with a type that could stand for it.
func idNamed(name, typ string) string {
	for _, w := range ofItsOwn {
		switch {
		case typ != "ID" && typ != "string":
		case strings.EqualFold(name, w+"ID"), typ == "ID" && strings.EqualFold(name, w):
			return w + "ID"
		}
	}
	return ""
}

// wordNames are names that promise a word with fixed values. A text of that name lets any other text in.
var wordNames = map[string]string{
	"permission": "Permission", "permissions": "Permission", "scopes": "Permission", "keyuse": "KeyUse", "toolname": "ToolName",
	"surface": "Surface",
	"tier":    "Tier", "role": "Role", "roles": "Role", "capability": "Capability", "capabilities": "Capability",
	"separation": "Separation", "settlement": "Settlement", "networkmode": "NetworkMode",
	"transport": "Transport", "reasoncode": "Reason",
}

// spells reports whether a file may hold a tier or a role as people and callers spell it, "c" for a tier
// that is C, before it is read.
func spells(f *file, word string) bool {
	return (word == "Tier" || word == "Role") &&
		slices.ContainsFunc([]string{"internal/cli", "internal/config", "internal/tool/process"},
			func(dir string) bool { return subpath.Within(dir, f.dir) })
}

// texts refuses a field, parameter or result, or a list of them, that is named for a word and is a text.
func texts(t *tree) []string {
	var bad []string
	for _, f := range t.code() {
		if f.suite() || f.dir == "cmd/palyra-verify" { // which shares no code with what it checks
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok {
				return true
			}
			typ := field.Type
			if list, ok := typ.(*ast.ArrayType); ok {
				typ = list.Elt
			}
			for _, name := range field.Names {
				if want := wordNames[strings.ToLower(name.Name)]; want != "" && plainType(typ) == "string" && !spells(f, want) {
					bad = append(bad, fmt.Sprintf("%s: %s is a palyra.%s, not a string", t.where(f, name), name.Name, want))
				}
			}
			return true
		})
	}
	return bad
}

func TestWordsHaveTheirType(t *testing.T) { hold(t, texts) }

func TestWordsHaveTheirTypeFires(t *testing.T) {
	const x = "internal/run/x.go"
	fires(t, texts,
		one("a field", x, "package run\n\ntype t struct{ Permission string }\n", "Permission is a palyra.Permission, not a string"),
		one("a list", x, "package run\n\nfunc f(scopes []string) {}\n", "scopes is a palyra.Permission"),
		one("in the root", "call.go", "package palyra\n\ntype Call struct{ Surface string }\n", "Surface is a palyra.Surface"),
		one("of an interface", x, "package run\n\ntype t interface{ Permits(permission string) }\n", "permission is a palyra.Permission"),
		one("a tier", x, "package run\n\nfunc f(tier string, roles []string) {}\n", "tier is a palyra.Tier", "roles is a palyra.Role"),
		one("a tier as it is spelled", "internal/cli/x.go", "package cli\n\nfunc f(tier string) {}\n"),
		one("its own", x, "package run\n\ntype t struct{ Permission palyra.Permission; Name string }\n"),
		one("the checker", "cmd/palyra-verify/x.go", "package main\n\ntype t struct{ Surface string }\n"),
		one("a test's", "internal/run/x_test.go", "package run\n\nfunc f(surface string) {}\n"),
	)
}

// plainType is the name of a type, without its package; "" for a composed one.
func plainType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func TestIDsHaveTheirType(t *testing.T) { hold(t, ids) }

func TestIDsHaveTheirTypeFires(t *testing.T) {
	const x = "internal/run/x.go"
	fires(t, ids,
		one("a field", x, "package run\n\ntype t struct{ CallID palyra.ID }\n", "CallID is a palyra.CallID, not ID"),
		one("a text", x, "package run\n\ntype t struct{ sessionID string }\n", "sessionID is a palyra.SessionID"),
		one("a parameter", x, "package run\n\nfunc f(session, id palyra.ID) {}\n", "session is a palyra.SessionID"),
		one("in the root", "call.go", "package palyra\n\ntype Call struct{ Run ID }\n", "Run is a palyra.RunID"),
		one("of an interface", x, "package run\n\ntype t interface{ Get(leaseID string) }\n", "leaseID is a palyra.LeaseID"),
		one("its own", x, "package run\n\ntype t struct{ GrantID palyra.GrantID; Pairing palyra.ID; Call *palyra.Call }\n"),
		one("a text of that name", x, "package run\n\nfunc f(session string) {}\n"),
	)
}
