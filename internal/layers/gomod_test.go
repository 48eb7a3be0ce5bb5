package layers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// requirement is a line of go.mod.
type requirement struct {
	path     string
	indirect bool
	block    int
}

// requirements reads go.mod as far as it is needed here.
func requirements(text string) []requirement {
	var out []requirement
	block, inside := 0, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			block, inside = block+1, true
		case line == ")":
			inside = false
		case inside && line != "" && !strings.HasPrefix(line, "//"):
			path, rest, _ := strings.Cut(line, " ")
			out = append(out, requirement{path, strings.HasSuffix(rest, "// indirect"), block})
		}
	}
	return out
}

// tidy holds go.mod to what 'go mod tidy' makes of it, as far as that can be said without a network:
// what is imported is required and called direct, nothing else is, and each kind has one sorted block.
func tidy(t *tree, mod string) []string {
	all := requirements(mod)
	used := map[string]string{} // module → import
	var bad []string
	for _, f := range t.files {
		for imp := range f.imports() {
			if !outside(imp) {
				continue
			}
			best := ""
			for _, r := range all {
				if under(imp, r.path) && len(r.path) > len(best) {
					best = r.path
				}
			}
			if best == "" {
				bad = append(bad, fmt.Sprintf("%s imports %s, which go.mod does not require", f.name, imp))
				continue
			}
			used[best] = imp
		}
	}
	for i, r := range all {
		switch imp := used[r.path]; {
		case imp != "" && r.indirect:
			bad = append(bad, fmt.Sprintf("go.mod: %s is called indirect, and %s is imported", r.path, imp))
		case imp == "" && !r.indirect:
			bad = append(bad, fmt.Sprintf("go.mod: %s is called direct, and nothing imports it", r.path))
		}
		if i == 0 {
			continue
		}
		if was := all[i-1]; was.block == r.block && (was.indirect != r.indirect || was.path >= r.path) {
			bad = append(bad, fmt.Sprintf("go.mod: %s stands in the wrong place: run 'go mod tidy'", r.path))
		}
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}

func TestGoModIsTidy(t *testing.T) {
	mod := read(t, "go.mod")
	if len(requirements(mod)) < 20 {
		t.Fatal("go.mod was not read")
	}
	hold(t, func(tr *tree) []string { return tidy(tr, mod) })
}

func TestGoModIsTidyFires(t *testing.T) {
	mod := func(direct, indirect string) string {
		return "module palyra\n\ngo 1.26.0\n\nrequire (\n" + direct + ")\n\nrequire (\n" + indirect + ")\n"
	}
	a, b, c := "\texample.com/a v1.0.0\n", "\texample.com/b v1.0.0\n", "\texample.com/c v1.0.0 // indirect\n"
	src := map[string]string{"internal/x/x.go": "package x\n\nimport (\n\t_ \"example.com/a/sub\"\n\t_ \"example.com/b\"\n)\n"}
	try := func(name, mod string, want ...string) {
		fires(t, func(tr *tree) []string { return append(tidy(tr, mod), "end") }, plant{name, src, append(want, "end")})
	}
	try("tidy", mod(a+b, c))
	try("not sorted", mod(b+a, c), "example.com/a stands in the wrong place")
	try("twice", mod(a+b, c+c), "example.com/c stands in the wrong place")
	try("missing", mod(a, c), "imports example.com/b, which go.mod does not require")
	try("direct among the indirect", mod(a, b+c), "example.com/c stands in the wrong place")
	try("not used", mod(a+b+"\texample.com/d v1.0.0\n", c), "example.com/d is called direct, and nothing imports it")
	try("called indirect", mod(a, "\texample.com/b v1.0.0 // indirect\n"+c), "example.com/b is called indirect")
}
