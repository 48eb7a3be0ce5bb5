// Command vettargets type-checks and vets every package of the product, tests included, for the systems and processors
// that are named: what is only compiled elsewhere must at least be right Go.
//
// Everything is read from source. "go vet" would first compile all that the product imports for each target, which takes
// minutes each; "make vet-targets" does that.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/appends"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/composite"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/defers"
	"golang.org/x/tools/go/analysis/passes/directive"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/framepointer"
	"golang.org/x/tools/go/analysis/passes/hostport"
	"golang.org/x/tools/go/analysis/passes/httpresponse"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/loopclosure"
	"golang.org/x/tools/go/analysis/passes/lostcancel"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/sigchanyzer"
	"golang.org/x/tools/go/analysis/passes/slog"
	"golang.org/x/tools/go/analysis/passes/stdmethods"
	"golang.org/x/tools/go/analysis/passes/stdversion"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/testinggoroutine"
	"golang.org/x/tools/go/analysis/passes/tests"
	"golang.org/x/tools/go/analysis/passes/timeformat"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
	"golang.org/x/tools/go/analysis/passes/waitgroup"
	"golang.org/x/tools/go/packages"
)

// analyzers are those of "go vet" but the one for cgo, of which there is none.
var analyzers = []*analysis.Analyzer{
	assign.Analyzer, atomic.Analyzer, bools.Analyzer, buildtag.Analyzer, composite.Analyzer, copylock.Analyzer,
	directive.Analyzer, errorsas.Analyzer, httpresponse.Analyzer, ifaceassert.Analyzer, loopclosure.Analyzer,
	lostcancel.Analyzer, nilfunc.Analyzer, printf.Analyzer, shift.Analyzer, sigchanyzer.Analyzer, stdmethods.Analyzer,
	stringintconv.Analyzer, structtag.Analyzer, tests.Analyzer, unmarshal.Analyzer, unreachable.Analyzer,
	unsafeptr.Analyzer, unusedresult.Analyzer, appends.Analyzer, asmdecl.Analyzer, defers.Analyzer, hostport.Analyzer,
	slog.Analyzer, stdversion.Analyzer, testinggoroutine.Analyzer, timeformat.Analyzer, waitgroup.Analyzer, framepointer.Analyzer,
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: vettargets DIR GOOS/GOARCH…")
		os.Exit(2)
	}
	bad := 0
	for _, target := range os.Args[2:] {
		found, err := vet(os.Args[1], target)
		if err != nil {
			found = append(found, err.Error())
		}
		for _, f := range found {
			fmt.Fprintf(os.Stderr, "%s: %s\n", target, f)
		}
		bad += len(found)
	}
	if bad > 0 {
		os.Exit(1)
	}
}

const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedDeps | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedSyntax |
	packages.NeedModule | packages.NeedForTest

// vet returns what is wrong with the packages of dir on target.
func vet(dir, target string) ([]string, error) {
	goos, arch, ok := strings.Cut(target, "/")
	dir, err := filepath.Abs(dir)
	if !ok || err != nil {
		return nil, fmt.Errorf("%q is no GOOS/GOARCH", target)
	}
	ours := func(file string) bool { return strings.HasPrefix(file, dir+string(filepath.Separator)) }
	roots, err := packages.Load(&packages.Config{
		Mode: mode, Dir: dir, Tests: true,
		Env: append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOFLAGS=-mod=readonly"),
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			if ours(name) {
				return parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
			}
			return outline(fset, name, src)
		},
	}, "./...")
	if err != nil {
		return nil, err
	}
	roots = slices.DeleteFunc(roots, func(p *packages.Package) bool { return strings.HasSuffix(p.PkgPath, ".test") }) // the go command's own
	var found []string
	packages.Visit(roots, nil, func(p *packages.Package) {
		own := p.Module != nil && p.Module.Main
		for _, e := range p.Errors {
			if own || e.Kind == packages.ListError {
				found = append(found, e.Error())
			}
		}
		if !own {
			p.IllTyped = false // bodies are left out: an import that only they use seems unused
		}
	})
	if len(found) > 0 {
		return unique(found), nil
	}
	packages.Visit(roots, nil, func(p *packages.Package) { p.IllTyped = false })
	graph, err := checker.Analyze(analyzers, roots, nil)
	if err != nil {
		return nil, err
	}
	for act := range graph.All() {
		if !act.IsRoot {
			continue
		}
		if act.Err != nil {
			return nil, fmt.Errorf("%s: %s: %w", act.Package.PkgPath, act.Analyzer.Name, act.Err)
		}
		for _, d := range act.Diagnostics {
			found = append(found, fmt.Sprintf("%s: %s (%s)", act.Package.Fset.Position(d.Pos), d.Message, act.Analyzer.Name))
		}
	}
	return unique(found), nil
}

// outline reads what others may use of a file: its functions have no bodies.
func outline(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if f != nil {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				fn.Body = nil
			}
		}
	}
	return f, err
}

func unique(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}
