package layers

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// collisions are words that more than one package declares as a type, with the number of packages: a
// list that only falls. A package that gives the word its meaning counts as well.
var collisions = map[string]int{
	"backend": 2, // the drivers' interface, and tier C's
	"keeper":  3, // what tiers share, and that of each
	"door":    2, // the daemon's, and which one a client comes to
	"room":    2,
	"session": 2,
	"tool":    2,
}

var defined = regexp.MustCompile(`\*\*([a-z]+)\*\*: `)

// glossary returns the words of docs/words.md.
func glossary(doc string) []string {
	var out []string
	for _, m := range defined.FindAllStringSubmatch(doc, -1) {
		out = append(out, m[1])
	}
	return out
}

// homes finds the packages that declare a word as a type. An alias is the same type, and the
// independent checker shares nothing with anybody.
func homes(t *tree, words []string) map[string][]string {
	out := map[string][]string{}
	for _, f := range t.code() {
		if f.suite() || f.dir == "cmd/palyra-verify" {
			continue
		}
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				ts := s.(*ast.TypeSpec)
				word := strings.ToLower(ts.Name.Name)
				if !ts.Assign.IsValid() && slices.Contains(words, word) && !slices.Contains(out[word], f.dir) {
					out[word] = append(out[word], f.dir)
				}
			}
		}
	}
	return out
}

// collide finds words that are declared as a type in more places than they may be.
func collide(t *tree, doc string, most map[string]int) []string {
	words := glossary(doc)
	var bad []string
	found := homes(t, words)
	for _, w := range slices.Sorted(maps.Keys(found)) {
		dirs := found[w]
		switch ceiling := max(1, most[w]); {
		case len(dirs) > ceiling:
			bad = append(bad, fmt.Sprintf("%s is a type in %d packages, at most %d: %v", w, len(dirs), ceiling, dirs))
		case len(dirs) < ceiling:
			bad = append(bad, fmt.Sprintf("%s is a type in %d packages: lower its %d", w, len(dirs), ceiling))
		}
	}
	for _, w := range slices.Sorted(maps.Keys(most)) {
		if found[w] == nil {
			bad = append(bad, w+" collides no more: take it off the list")
		}
	}
	return bad
}

func TestAWordIsOneType(t *testing.T) {
	doc := read(t, "docs/words.md")
	words := glossary(doc)
	if len(words) < 40 {
		t.Errorf("only %d words", len(words))
	}
	if sorted := slices.Sorted(slices.Values(words)); len(slices.Compact(sorted)) != len(words) {
		t.Error("a word is explained twice")
	}
	hold(t, func(tr *tree) []string { return collide(tr, doc, collisions) })
	for _, name := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		if !strings.Contains(read(t, name), "docs/words.md") {
			t.Errorf("%s does not lead to the words", name)
		}
	}
}

// typedWords finds types of the root whose values are words or numbers, and that docs/words.md does
// not explain: in bold, or by the type's name.
func typedWords(t *tree, doc string) []string {
	words := glossary(doc)
	var bad []string
	for _, f := range t.code() {
		if f.dir != "." {
			continue
		}
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				ts := s.(*ast.TypeSpec)
				of, plain := ts.Type.(*ast.Ident)
				name := ts.Name.Name
				if !plain || ts.Assign.IsValid() || !ts.Name.IsExported() || of.IsExported() && of.Name != "ID" {
					continue
				}
				if !slices.Contains(words, strings.ToLower(name)) && !strings.Contains(doc, "`"+name+"`") {
					bad = append(bad, fmt.Sprintf("%s: docs/words.md does not say what %s is", t.where(f, ts), name))
				}
			}
		}
	}
	return bad
}

func TestTypedWordsAreExplained(t *testing.T) {
	doc := read(t, "docs/words.md")
	hold(t, func(tr *tree) []string { return typedWords(tr, doc) })
	fires(t, func(tr *tree) []string { return typedWords(tr, "- **tier**: where.\n- `LeaseEnd`: why.\n") },
		plant{"all explained", map[string]string{"a.go": "package palyra\n\ntype Tier string\n\ntype LeaseEnd string\n"}, nil},
		plant{"one is not", map[string]string{"a.go": "package palyra\n\ntype Hold string\n"}, []string{"what Hold is"}},
		plant{"an id is not", map[string]string{"a.go": "package palyra\n\ntype CallID ID\n"}, []string{"what CallID is"}},
		plant{"elsewhere", map[string]string{"internal/a/a.go": "package a\n\ntype Hold string\n"}, nil},
	)
}

// wordsLinked: the packages that give words their meaning say where the words are.
func wordsLinked(t *tree) []string {
	var bad []string
	dirs, byDir := t.packages()
	for _, dir := range dirs {
		if dir != "." && dir != "internal/gate" && dir != "internal/run" && !slices.Contains(parts, dir) {
			continue
		}
		if !slices.ContainsFunc(byDir[dir], func(f *file) bool { return strings.Contains(f.ast.Doc.Text(), "docs/words.md") }) {
			bad = append(bad, dir+": the package comment does not lead to docs/words.md")
		}
	}
	return bad
}

func TestPackagesLeadToTheWords(t *testing.T) {
	hold(t, wordsLinked)
	fires(t, wordsLinked,
		plant{
			"a part that does",
			map[string]string{"internal/journal/j.go": "// Package journal keeps. Words: docs/words.md.\npackage journal\n"},
			nil,
		},
		plant{
			"a part that does not",
			map[string]string{"internal/journal/j.go": "// Package journal keeps.\npackage journal\n"},
			[]string{"internal/journal: the package comment"},
		},
		plant{"no part", map[string]string{"internal/ulid/u.go": "// Package ulid makes ids.\npackage ulid\n"}, nil},
	)
}

func TestAWordIsOneTypeFires(t *testing.T) {
	doc := "# Words\n\n- **room**: namespaces. **door**: a listener.\n- **plan**: what decides.\n"
	src := func(name string) string { return "package x\n\ntype " + name + " struct{}\n" }
	rule := func(tr *tree) []string { return collide(tr, doc, map[string]int{"door": 2}) }
	door := map[string]string{"internal/a/a.go": src("Door"), "internal/b/b.go": src("door")}
	with := func(more map[string]string) map[string]string {
		all := maps.Clone(door)
		maps.Copy(all, more)
		return all
	}
	fires(t, rule,
		plant{"as listed", door, nil},
		plant{
			"a second room", with(map[string]string{"internal/c/c.go": src("Room"), "internal/d/d.go": src("room")}),
			[]string{"room is a type in 2 packages"},
		},
		plant{"a third door", with(map[string]string{"internal/c/c.go": src("door")}), []string{"door is a type in 3 packages, at most 2"}},
		plant{"a door that went", map[string]string{"internal/a/a.go": src("Door")}, []string{"lower its 2"}},
		plant{"no door at all", map[string]string{"internal/a/a.go": src("Plan")}, []string{"take it off the list"}},
		plant{"an alias", with(map[string]string{"plan.go": src("Plan"), "client/c.go": "package client\n\ntype Plan = int\n"}), nil},
		plant{"a test's", with(map[string]string{"plan.go": src("Plan"), "internal/c/c_test.go": src("plan")}), nil},
	)
}
