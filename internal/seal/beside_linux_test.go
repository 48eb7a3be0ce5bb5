package seal

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// refused checks that a workspace was, for a reason that has some texts in it.
func refused(t *testing.T, err error, texts ...string) {
	t.Helper()
	if e := palyra.AsError(err); err == nil || e.Reason != palyra.ReasonSealDenied || e.Remedy == "" {
		t.Fatalf("it says %v", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("it says %v, without %s", err, text)
		}
	}
}

// A sweep for one run does not make what another is about to use known: the link
// was there, what it leads to came later.
func TestLinkSeenByAnotherSweep(t *testing.T) {
	b := newBox(t)
	b.file("node_modules/a/x")
	s := b.scan()
	b.file("app -> node_modules/a", "lib -> node_modules/z")
	if made := b.sweep(s); len(made) > 0 {
		t.Fatalf("the first sweep made %q", made)
	}
	b.file("node_modules/a/.vscode/tasks.json", "node_modules/z/index.js")
	if made := b.sweep(s); !slices.Equal(made, []string{"app"}) || b.exists("app") || !b.exists("lib") {
		t.Errorf("made %q", made)
	}
}

// The same with caches at the end, by a link below node_modules. A link that leads
// there straight goes whoever made it.
func TestLinkToCachesSeenByAnotherSweep(t *testing.T) {
	b := newBox(t)
	b.file("node_modules/a/x", "old -> "+b.out+"/victim")
	s, err := Scan(t.Context(), b.ws, Default, Limits{Closed: []string{b.out + "/victim"}})
	must(t, err)
	b.file("hop -> node_modules/z")
	if made := b.sweep(s); !slices.Equal(made, []string{"old"}) {
		t.Fatalf("the first sweep made %q", made)
	}
	b.file("node_modules/z -> " + b.out + "/victim")
	if made := b.sweep(s); !slices.Equal(made, []string{"node_modules/z"}) || b.exists("node_modules/z") {
		t.Errorf("made %q", made)
	}
}

// Links beyond what is remembered are decided about all the same, in every sweep.
func TestTooManyLinks(t *testing.T) {
	b := newBox(t)
	b.file("node_modules/evil/.vscode/tasks.json", "node_modules/later/x", "dir/x", "old -> dir")
	limits := Limits{settle: -1, links: 5}
	s, err := Scan(t.Context(), b.ws, Default, limits)
	must(t, err)
	for i := range 20 {
		b.file(fmt.Sprintf("to%02d -> dir", i), fmt.Sprintf("evil%02d -> node_modules/evil", i))
		b.file(fmt.Sprintf("later%02d -> node_modules/later", i))
	}
	if made := b.sweep(s); len(made) != 20 || slices.ContainsFunc(made, func(p string) bool { return !strings.HasPrefix(p, "evil") }) {
		t.Errorf("made %q", made)
	}
	b.file("node_modules/later/.envrc")
	if made := b.sweep(s); len(made) != 20 || slices.ContainsFunc(made, func(p string) bool { return !strings.HasPrefix(p, "later") }) {
		t.Errorf("then made %q", made)
	}
	if !b.exists("old") || !b.exists("to00") {
		t.Error("harmless links are gone")
	}
	_, err = Scan(t.Context(), b.ws, Default, limits)
	refused(t, err, `" is one of them`)
	if _, err = ScanAgain(t.Context(), s.Apart()); err == nil {
		t.Error("a second scan takes them")
	}
}

// What a sweep remembers of a rebase is what it judged, not what another run wrote
// a moment later.
func TestStateIsRememberedAsJudged(t *testing.T) {
	const todo = ".git/rebase-merge/git-rebase-todo"
	b := newBox(t)
	b.repository(".git")
	b.write(todo, "pick 1\n")
	s := b.scan()
	tr, err := openTree(b.ws)
	must(t, err)
	defer tr.close()
	p, err := newQuarantiner(tr, b.quarantine, testCall)
	must(t, err)
	defer p.close()
	w := s.walker(t.Context(), tr, s)
	w.known, w.sweeps, w.quarantine, w.states = s.known(), true, p, map[string][]byte{}
	if n, err := w.clear(p); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	b.write(todo, "pick 1\nexec touch x\n") // between the two
	tr.remember(w.out, w.known, w.states)
	if made := b.sweep(w.out); !slices.Equal(made, []string{todo}) {
		t.Errorf("made %q", made)
	}
	if got, _ := os.ReadFile(b.in(todo)); string(got) != "pick 1\n" {
		t.Errorf("to do: %q", got)
	}
}

// Links and rebases that runs under way in a tree around this one made are not
// known here either.
func TestShareLinksAndRebases(t *testing.T) {
	b := newBox(t)
	b.file("sub/node_modules/a/x", "sub/old -> node_modules/a", "sub/was -> node_modules/a")
	b.repository("sub/.git")
	b.repository("sub/two/.git")
	b.write("sub/two/.git/rebase-merge/git-rebase-todo", "pick 1\n")
	outer := b.scan()
	b.file("sub/app -> node_modules/b", "sub/node_modules/b/.vscode/tasks.json", "sub/node_modules/c/.envrc")
	must(t, os.Remove(b.in("sub/was")))
	b.file("sub/was -> node_modules/c")
	b.write("sub/.git/rebase-merge/git-rebase-todo", "exec touch x\n")
	b.write("sub/two/.git/rebase-merge/git-rebase-todo", "exec touch x\n")
	in := &box{t: t, ws: b.in("sub"), quarantine: b.quarantine}
	s := in.scan()
	must(t, s.Share(outer))
	want := []string{".git/rebase-merge", "app", "two/.git/rebase-merge/git-rebase-todo", "was"}
	made := in.sweep(s)
	slices.Sort(made)
	if !slices.Equal(made, want) || !in.exists("old") {
		t.Errorf("made %q", made)
	}
}

// A configuration that is more than is read could name anything: nothing runs
// beside it.
func TestConfigurationThatIsTooMuch(t *testing.T) {
	const hooks = "[core]\n\thooksPath = scripts\n"
	for _, test := range []struct {
		name, file, says string
		setup            func(*box)
	}{
		{"large", ".git/config", "larger", func(b *box) { b.write(".git/config", strings.Repeat("# padding\n", 1<<17)+hooks) }},
		{"settings", ".git/config", "settings", func(b *box) { b.write(".git/config", "[a]\n"+strings.Repeat("b = c\n", 10_001)+hooks) }},
		{"a large include", "inc", "larger", func(b *box) {
			b.write(".git/config", "[include]\n\tpath = ../inc\n")
			b.write("inc", strings.Repeat("# padding\n", 1<<17)+hooks)
		}},
		{"includes", ".git/config", "includes", func(b *box) {
			var text strings.Builder
			for i := range 70 {
				fmt.Fprintf(&text, "[include]\n\tpath = ../inc%d\n", i)
			}
			b.write(".git/config", text.String())
			b.write("inc69", hooks)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBox(t)
			b.repository(".git")
			ready := b.scan()
			test.setup(b)
			_, err := Scan(t.Context(), b.ws, Default, Limits{settle: -1})
			refused(t, err, fmt.Sprintf("%q", test.file), test.says)
			if stale, err := ready.Stale(t.Context()); !stale && err == nil {
				t.Error("a snapshot from before is taken")
			}
		})
	}
}

// A record from before links and rebases were looked at tells nothing of those that
// were there: they stay. What it does tell of is swept.
func TestFirstRecords(t *testing.T) {
	b := newBox(t)
	b.repository(".git")
	b.file("node_modules/a/.vscode/x", "app -> node_modules/a", "c/config.toml", ".cargo -> c", "AGENTS.md")
	b.write(".git/rebase-merge/git-rebase-todo", "exec make\n")
	s := b.scan()
	s.entries = slices.DeleteFunc(s.entries, func(e watchedPath) bool { // as they were written
		return e.kind == link || e.kind == midway || e.kind == noted || e.path == ".cargo" || e.path == "c/config.toml" || inModules(e.path)
	})
	s.bare = nil
	m, err := Compile(s.match.Names())
	must(t, err)
	s.match = m
	doc, err := s.Record()
	must(t, err)
	first := strings.Replace(string(doc), `"version":2`, `"version":1`, 1)
	old, err := Load([]byte(first))
	must(t, err)
	if again, err := old.Record(); err != nil || string(again) != first {
		t.Errorf("it is written as\n%s, %v\n%s", again, err, first)
	}
	b.file(".envrc")
	if made := b.sweep(old); !slices.Equal(made, []string{".envrc"}) {
		t.Errorf("made %q", made)
	}
}
