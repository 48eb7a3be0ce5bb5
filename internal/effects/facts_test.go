package effects

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
)

// changed makes changes of words: +a is a new file, -a one that is gone, ~a one that has another content, +a/ a new
// directory, +a>b a new link, +a* a new program, %a another mode,
// =a>b a directory in the place of a link.
func changed(words ...string) (all []palyra.Change) {
	slices.SortFunc(words, func(a, b string) int { return strings.Compare(a[1:], b[1:]) })
	for _, w := range words {
		name, target, link := strings.Cut(w[1:], ">")
		s := &palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Size: 10, Digest: "sha256:x"}
		switch {
		case link:
			s = &palyra.PathState{Kind: palyra.PathLink, Target: palyra.TextOfPath(target)}
		case strings.HasSuffix(name, "/"):
			name, s = strings.TrimSuffix(name, "/"), &palyra.PathState{Kind: palyra.PathDirectory, Mode: 0o755}
		case strings.HasSuffix(name, "*"):
			name, s.Mode = strings.TrimSuffix(name, "*"), 0o755
		}
		c := palyra.Change{Path: palyra.TextOfPath(name), Now: s}
		was := *s
		switch w[0] {
		case '-':
			c.Was, c.Now = s, nil
		case '~':
			was.Digest = "sha256:y"
			c.Was = &was
		case '=':
			c.Was, c.Now = s, &palyra.PathState{Kind: palyra.PathDirectory, Mode: 0o755}
		case '%':
			was.Mode = 0o600
			c.Was = &was
		}
		c.Kind = KindOf(c.Was, c.Now)
		all = append(all, c)
	}
	return all
}

// before is a workspace with links and files.
func before(entries ...string) Before {
	links, names := map[string]string{}, map[string]bool{}
	for _, e := range entries {
		name, to, link := strings.Cut(e, ">")
		names[name] = true
		if link {
			links[name] = to
		}
	}
	return Before{
		Path: "/w", Exists: func(n string) bool { return names[n] },
		Link: func(n string) (string, bool) { to, ok := links[n]; return to, ok },
		Links: func(each func(name, to string)) bool {
			for name, to := range links {
				each(name, to)
			}
			return true
		},
	}
}

func factsOf(t testing.TB, w Before, all []palyra.Change) palyra.EffectFacts {
	t.Helper()
	e, _, err := List(all)
	if err != nil {
		t.Fatal(err)
	}
	return FactsOf(e, all, 0, w)
}

// Names that other programs obey are found wherever they really are, and ordinary work is not among them.
func TestTrustedNames(t *testing.T) {
	for _, c := range []struct {
		words  string
		before []string
		want   string
	}{
		{"+.envrc", nil, ".envrc"},
		{"~.github/workflows/a.yml +src/a.go", nil, ".github/workflows/a.yml"},
		{"-.git/hooks/pre-commit", nil, ".git/hooks/pre-commit"},
		{"%.git/hooks/pre-commit", nil, ".git/hooks/pre-commit"},
		{"~.git/config ~.git/index +.git/objects/ab/cd ~.git/HEAD ~.git/refs/heads/main +.git/COMMIT_EDITMSG", nil, ".git/config"},
		{"~.git/index +.git/refs/heads/hooks +.git/logs/refs/heads/config", nil, ""},
		{"+.GIT/Hooks/x", nil, ".GIT/Hooks/x"},
		{"+sub/.git/", nil, "sub/.git"},
		{"+sub/.git", nil, "sub/.git"},
		{"~sub/.git", nil, "sub/.git"},
		{"+.git/objects>../o +.git/objects2/ +o/ab/cd", nil, ".git/objects"},
		{"+.git>elsewhere", nil, ".git"},
		{"%.git/", nil, ""},
		{"+.cargo>x +x/config.toml", nil, ".cargo"},
		{"+.github>x", nil, ".github"},
		{"-.github>x", nil, ".github"},
		{"+.git/rebase-merge/git-rebase-todo", nil, ".git/rebase-merge/git-rebase-todo"},
		{"~.git/sequencer/todo", nil, ".git/sequencer/todo"},
		{"+.git/modules/a/b/hooks/x", nil, ".git/modules/a/b/hooks/x"},
		{"+.git/modules/a>x", nil, ".git/modules/a"},
		{"+node_modules/a/.github/workflows/x.yml +node_modules/a/.vscode/tasks.json", nil, ""},
		{"+node_modules/a/.git/hooks/x", nil, "node_modules/a/.git/hooks/x"},
		{"+a>node_modules/a +node_modules/a/.vscode/tasks.json", nil, "a"},
		{"+node_modules/.bin/x>../x/cli.js", nil, ""},
		{"+d/HEAD +d/objects/ +d/refs/", nil, "d/HEAD d/objects d/refs"},
		{"+d/HEAD", []string{"d/objects", "d/refs"}, "d/HEAD"},
		{"+d/HEAD", []string{"d/objects"}, ""},
		{"+d/commondir", []string{"d/HEAD"}, "d/commondir"},
		{"+HEAD +objects/ +refs/", nil, "HEAD objects refs"},
		{"~d/config", []string{"d/HEAD", "d/objects", "d/refs"}, "d/config"},
		{"~d/config", nil, ""},
		{"+d/hooks/post-update*", []string{"d/HEAD", "d/objects", "d/refs"}, "d/hooks/post-update"},
		{"~package.json ~Makefile +src/config +HEAD.txt ~.gitignore ~.env", nil, ""},
		{"+.envrc\xff +a\xff/.envrc", nil, "a\xff/.envrc"},
	} {
		f := factsOf(t, before(c.before...), changed(strings.Fields(c.words)...))
		var want []palyra.PathText
		for _, n := range strings.Fields(c.want) {
			want = append(want, palyra.TextOfPath(n))
		}
		if !slices.Equal(f.Trusted, want) {
			t.Errorf("%q: %q, want %q", c.words, f.Trusted, want)
		}
	}
}

// Links that lead out are found however they do it.
func TestOutwardLinks(t *testing.T) {
	for _, c := range []struct {
		words  string
		before []string
		want   string
	}{
		{"+out>/", nil, "out"},
		{"+out>/etc/passwd", nil, "out"},
		{"+out>/w", nil, ""},
		{"+out>/w/a/b", nil, ""},
		{"+out>/wide", nil, "out"},
		{"+out>/w/../etc", nil, "out"},
		{"+out>//w", nil, "out"},
		{"+a/out>..", nil, ""},
		{"+a/out>../..", nil, "a/out"},
		{"+a/out>../b/c", nil, ""},
		{"+a/out>../b/../../x", nil, "a/out"},
		{"+a>b/x +b>/etc", nil, "a b"},
		{"+a>b/..", []string{"b>/etc/ssh"}, "a"},
		{"+a>/w/b/..", []string{"b>/etc/ssh"}, "a"},
		{"+a>b/..", []string{"b>c/d"}, "a"}, // b may become something else
		{"+a>b/../..", []string{"b>c/d"}, "a"},
		{"+a>/w/b/..", []string{"b>c/d"}, "a"},
		{"+x/y/z/ +d>x/y/z +a>d/../../../N", nil, "a"},
		{"-d>x/y/z", []string{"d>x/y/z", "a>d/../../../N"}, "a"},
		{"=d>x/y/z", []string{"d>x/y/z", "a>d/../../../N", "b>d/../c", "c>a/x"}, "a b"},
		{"=d>x/y/z", []string{"d>x/y/z", "a>/w/d/../../../N", "usr>/usr", "up>../other"}, "a"},
		{"+d>x", []string{"a>d/../../N"}, "a"},
		{"+s/t/x>../..", []string{"s/a>t/x/../N"}, "s/a"},
		{"+d>x/y/z", []string{"a>d/../../../N"}, ""},
		{"+n>x -m>y", []string{"d>x/y/z", "a>d/../../../N", "venv/bin/python>/usr/bin/python3", "round>round", "up>../other"}, ""},
		{"+d/", []string{"venv/bin/python>/usr/bin/python3"}, ""},
		{"+a>b/../../..", []string{"b>c/d"}, "a"},
		{"+a>b -b>/etc", []string{"b>/etc"}, ""},
		{"+a>a", nil, "a"},
		{"+a>b +b>a", nil, "a b"},
		{"-a>/etc", nil, ""},
		{"+bin/python>/usr/bin/python3", nil, "bin/python"},
		{"+lib64>lib", nil, ""},
		{"+a\xfe>../\xff", nil, "a\xfe"},
	} {
		f := factsOf(t, before(c.before...), changed(strings.Fields(c.words)...))
		var want []palyra.PathText
		for _, n := range strings.Fields(c.want) {
			want = append(want, palyra.TextOfPath(n))
		}
		if !slices.Equal(f.Outward, want) {
			t.Errorf("%q: %q, want %q", c.words, f.Outward, want)
		}
	}
}

// A link to a program of the system leads no writes anywhere, directly or by way of another; anything else does.
func TestLinksToPrograms(t *testing.T) {
	for words, want := range map[string]string{
		"+v/bin/python>python3 +v/bin/python3>/usr/bin/env":  "[]",
		"+v/bin/python>python3 +v/bin/python3>/etc/passwd":   "[v/bin/python v/bin/python3]",
		"+x>/usr/bin/../bin/env":                             "[x]",
		"+x>/usr/bin":                                        "[x]",
		"+x>/usr/bin/there-is-no-such-program":               "[x]",
		"+x>/etc/shadow":                                     "[x]",
		"+a>/usr/bin/env +b>a/../../../home +c>b":            "[b c]",
		"+x>" + filepath.Join(t.TempDir(), "env") + " +y>/w": "[x]",
	} {
		w := before()
		w.System = OfSystem
		if f := factsOf(t, w, changed(strings.Fields(words)...)); fmt.Sprint(f.Outward) != want {
			t.Errorf("%q: %q, want %s", words, f.Outward, want)
		}
	}
	own := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(own, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if OfSystem(own) || OfSystem("/usr") || OfSystem("/usr/bin") || OfSystem("") || OfSystem("usr/bin/env") {
		t.Error("taken for a program of the system")
	}
}

// What is counted, what builds run, and that nothing hides behind a bound.
func TestFacts(t *testing.T) {
	f := factsOf(t, Before{}, changed("+a", "~b", "-c", "-d/", "+e*", "%f*", "+g>x", "~package.json", "+node_modules/x/package.json",
		"-Makefile", "+web/vite.config.ts", "+vite.config.txt"))
	if f.RemovedFiles != 2 || f.Executables != 2 || f.Share != -1 || f.Bytes != 70 || f.Created != 6 || f.Mode != 1 || f.Omitted != 0 {
		t.Errorf("%+v", f)
	}
	if fmt.Sprint(f.RunByTools) != "[package.json web/vite.config.ts]" {
		t.Errorf("%q", f.RunByTools)
	}
	var words []string
	for i := range 1000 {
		words = append(words, fmt.Sprintf("+p%04d/.envrc", i), fmt.Sprintf("+q%04d>/etc", i), fmt.Sprintf("+r%04d/package.json", i))
	}
	f = factsOf(t, Before{}, changed(words...))
	if len(f.Trusted) != most || len(f.Outward) != most || len(f.RunByTools) != most || f.Omitted != 2*(1000-most) ||
		f.Trusted[0] != "p0000/.envrc" {
		t.Errorf("%d %d %d %d", len(f.Trusted), len(f.Outward), len(f.RunByTools), f.Omitted)
	}
	w := Before{Obeyed: func(names []string) []string { return names[1:] }}
	if f = factsOf(t, w, changed("+a", "+b", "+b/.envrc")); fmt.Sprint(f.Trusted) != "[b b/.envrc]" {
		t.Errorf("%q", f.Trusted)
	}
}

// A file is gone however its content went: removed, emptied, or with something else in its place.
func TestGoneHoweverItWent(t *testing.T) {
	file := &palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Size: 5, Digest: "sha256:x"}
	other := &palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Size: 1, Digest: "sha256:y"}
	empty := &palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Digest: "sha256:z"}
	dir := &palyra.PathState{Kind: palyra.PathDirectory, Mode: 0o755}
	link := &palyra.PathState{Kind: palyra.PathLink, Target: "a"}
	for _, c := range []struct {
		name     string
		was, now *palyra.PathState
		gone     int64
	}{
		{"removed", file, nil, 1},
		{"an empty one removed", empty, nil, 1},
		{"emptied", file, empty, 1},
		{"a directory in its place", file, dir, 1},
		{"a link in its place", file, link, 1},
		{"a link removed", link, nil, 1},
		{"a directory in the place of a link", link, dir, 1},
		{"edited", file, other, 0},
		{"empty before", empty, other, 0},
		{"a link that leads elsewhere", link, &palyra.PathState{Kind: palyra.PathLink, Target: "b"}, 0},
		{"a file in the place of a link", link, file, 0},
		{"a directory removed", dir, nil, 0},
		{"made", nil, empty, 0},
	} {
		all := []palyra.Change{{Path: "p", Kind: KindOf(c.was, c.now), Was: c.was, Now: c.now}}
		f := factsOf(t, Before{}, all)
		if f.RemovedFiles != c.gone {
			t.Errorf("%s: %d, want %d", c.name, f.RemovedFiles, c.gone)
		}
		told := strings.Contains(strings.Join(Describe(f, all).Notes, "\n"), "removes or empties a file that was there before: p")
		if told != (c.gone == 1) {
			t.Errorf("%s: told %v", c.name, told)
		}
	}
}

// Whatever a run calls its files and wherever its links lead: the facts come to an end, their lists are bounded, and a
// name of the list that is new at the top is among them.
func FuzzFacts(f *testing.F) {
	f.Add("a", "b", "../..")
	f.Add(".git/hooks", "a/../b", "/w/../x")
	f.Add("\xff/.git", "..", "a")
	f.Fuzz(func(t *testing.T, a, b, to string) {
		all := []palyra.Change{}
		for i, name := range []string{a, b, ".envrc"} {
			s := &palyra.PathState{Kind: palyra.PathLink, Target: palyra.TextOfPath(to)}
			if i > 0 {
				s = &palyra.PathState{Kind: palyra.PathFile}
			}
			all = append(all, palyra.Change{Path: palyra.TextOfPath(name), Kind: palyra.ChangeCreated, Now: s})
		}
		facts := FactsOf(palyra.Effects{Created: 3}, all, 0, Before{Path: "/w", Link: func(string) (string, bool) { return to, len(to) > 3 }})
		if !slices.Contains(facts.Trusted, ".envrc") || len(facts.Outward) > 1 || facts.Omitted != 0 {
			t.Fatalf("%+v", facts)
		}
	})
}

// A file that nobody read counts as not listed: nobody can judge what it does.
func TestUnreadFilesAreOmitted(t *testing.T) {
	file := func(size int64, digest string) *palyra.PathState {
		return &palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Size: size, Digest: palyra.Digest(digest)}
	}
	all := []palyra.Change{
		{Path: "a", Kind: palyra.ChangeCreated, Now: file(1<<40, "")},
		{Path: "b", Kind: palyra.ChangeContent, Was: file(3, ""), Now: file(3, "sha256:x")},
		{Path: "c", Kind: palyra.ChangeContent, Was: file(3, "sha256:y"), Now: file(3, "sha256:x")},
		{Path: "d", Kind: palyra.ChangeCreated, Now: &palyra.PathState{Kind: palyra.PathDirectory}},
	}
	if f := FactsOf(palyra.Effects{Created: 2, Changed: 2}, all, 0, Before{}); f.Omitted != 2 {
		t.Errorf("%+v", f)
	}
}

// A link to where runs leave things outside of workspaces is one that others would obey, however it is written.
func TestLinksToWhereNoneMayLead(t *testing.T) {
	w := before("a/b")
	w.Closed = func(way string) bool { return strings.Contains(way, "/closed/") }
	all := changed("+docs>/closed/x", "+a/up>../../closed/x", "+fine>a/b", "-gone>/closed/x", "+out>/usr/bin")
	f := FactsOf(palyra.Effects{}, all, 0, w)
	if want := []palyra.PathText{"a/up", "docs"}; !slices.Equal(f.Trusted, want) {
		t.Errorf("%q, want %q", f.Trusted, want)
	}
	w = before("d>x/y/z", "a>d/../../closed/x", "old>/closed/x")
	w.Closed = func(way string) bool { return strings.HasPrefix(path.Clean(way), "/closed/") }
	f = FactsOf(palyra.Effects{}, changed("=d>x/y/z", "+n>d/../../closed/x"), 0, w)
	if want := []palyra.PathText{"a", "n"}; !slices.Equal(f.Trusted, want) {
		t.Errorf("%q, want %q", f.Trusted, want)
	}
}

// Links of a workspace that cannot all be found count as omitted, where a link changed that may be on their way.
func TestLinksThatAreNotFound(t *testing.T) {
	w, done := In(filepath.Join(t.TempDir(), "none"))
	defer done()
	for word, want := range map[string]int64{"-d>x": 1, "=d>x": 1, "+d>x": 1, "+d/": 0, "~f": 0} {
		if f := factsOf(t, w, changed(word)); f.Omitted != want {
			t.Errorf("%s: %d", word, f.Omitted)
		}
	}
}

// Every link of a workspace is found, however deep, and a bound is told.
func TestLinksOfAWorkspace(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	deep := strings.Repeat("d/", mostDeep-1)
	must(os.MkdirAll(filepath.Join(dir, deep), 0o755))
	must(os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	for name, to := range map[string]string{"a": "d/../..", "round": ".", "d/node\xff": "/", deep + "l": "x"} {
		must(os.Symlink(to, filepath.Join(dir, name)))
	}
	b, done := In(dir)
	defer done()
	got := map[string]string{}
	all := b.Links(func(name, to string) { got[name] = to })
	if !all || len(got) != 4 || got["a"] != "d/../.." || got["d/node\xff"] != "/" || got[deep+"l"] != "x" {
		t.Errorf("%v %q", all, got)
	}
	must(os.Mkdir(filepath.Join(dir, deep, "e"), 0o755))
	if b.Links(func(string, string) {}) {
		t.Error("what is too deep counts as seen")
	}
	root, err := os.OpenRoot(filepath.Join(dir, "d"))
	must(err)
	defer func() { _ = root.Close() }()
	later := time.Now().Add(time.Hour)
	for _, l := range []links{{left: 1, until: later}, {left: 1_000}} {
		l.each = func(string, string) {}
		if l.look(root, "", mostDeep*2) {
			t.Errorf("%+v: all was seen", l)
		}
	}
}
