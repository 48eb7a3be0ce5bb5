package layers

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	junkPackage = regexp.MustCompile(`^(utils?|common|helpers?|managers?|misc|shared|stuff|base|lib|types|models?|interfaces?)$`)
	junkName    = regexp.MustCompile(`(Manager|Helpers?|Utils?|Impl)$`)
	// adverb is a name that is no noun or verb: nobody can search for it, nor guess what it does.
	adverb = regexp.MustCompile(`^(about|against|ahead|around|because|behind|beside|between|beyond|by|elsewhere|for|from|here|in|` +
		`instead|into|maybe|meet|nobody|nothing|of|off|on|once|onto|otherwise|plainly|some|soon|then|there|to|together|torn|toward|` +
		`under|unless|unlike|until|upon|usual|when|while|without)$`)
	unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
)

// names refuses names that say nothing: junk drawers, managers, stutter.
func names(t *tree) []string {
	var bad []string
	dirs, byDir := t.packages()
	for _, dir := range dirs {
		if junkPackage.MatchString(path.Base(dir)) {
			bad = append(bad, dir+" is a junk drawer: name the package for what it is about")
		}
		for _, f := range byDir[dir] {
			pkg := strings.ToLower(f.ast.Name.Name)
			for _, id := range declaredIn(f) {
				if junkName.MatchString(id.Name) {
					bad = append(bad, fmt.Sprintf("%s: %s says nothing", t.where(f, id), id.Name))
				}
				if low := strings.ToLower(id.Name); id.IsExported() && pkg != "main" && low != pkg && strings.HasPrefix(low, pkg) &&
					ast.IsExported(id.Name[len(pkg):]) {
					bad = append(bad, fmt.Sprintf("%s: %s.%s stutters", t.where(f, id), f.ast.Name.Name, id.Name))
				}
			}
		}
	}
	return bad
}

// searchable refuses functions and methods that are called by a bare adverb, preposition or conjunction.
func searchable(t *tree) []string {
	var bad []string
	for _, f := range t.code() {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && adverb.MatchString(fn.Name.Name) {
				bad = append(bad, fmt.Sprintf("%s: nobody searches for %s: name it after what it does", t.where(f, fn.Name), fn.Name.Name))
			}
		}
	}
	return bad
}

// declaredIn returns the package-level types and functions of a file.
func declaredIn(f *file) []*ast.Ident {
	var ids []*ast.Ident
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				ids = append(ids, d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok {
					ids = append(ids, ts.Name)
				}
			}
		}
	}
	return ids
}

// finished refuses marks of unfinished work: what is missing stands in an issue
// or in docs/unproven.md, where users can see it.
func finished(t *tree) []string {
	var bad []string
	for _, f := range t.files {
		if f.generated || f.dir == "internal/layers" {
			continue
		}
		for _, g := range f.ast.Comments {
			for _, c := range g.List {
				if m := unfinished.FindString(c.Text); m != "" {
					bad = append(bad, t.where(f, c)+" says "+m)
				}
			}
		}
	}
	return bad
}

func TestNames(t *testing.T)    { hold(t, names) }
func TestFinished(t *testing.T) { hold(t, finished) }

func TestSearchable(t *testing.T) {
	hold(t, searchable)
	fires(t, searchable,
		one("a preposition", "internal/run/x.go", "package run\n\nfunc under() {}\n", "nobody searches for under"),
		one("a method", "internal/run/x.go", "package run\n\ntype t int\n\nfunc (t) otherwise() {}\n", "nobody searches for otherwise"),
		one("a longer name", "internal/run/x.go", "package run\n\nfunc underRoot() {}\n"),
		one("exported", "internal/run/x.go", "package run\n\nfunc Of() {}\n"),
		one("a test's", "internal/run/x_test.go", "package run\n\nfunc under() {}\n"),
	)
}

func TestNamesFires(t *testing.T) {
	fires(t, names,
		one("a junk drawer", "internal/utils/x.go", "package utils\n", "junk drawer"),
		one("a manager", "internal/run/x.go", "package run\n\ntype sessionManager struct{}\n", "says nothing"),
		one("stutter", "internal/run/x.go", "package run\n\ntype RunState int\n\nfunc RunAll() {}\n", "run.RunState stutters",
			"run.RunAll stutters"),
		one("the thing itself", "internal/journal/x.go", "package journal\n\ntype Journal struct{}\n"),
		one("a longer word", "internal/run/x.go", "package run\n\ntype Runner struct{}\n"),
		one("a test's own names", "internal/run/x_test.go", "package run\n\ntype fakeHelper struct{}\n"),
	)
}

func TestFinishedFires(t *testing.T) {
	fires(t, finished,
		one("a mark", "x/x.go", "package x\n\n// TODO: later\n", "says TODO"),
		one("in a test", "x/x_test.go", "package x // FIXME\n", "says FIXME"),
		one("a word with it inside", "x/x.go", "package x // xTODOx\n"),
	)
}
