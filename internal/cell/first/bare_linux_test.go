package first

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bareFiles are those whose functions go on without Go's runtime.
var bareFiles = []string{"raw_linux.go", "first_linux.go", "order_linux.go", "program_linux.go", "launch_linux.go", "crib_linux_amd64.go"}

// TestBare: no function that the first process runs asks anything of Go's runtime, as far as its text shows: each is
// nosplit and without the race detector's calls; none allocates, defers, starts a goroutine
// or calls what is not listed here.
func TestBare(t *testing.T) {
	set := token.NewFileSet()
	own := map[string]bool{}
	var files []*ast.File
	for _, name := range bareFiles {
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				own[fn.Name.Name] = true
			}
		}
	}
	checked := 0
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				checked++
				for _, fault := range faults(fn, own) {
					t.Errorf("%s: %s", set.Position(fn.Pos()), fault)
				}
			}
		}
	}
	if checked < 35 {
		t.Errorf("only %d functions were looked at", checked)
	}
}

// faults lists what a bare function may not have.
func faults(fn *ast.FuncDecl, own map[string]bool) (bad []string) {
	for _, mark := range []string{"//go:nosplit", "//go:norace"} {
		if fn.Doc == nil || !slices.ContainsFunc(fn.Doc.List, func(c *ast.Comment) bool { return c.Text == mark }) {
			bad = append(bad, fn.Name.Name+" lacks "+mark)
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.DeferStmt, *ast.FuncLit, *ast.SelectStmt, *ast.SendStmt, *ast.TypeAssertExpr, *ast.MapType, *ast.ChanType,
			*ast.InterfaceType:
			bad = append(bad, fn.Name.Name+" needs the runtime")
		case *ast.CompositeLit:
			if a, ok := n.Type.(*ast.ArrayType); !ok || a.Len == nil {
				bad = append(bad, fn.Name.Name+" makes a value that may be allocated")
			}
		case *ast.BinaryExpr:
			if l, ok := n.X.(*ast.BasicLit); ok && l.Kind == token.STRING {
				bad = append(bad, fn.Name.Name+" makes a text")
			}
		case *ast.CallExpr:
			if name := callee(n.Fun); !own[name] && !slices.Contains(bareCalls, name) {
				bad = append(bad, fn.Name.Name+" calls "+name)
			}
		}
		return true
	})
	return bad
}

// bareCalls are conversions and what the compiler does in place.
var bareCalls = []string{
	"uintptr", "uint16", "uint32", "uint64", "int32", "byte", "len", "max", "min", "unsafe.Pointer", "unsafe.Add", "unsafe.Sizeof",
	"unix.Errno", "*", "(pointer)",
}

func callee(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && (x.Name == "unsafe" || x.Name == "unix" || x.Name == "cell") {
			return x.Name + "." + e.Sel.Name
		}
		return e.Sel.Name
	case *ast.ParenExpr:
		if _, ok := e.X.(*ast.StarExpr); ok {
			return "(pointer)"
		}
	}
	return "?"
}

// TestBareFires: each of these is found.
func TestBareFires(t *testing.T) {
	marks := "//go:nosplit\n//go:norace\n"
	for text, want := range map[string]string{
		"func f() {}":                                   "lacks //go:nosplit",
		"//go:nosplit\nfunc f() {}":                     "lacks //go:norace",
		marks + "func f() { go f() }":                   "runtime",
		marks + "func f() { defer f() }":                "runtime",
		marks + "func f() { func() {}() }":              "runtime",
		marks + "func f() { _ = []int{1} }":             "allocated",
		marks + "func f() { _ = make([]int, 3) }":       "calls make",
		marks + "func f() { panic(1) }":                 "calls panic",
		marks + "func f() { fmt.Println() }":            "calls Println",
		marks + "func f(b []byte) { _ = append(b, 1) }": "calls append",
		marks + "func f(a any) { _ = a.(int) }":         "runtime",
		marks + "func f(b string) { _ = \"x\" + b }":    "text",
		marks + "func f() { _ = unix.Getpid() }":        "calls unix.Getpid",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n\n"+text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		got := faults(f.Decls[0].(*ast.FuncDecl), map[string]bool{"f": true})
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// TestEveryFileIsBareOrListed: a new file of this package that makes system calls is not forgotten.
func TestEveryFileIsBareOrListed(t *testing.T) {
	all, err := filepath.Glob("*_linux.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if !slices.Contains(bareFiles, name) && !slices.Contains([]string{"fork_linux.go", "launcher_linux.go", "crib_linux.go"}, name) {
			t.Errorf("%s is neither bare nor of the template", name)
		}
	}
}
