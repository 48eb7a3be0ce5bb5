package layers

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// packageDocs: every package says what it is for, in a comment worth reading.
func packageDocs(t *tree) []string {
	const least = 60 // characters; less is the name said twice
	var bad []string
	dirs, byDir := t.packages()
	for _, dir := range dirs {
		doc := ""
		for _, f := range byDir[dir] {
			doc += f.ast.Doc.Text()
		}
		switch {
		case doc == "":
			bad = append(bad, dir+" has no package comment")
		case len(doc) < least:
			bad = append(bad, fmt.Sprintf("%s: the package comment says only %q", dir, strings.TrimSpace(doc)))
		}
	}
	return bad
}

// exportedDocs: at least 95 % of exported names have a comment. The share is of
// the whole tree; the message names those without.
func exportedDocs(t *tree) []string {
	const least = 95
	all, bare := 0, []string{}
	for _, f := range t.code() {
		if f.ast.Name.Name == "main" {
			continue
		}
		for _, n := range exported(f) {
			all++
			if !n.documented {
				bare = append(bare, fmt.Sprintf("%s %s", t.where(f, n.id), n.id.Name))
			}
		}
	}
	if all == 0 || 100*(all-len(bare)) >= least*all {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d exported names have no comment: %s", len(bare), all, strings.Join(bare, ", "))}
}

type name struct {
	id         *ast.Ident
	documented bool
}

func exported(f *file) []name {
	var out []name
	see := func(id *ast.Ident, docs ...*ast.CommentGroup) {
		if !id.IsExported() {
			return
		}
		n := name{id: id}
		for _, d := range docs {
			n.documented = n.documented || d != nil
		}
		out = append(out, n)
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				see(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					see(s.Name, d.Doc, s.Doc, s.Comment)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						see(id, d.Doc, s.Doc, s.Comment)
					}
				}
			}
		}
	}
	return out
}

func receiver(d *ast.FuncDecl) string {
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func TestPackageDocs(t *testing.T)  { hold(t, packageDocs) }
func TestExportedDocs(t *testing.T) { hold(t, exportedDocs) }

func TestPackageDocsFires(t *testing.T) {
	long := "// Package x keeps the things that are to be kept, in the order they came.\n"
	fires(t, packageDocs,
		one("none", "x/x.go", "package x\n", "no package comment"),
		one("hardly any", "x/x.go", "// Package x does x.\npackage x\n", "says only"),
		one("apart from the clause", "x/x.go", long+"\npackage x\n", "no package comment"),
		one("enough", "x/x.go", long+"package x\n"),
		plant{"in another file", map[string]string{"x/x.go": "package x\n", "x/doc.go": long + "package x\n"}, nil},
		one("a test package needs none", "x/x_test.go", "package x\n"),
	)
}

func TestExportedDocsFires(t *testing.T) {
	many := "package x\n"
	for i := range 19 {
		many += fmt.Sprintf("\n// F%d does it.\nfunc F%d() {}\n", i, i)
	}
	fires(t, exportedDocs,
		one("95 %", "x/x.go", many+"\nfunc Bare() {}\n"),
		one("less", "x/x.go", many+"\nfunc Bare() {}\n\nvar Bare2 int\n", "Bare2"),
		one("a method", "x/x.go", "package x\n\n// T is.\ntype T[E any] struct{}\n\nfunc (*T[E]) Bare() {}\n", "Bare"),
		one("a group comment covers its names", "x/x.go", "package x\n\n// The names.\nconst (\n\tA = 1\n\tB = 2\n)\n"),
		one("not exported", "x/x.go", "package x\n\ntype t struct{}\n\nfunc (t) Bare() {}\n"),
	)
}
