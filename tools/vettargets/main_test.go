package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong on one system only is found there, in code and in tests, and nowhere else.
func TestVet(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"go.mod":            "module x\n\ngo 1.24\n",
		"x.go":              "package x\n\nimport \"fmt\"\n\nfunc say() { fmt.Println(word()) }\n",
		"x_linux.go":        "package x\n\nfunc word() string { return \"a\" }\n",
		"x_darwin.go":       "package x\n\nimport \"fmt\"\n\nfunc word() string { return fmt.Sprintf(\"%d\", \"a\") }\n",
		"x_windows.go":      "package x\n\nfunc word() string { return 1 }\n",
		"x_linux_test.go":   "package x\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { say() }\n",
		"x_arm64_test.go":   "package x\n\nimport \"testing\"\n\nfunc TestY(t *testing.T) { missing() }\n",
		"other/o_darwin.go": "package other\n",
	})
	for target, want := range map[string]string{
		"linux/amd64": "", "darwin/amd64": "wrong type", "windows/amd64": "cannot use 1", "linux/arm64": "undefined: missing",
	} {
		found, err := newJudge(openStore("")).vet(dir, target)
		if err != nil {
			t.Fatal(target, err)
		}
		if got := strings.Join(found, "\n"); len(found) > 1 || !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, not %q", target, got, want)
		}
	}
	if _, err := newJudge(openStore("")).vet(dir, "plan9"); err == nil {
		t.Error("half a target")
	}
	if found, err := newJudge(openStore("")).vet(dir, "no/such"); err == nil && len(found) == 0 {
		t.Error("a target that is none has no faults")
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// right is a module that nothing is wrong with: b imports a, a test of b imports it too, and alone stands alone.
var right = map[string]string{
	"go.mod":            "module x\n\ngo 1.24\n",
	"a/a.go":            "package a\n\nfunc Word() string { return \"a\" }\n",
	"a/a_windows.go":    "package a\n\nfunc Other() {}\n",
	"a/a.s":             "",
	"b/b.go":            "package b\n\nimport (\n\t\"fmt\"\n\t\"x/a\"\n)\n\nfunc Say() { fmt.Printf(\"%s\", a.Word()) }\n",
	"b/b_test.go":       "package b_test\n\nimport (\n\t\"testing\"\n\t\"x/b\"\n)\n\nfunc TestSay(*testing.T) { b.Say() }\n",
	"b/inside_test.go":  "package b\n\nvar said = Say\n",
	"alone/alone.go":    "package alone\n\nimport _ \"embed\"\n\n//go:embed text\nvar text string\n",
	"alone/text":        "text",
	"alone/alone_on.go": "//go:build never\n\npackage alone\n",
}

// judged vets a module as one run of the program does, and returns how many packages it judged and what it found.
func judged(t *testing.T, dir, kept string) (int, string) {
	t.Helper()
	j := newJudge(openStore(kept))
	found, err := j.vet(dir, "linux/arm64")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.kept.save(); err != nil {
		t.Fatal(err)
	}
	return j.judged, strings.Join(found, "\n")
}

// What is right is judged once. Each mistake that is made afterwards is found, in whatever file it is made and whatever
// package it breaks, by every run until it is mended; what it cannot have touched is not judged again.
func TestMistakesAfterSuccess(t *testing.T) {
	clean, first := t.TempDir(), filepath.Join(t.TempDir(), "cache", "kept")
	write(t, clean, right)
	for _, want := range []int{3, 0} {
		if n, found := judged(t, clean, first); n != want || found != "" {
			t.Fatalf("judged %d packages, not %d: %s", n, want, found)
		}
	}
	success, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file, text, want string
		judged           int
	}{
		"code":             {"a/a.go", "package a\n\nfunc Word() string { return 1 }\n", "cannot use 1", 2},
		"what others use":  {"a/a.go", "package a\n\nfunc Word() int { return 1 }\n", "wrong type int", 2},
		"gone":             {"a/a.go", "package a\n", "undefined: a.Word", 2},
		"a new file":       {"a/new.go", "package a\n\nfunc Word() string { return \"b\" }\n", "redeclared", 2},
		"a test":           {"b/b_test.go", "package b_test\n\nimport \"testing\"\n\nfunc Testsay(*testing.T) {}\n", "malformed name", 1},
		"a test inside":    {"b/inside_test.go", "package b\n\nvar said = Sai\n", "undefined: Sai", 1},
		"not compiled":     {"alone/alone_on.go", "package alone\n\n//go:build never\n", "misplaced", 1},
		"not Go":           {"a/a.s", "TEXT ·Word(SB), 0, $0-8\n\tRET\n", "Word", 2},
		"a new package":    {"c/c.go", "package c\n\nimport \"x/d\"\n", "x/d", 1},
		"not to be listed": {"alone/alone.go", "package alone\n\nimport _ \"embed\"\n\n//go:embed gone\nvar text string\n", "gone", 1},
		"the module":       {"go.mod", "module y\n\ngo 1.24\n", "x/a", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, kept := t.TempDir(), filepath.Join(t.TempDir(), "kept")
			if err := os.WriteFile(kept, success, 0o600); err != nil {
				t.Fatal(err)
			}
			write(t, dir, right)
			write(t, dir, map[string]string{c.file: c.text})
			if n, found := judged(t, dir, kept); n != c.judged || !strings.Contains(found, c.want) {
				t.Fatalf("judged %d packages, not %d, and found %q, not %q", n, c.judged, found, c.want)
			}
			if name != "code" {
				return
			}
			if n, found := judged(t, dir, kept); n != c.judged || !strings.Contains(found, c.want) {
				t.Fatalf("again: judged %d packages, not %d, and found %q, not %q", n, c.judged, found, c.want)
			}
			write(t, dir, right)
			if n, found := judged(t, dir, kept); n != 0 || found != "" {
				t.Fatalf("mended: judged %d packages: %s", n, found)
			}
		})
	}
}

// Keys are of a target, of this program and of nothing that can be made up from a damaged file.
func TestKept(t *testing.T) {
	dir, kept := t.TempDir(), filepath.Join(t.TempDir(), "kept")
	write(t, dir, right)
	if n, found := judged(t, dir, kept); n != 3 || found != "" {
		t.Fatal(n, found)
	}
	j := newJudge(openStore(kept))
	if found, err := j.vet(dir, "windows/amd64"); err != nil || len(found) > 0 || j.judged != 3 {
		t.Errorf("another target: judged %d, %v, %v", j.judged, found, err)
	}
	text, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]string{
		"cut": string(text[:len(text)/2]), "lines of nothing": strings.Repeat("\n", 100), "none": "", "no text": "\x00\xff",
	} {
		if err := os.WriteFile(kept, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, found := judged(t, dir, kept); n == 0 || found != "" {
			t.Errorf("%s: judged %d: %s", name, n, found)
		}
	}
	s := openStore("")
	if s.has("") {
		t.Error("a package without a key is right")
	}
}

// The store does not grow: what was of no use for longest goes.
func TestMost(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept")
	key := func(n int) string { return fmt.Sprintf("%064x", n) }
	s := openStore(kept)
	for n := range most {
		s.add([]string{key(n)})
	}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	s = openStore(kept)
	if !s.has(key(7)) {
		t.Fatal("one of the most is gone")
	}
	s.add([]string{key(most)})
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	s = openStore(kept)
	if len(s.keys) != most || !s.has(key(7)) || !s.has(key(most)) {
		t.Errorf("%d of %d are kept", len(s.keys), most)
	}
}
