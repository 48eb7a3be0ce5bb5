package layers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A package is read as a whole: at most this many lines of code, tests not counted. The aim is 2,500.
const packageLines = 4000

// wiringLines is what the daemon may have: it names the parts and puts them together, and thinking is done elsewhere.
const wiringLines = 2000

// overgrown are packages over that, with the lines that they may have: a ceiling that only falls.
var overgrown = map[string]int{
	".":                            4150,
	"internal/sandbox/sandboxtest": 4300,
}

// room is how far a ceiling may be above what is there before it has to come down.
const room = 400

// packageSizes holds packages to their size, and ceilings to what is there.
func packageSizes(t *tree) []string { return sizes(t, overgrown) }

func sizes(t *tree, overgrown map[string]int) []string {
	dirs, byDir := t.packages()
	var bad []string
	for _, dir := range dirs {
		n := 0
		for _, f := range byDir[dir] {
			n += f.lines()
		}
		switch most := overgrown[dir]; {
		case dir == "internal/daemon" && n > wiringLines:
			bad = append(bad, fmt.Sprintf("%s: %d lines, at most %d: it only wires, so what thinks belongs to a part or a storey", dir, n, wiringLines))
		case most == 0 && n > packageLines:
			bad = append(bad, fmt.Sprintf("%s: %d lines in a package, at most %d", dir, n, packageLines))
		case most != 0 && n > most:
			bad = append(bad, fmt.Sprintf("%s: %d lines, at most the %d it had: it may only shrink", dir, n, most))
		case most != 0 && n <= packageLines:
			bad = append(bad, fmt.Sprintf("%s: %d lines: take it off the list of overgrown packages", dir, n))
		case most > n+room:
			bad = append(bad, fmt.Sprintf("%s: %d lines: lower its ceiling of %d", dir, n, most))
		}
	}
	return bad
}

// A line is read at a glance: at most this many columns. The aim is 120.
const columns = 140

// Lines over that in code and in tests: ceilings that only fall.
const (
	wideCode  = 780
	wideTests = 1730
)

// wideLines counts lines that are too long to be read.
func wideLines(t *tree) []string {
	var count [2]int
	byDir := [2]map[string]int{{}, {}}
	for _, f := range t.files {
		if f.generated {
			continue
		}
		kind := 0
		if f.test {
			kind = 1
		}
		for line := range strings.Lines(string(f.src)) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > columns {
				count[kind]++
				byDir[kind][f.dir]++
			}
		}
	}
	return append(wide("code", count[0], wideCode, byDir[0]), wide("tests", count[1], wideTests, byDir[1])...)
}

func wide(what string, n, most int, byDir map[string]int) []string {
	switch {
	case n > most:
		dirs := slices.SortedFunc(maps.Keys(byDir), func(a, b string) int {
			return cmp.Or(cmp.Compare(byDir[b], byDir[a]), strings.Compare(a, b))
		})
		return []string{fmt.Sprintf("%s: %d lines over %d columns, at most %d; most of them in %v", what, n, columns, most, dirs[:min(5, len(dirs))])}
	case n < most-150 && n > 0:
		return []string{fmt.Sprintf("%s: %d lines over %d columns: lower the ceiling of %d", what, n, columns, most)}
	}
	return nil
}

func TestPackageSizes(t *testing.T) { hold(t, packageSizes) }
func TestWideLines(t *testing.T)    { hold(t, wideLines) }

func TestPackageSizesFires(t *testing.T) {
	const grown, ceiling = "internal/grown", 5000
	rule := func(t *tree) []string { return sizes(t, map[string]int{grown: ceiling}) }
	halves := func(dir string, n int) map[string]string {
		out := map[string]string{dir + "/test_test.go": "package x" + lines(700)}
		for i := range 10 {
			out[fmt.Sprintf("%s/f%d.go", dir, i)] = "package x" + lines(n/10)
		}
		return out
	}
	fires(t, rule,
		plant{"too large", halves("internal/x", 4010), []string{"internal/x: 4010 lines in a package"}},
		plant{"large enough", halves("internal/x", 4000), nil},
		plant{"the daemon thinks", halves("internal/daemon", 2010), []string{"it only wires"}},
		plant{"the daemon wires", halves("internal/daemon", 2000), nil},
		plant{"one on the list grew", halves(grown, ceiling+10), []string{"it may only shrink"}},
		plant{"one on the list fell", halves(grown, 3990), []string{"take it off the list"}},
		plant{"one on the list shrank", halves(grown, ceiling-room-10), []string{"lower its ceiling"}},
		plant{"one on the list as it was", halves(grown, ceiling), nil},
	)
}

func TestWideLinesFires(t *testing.T) {
	long := func(n int) string {
		return "package x\n\n" + strings.Repeat("// "+strings.Repeat("ä", columns-2)+"\n", n)
	}
	short := "package x\n\n" + strings.Repeat("// "+strings.Repeat("ä", columns-3)+"\n", wideCode+1)
	fires(t, wideLines,
		one("too many", "internal/x/x.go", long(wideCode+1), "most of them in [internal/x]"),
		one("too many in tests", "internal/x/x_test.go", long(wideTests+1), "tests: "),
		one("fewer than there were", "internal/x/x.go", long(10), "lower the ceiling"),
		one("as many as there were", "internal/x/x.go", long(wideCode)),
		one("just short enough", "internal/x/x.go", short),
		one("generated", "internal/x/x.go", "// Code generated by x. DO NOT EDIT.\n\n"+long(wideCode+1)),
	)
}
