package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "palyra"

// file is one Go file of the tree.
type file struct {
	name      string // slash path below the root
	dir       string // "." for the root
	ast       *ast.File
	src       []byte
	test      bool
	generated bool
}

// imports returns import paths and the names they go by in this file.
func (f *file) imports() map[string]string {
	m := map[string]string{}
	for _, s := range f.ast.Imports {
		p, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(p))
		}
		if s.Name != nil {
			name = s.Name.Name
		}
		m[p] = name
	}
	return m
}

// suite reports whether f belongs to a package that only tests import: the
// definition of an interface (storetest), or samples for others (attesttest).
func (f *file) suite() bool { return strings.HasSuffix(f.dir, "test") }

func (f *file) lines() int { return strings.Count(string(f.src), "\n") }

// tree is a parsed checkout.
type tree struct {
	fset  *token.FileSet
	files []*file
}

// where says where a node stands, for messages.
func (t *tree) where(f *file, n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.name, t.fset.Position(n.Pos()).Line)
}

// load parses every Go file below the root, leaving out testdata, hidden
// directories and nested modules.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (skipped(path.Base(name)) || nested(fsys, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		return t.add(fsys, name)
	})
	return t, err
}

func skipped(base string) bool {
	return base == "testdata" || base == "vendor" || base == "node_modules" || base == "bin" || base[0] == '.' || base[0] == '_'
}

func nested(fsys fs.FS, dir string) bool {
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func (t *tree) add(fsys fs.FS, name string) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	a, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.files = append(t.files, &file{
		name: name, dir: path.Dir(name), ast: a, src: src, test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(a),
	})
	return nil
}

// code returns the files that are neither tests nor generated.
func (t *tree) code() []*file {
	var out []*file
	for _, f := range t.files {
		if !f.test && !f.generated {
			out = append(out, f)
		}
	}
	return out
}

// packages groups code files by directory, in order.
func (t *tree) packages() (dirs []string, byDir map[string][]*file) {
	byDir = map[string][]*file{}
	for _, f := range t.code() {
		if byDir[f.dir] == nil {
			dirs = append(dirs, f.dir)
		}
		byDir[f.dir] = append(byDir[f.dir], f)
	}
	slices.Sort(dirs)
	return dirs, byDir
}

// matches reports whether a directory fits a pattern: "internal/rpc/**" is the
// directory and all below it, "internal/*" exactly one element, else equality.
func matches(pattern, dir string) bool {
	if base, ok := strings.CutSuffix(pattern, "/**"); ok {
		return dir == base || strings.HasPrefix(dir, base+"/")
	}
	ok, err := path.Match(pattern, dir)
	return err == nil && ok
}

func matchesAny(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, dir) })
}

// A rule looks at a tree and returns what breaks it.
type rule func(*tree) []string

var checkout = sync.OnceValues(func() (*tree, error) { return load(os.DirFS("../..")) })

// hold runs a rule on the real tree.
func hold(t *testing.T, r rule) {
	t.Helper()
	tr, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.files) < 20 {
		t.Fatalf("only %d files found", len(tr.files))
	}
	for _, v := range r(tr) {
		t.Error(v)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, dir string
		want         bool
	}{
		{"internal/rpc/**", "internal/rpc", true},
		{"internal/rpc/**", "internal/rpc/tools/x", true},
		{"internal/rpc/**", "internal/rpcx", false},
		{"internal/*", "internal/gate", true},
		{"internal/*", "internal/store/sqlite", false},
		{".", ".", true},
		{".", "client", false},
	} {
		if matches(c.pattern, c.dir) != c.want {
			t.Errorf("%s, %s: want %t", c.pattern, c.dir, c.want)
		}
	}
}
