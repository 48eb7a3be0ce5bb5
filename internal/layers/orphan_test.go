package layers

import (
	"slices"
	"testing"
)

// alone are packages that nothing imports, each for a reason.
var alone = map[string]string{
	"internal/layers": "it has no code but its tests",
	"internal/e2e":    "it has no code but its tests",
}

// orphans finds packages that no code imports, on any system: what nothing imports does
// not run, and is carried for nothing.
func orphans(t *tree) []string {
	imported := map[string]bool{}
	for _, f := range t.files {
		if f.test && !matchesAny(support, f.dir) {
			continue
		}
		for imp := range f.imports() {
			if dir, ok := ours(imp); ok {
				imported[dir] = true
			}
		}
	}
	dirs, _ := t.packages()
	var bad []string
	for _, dir := range dirs {
		if !matches("internal/**", dir) || imported[dir] || alone[dir] != "" || matchesAny(support, dir) {
			continue
		}
		bad = append(bad, dir+" is imported by nothing")
	}
	slices.Sort(bad)
	return bad
}

func TestOrphans(t *testing.T) { hold(t, orphans) }

func TestOrphansFires(t *testing.T) {
	fires(t, orphans,
		plant{"a backend that nobody wires", map[string]string{
			"internal/sandbox/seat/seat.go": "package seat\n",
			"internal/daemon/daemon.go":     "package daemon\n",
			"cmd/palyrad/main.go":           "package main\n\nimport _ \"palyra/internal/daemon\"\n",
		}, []string{"internal/sandbox/seat"}},
		plant{"used by tests only", map[string]string{
			"internal/x/x.go":      "package x\n",
			"internal/y/y_test.go": "package y\n\nimport _ \"palyra/internal/x\"\n",
		}, []string{"internal/x"}},
		plant{"wired on one system", map[string]string{
			"internal/x/x.go":        "package x\n",
			"cmd/palyra/darwin.go":   "//go:build darwin\n\npackage main\n\nimport _ \"palyra/internal/x\"\n",
			"internal/a/atest/at.go": "package atest\n",
		}, nil},
	)
}
