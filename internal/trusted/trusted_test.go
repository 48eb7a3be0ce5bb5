package trusted

import (
	"slices"
	"strings"
	"testing"
)

// example is a path that a name fits.
func example(name string) string {
	name = strings.ReplaceAll(strings.TrimSuffix(name, "/"), "**", "m")
	return strings.ReplaceAll(name, "*", "x")
}

// spellings are other names that some file system holds for the same.
func spellings(p string) []string {
	out := []string{strings.ToUpper(p), strings.ToTitle(p[:1]) + p[1:]}
	for _, r := range [][2]string{{"s", "\u017f"}, {"k", "\u212a"}, {"fi", "\ufb01"}, {"fl", "\ufb02"}, {"st", "\ufb06"}, {"ss", "\u00df"}} {
		if strings.Contains(p, r[0]) {
			out = append(out, strings.Replace(p, r[0], r[1], 1))
		}
	}
	for _, unseen := range []string{"\u200b", "\u200d", "\ufeff", "\u00ad", "\ufe0f"} {
		out = append(out, p[:1]+unseen+p[1:], p+unseen)
	}
	return append(out, p+".", p+" ", p+". .")
}

// Every name of the list is found, wherever it is and however it is spelt.
func TestEveryNameIsFound(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range list() {
		if n.By == "" || when(n.Category) == "" || n.Basis == "" || strings.ContainsAny(n.By+n.Name, "|`\n") ||
			!(strings.HasPrefix(n.Source, "https://") || n.Category == Own) || seen[n.Name] {
			t.Errorf("%+v: it says too little, or is there twice", n)
		}
		seen[n.Name] = true
		if strings.HasPrefix(n.Name, Repository) {
			continue
		}
		p := example(n.Name)
		paths := append(spellings(p), p, "a/"+p, "a/b c/d/"+p, strings.ToUpper(p), p+". ", `a\`+strings.ReplaceAll(p, "/", `\`), p+"::$DATA",
			"./"+p, "a/../"+p, "a\xff\xfe/"+p)
		if n.Care == Held {
			paths = append(paths, p+"/below", p+"/be/low", "x/"+p+"/y")
			if first, _, more := strings.Cut(p, "/"); more && !strings.HasPrefix(n.Name, ".git/") {
				paths = append(paths, first, "a/"+first) // a file, or a link, in the place of the directory
			}
		}
		for _, p := range paths {
			if _, found := Write(p); !found {
				t.Errorf("%s: %q is not found", n.Name, p)
			}
		}
		for _, other := range []string{p + "x", p + "\xff", "\xff" + p} { // bytes that are no text are a name of their own
			if name, found := Write(other); found && name == n && !strings.Contains(n.Name, "*") {
				t.Errorf("%s: %q is found", n.Name, other)
			}
		}
	}
}

func TestOrdinaryFilesAreFree(t *testing.T) {
	for _, p := range []string{
		"a.txt", "Makefile", "package.json", "package-lock.json", ".gitignore", "git/config", "src/head/x.go", "HEAD/x", "x/commondir/y",
		"AGENTS.md/x", "docs/AGENTS.txt",
		".yarn/cache/x", ".cargo/registry/x", ".config/other", "mise/main.go", "gradle/wrapper", ".direnv/python-3.12/x", "pnpm-lock.yaml",
		".env.example", "build.rs", "conftest.py", "",
	} {
		if n, found := Write(p); found {
			t.Errorf("%q is found as %s", p, n.Name)
		}
	}
	for dir, want := range map[string]bool{
		"/w/.git/x": true, "/w/.github": true, "/home/u/.config": false, "/w/HEAD": false,
		"/w/.vscode": true, "/w/AGENTS.md": false,
	} {
		if _, got := Within(dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
}

func TestWith(t *testing.T) {
	held, noted, asked := With(Held), With(Noted), With(Asked)
	if len(held)+len(noted)+len(asked) != len(list()) || !slices.Contains(held, ".envrc") || !slices.Contains(noted, "CLAUDE.md") ||
		!slices.Contains(asked, "HEAD") {
		t.Error(len(held), noted, asked)
	}
}

func FuzzWrite(f *testing.F) {
	f.Add(".git/modules/a/b/config")
	f.Add("a\xff/.envrc:x")
	f.Fuzz(func(t *testing.T, p string) {
		_, file := Write(p)
		if _, dir := Within(p); dir && !file {
			t.Errorf("%q is within a trusted directory and may be written", p)
		}
	})
}
