// Command vettargets type-checks and vets every package of the product, tests included, for the systems and processors
// that are named: what is only compiled elsewhere must at least be right Go.
//
// Everything is read from source. "go vet" would first compile all that the product imports for each target, which takes
// minutes each; "make vet-targets" does that.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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
	var kept string
	flag.StringVar(&kept, "kept", "", "the file of what was found right before; none by default, and everything is judged")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: vettargets [-kept FILE] DIR GOOS/GOARCH…")
		os.Exit(2)
	}
	j, bad := newJudge(openStore(kept)), 0
	for _, target := range flag.Args()[1:] {
		found, err := j.vet(flag.Arg(0), target)
		if err != nil {
			found = append(found, err.Error())
		}
		for _, f := range found {
			fmt.Fprintf(os.Stderr, "%s: %s\n", target, f)
		}
		bad += len(found)
	}
	if err := j.kept.save(); err != nil {
		fmt.Fprintln(os.Stderr, "vettargets: not kept, and judged again next time:", err)
	}
	if bad > 0 {
		os.Exit(1)
	}
}

const (
	listMode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedEmbedFiles |
		packages.NeedImports | packages.NeedDeps | packages.NeedModule | packages.NeedForTest
	mode = listMode | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedSyntax
)

// judge vets for one target after another. Files are read once for all.
type judge struct {
	kept   *store
	judged int // packages that were not kept
	fset   *token.FileSet
	mu     sync.Mutex
	files  map[content]parsed
}

// content is a file as it was read.
type content struct {
	name string
	sum  [sha256.Size]byte
}

type parsed struct {
	file *ast.File
	err  error
}

func newJudge(kept *store) *judge {
	return &judge{kept: kept, fset: token.NewFileSet(), files: map[content]parsed{}}
}

// vet returns what is wrong with the packages of dir on target. What was right before, and is the same with all that it
// imports, is not judged again.
func (j *judge) vet(dir, target string) ([]string, error) {
	goos, arch, ok := strings.Cut(target, "/")
	dir, err := filepath.Abs(dir)
	if !ok || err != nil {
		return nil, fmt.Errorf("%q is no GOOS/GOARCH", target)
	}
	env := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOFLAGS=-mod=readonly")
	listed, keys, err := list(dir, env)
	if err != nil {
		return nil, err
	}
	var paths []string
	for id, p := range listed {
		if j.kept.has(keys[id]) {
			continue
		}
		path := p.PkgPath
		if p.ForTest != "" {
			path = p.ForTest
		}
		paths = append(paths, path)
	}
	if len(listed) == 0 {
		return nil, errors.New("there are no packages")
	}
	if len(paths) == 0 {
		return nil, nil
	}
	found, err := j.find(dir, env, unique(paths))
	if err != nil || len(found) > 0 {
		return found, err
	}
	// A file that was written meanwhile was judged as one thing or the other.
	_, after, err := list(dir, env)
	if err != nil {
		return nil, err
	}
	var right []string
	for id, key := range keys {
		if key != "" && after[id] == key {
			right = append(right, key)
		}
	}
	j.kept.add(right)
	return nil, nil
}

// find vets packages and their tests.
func (j *judge) find(dir string, env, paths []string) ([]string, error) {
	j.judged += len(paths)
	roots, err := packages.Load(&packages.Config{
		Mode: mode, Dir: dir, Tests: true, Env: env, Fset: j.fset,
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			return j.parse(strings.HasPrefix(name, dir+string(filepath.Separator)), fset, name, src)
		},
	}, paths...)
	if err != nil {
		return nil, err
	}
	roots = slices.DeleteFunc(roots, generated)
	var found []string
	packages.Visit(roots, nil, func(p *packages.Package) {
		own := p.Module != nil && p.Module.Main
		for _, e := range p.Errors {
			if own || e.Kind == packages.ListError {
				found = append(found, e.Error())
			}
		}
		p.IllTyped = false // bodies are left out of what is not ours: an import that only they use seems unused
	})
	if len(found) > 0 {
		return unique(found), nil
	}
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

// generated tells of the go command's own programs that run tests.
func generated(p *packages.Package) bool { return strings.HasSuffix(p.PkgPath, ".test") }

// parse reads a file that other targets have read too once.
func (j *judge) parse(ours bool, fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	key := content{name, sha256.Sum256(src)}
	j.mu.Lock()
	p, ok := j.files[key]
	j.mu.Unlock()
	if ok {
		return p.file, p.err
	}
	if ours {
		p.file, p.err = parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	} else {
		p.file, p.err = outline(fset, name, src)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.files[key] = p
	return p.file, p.err
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
