package layers

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mapped reads the first cells of the map in ARCHITECTURE.md. A name without its beginning stands
// beside the one before it: after `internal/sandbox`, `sandbox/cells` is in internal and `confine`
// in internal/sandbox.
func mapped(table string, there func(string) bool) (patterns, lost []string) {
	name := regexp.MustCompile("`((?:[a-z][a-z0-9_-]*/)*(?:[a-z][a-z0-9_-]*|\\*\\*))`")
	for _, r := range rows(table) {
		beside := []string{}
		for _, m := range name.FindAllStringSubmatch(r[0], -1) {
			at := m[1]
			for _, dir := range slices.Backward(beside) {
				if full := path.Join(dir, m[1]); there(strings.TrimSuffix(full, "/**")) {
					at = full
					break
				}
			}
			if strings.HasPrefix(at, "api/") {
				continue // no Go that anybody wrote
			}
			if !there(strings.TrimSuffix(at, "/**")) {
				lost = append(lost, m[1])
				continue
			}
			patterns = append(patterns, at)
			for dir := at; dir != "."; dir = path.Dir(dir) {
				beside = append(beside, path.Dir(dir), dir)
			}
			slices.SortStableFunc(beside, func(a, b string) int { return len(a) - len(b) })
		}
	}
	return patterns, lost
}

// unmapped finds packages that the map does not name, and names that lead nowhere. What only tests
// share stands with what it tests.
func unmapped(t *tree, table string) []string {
	dirs := map[string]bool{}
	for _, f := range t.files {
		for dir := f.dir; dir != "."; dir = path.Dir(dir) {
			dirs[dir] = dirs[dir] || dir == f.dir && !f.generated
		}
	}
	patterns, lost := mapped(table, func(dir string) bool { _, ok := dirs[dir]; return ok })
	var bad []string
	for _, l := range lost {
		bad = append(bad, fmt.Sprintf("the map names %s, which is not there", l))
	}
	for dir, isPackage := range dirs {
		if isPackage && !strings.HasSuffix(dir, "test") && matchesAny([]string{"internal/**", "client/**", "cmd/**"}, dir) &&
			!matchesAny(patterns, dir) {
			bad = append(bad, dir+" is not on the map of ARCHITECTURE.md")
		}
	}
	slices.Sort(bad)
	return bad
}

func TestTheMapIsTheTree(t *testing.T) {
	table := section(t, read(t, "ARCHITECTURE.md"), "The map")
	hold(t, func(tr *tree) []string { return unmapped(tr, table) })
}

func TestTheMapIsTheTreeFires(t *testing.T) {
	table := "| where | what |\n|---|---|\n| `internal/a`, `a/b`, `c` | `internal/z` is not of the first column |\n| " +
		"`internal/tool/**`, `d` | x |\n"
	rule := func(tr *tree) []string { return unmapped(tr, table) }
	src := "package x\n"
	all := func(more ...string) map[string]string {
		m := map[string]string{}
		for _, d := range append(more, "internal/a", "internal/a/b", "internal/a/c", "internal/tool/x", "internal/d") {
			m[d+"/x.go"] = src
		}
		return m
	}
	gone := all()
	delete(gone, "internal/d/x.go")
	fires(t, rule,
		plant{"as mapped", all(), nil},
		plant{"a new package", all("internal/e", "cmd/f", "bench/g", "internal/a/atest"), []string{"cmd/f", "internal/e"}},
		plant{"a new leaf", all("internal/a/h"), []string{"internal/a/h"}},
		plant{"one that went", gone, []string{"the map names d"}},
	)
}

// The layers that the page shows are those of the import table.
func TestTheLayersAreTheTable(t *testing.T) {
	text := section(t, read(t, "ARCHITECTURE.md"), "The layers")
	named := map[string]bool{}
	for _, w := range regexp.MustCompile(`[a-z][a-z0-9/]*`).FindAllString(text, -1) {
		named[w] = true
	}
	for _, dir := range slices.Concat(small, parts, storey) {
		if !named[dir] && !named[strings.TrimPrefix(dir, "internal/")] {
			t.Errorf("%s is in the table of imports and not in ARCHITECTURE.md's layers", dir)
		}
	}
}
