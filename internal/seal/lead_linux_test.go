package seal

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// write gives a file of the workspace its content.
func (b *box) write(path, text string) {
	b.t.Helper()
	b.file(path)
	must(b.t, os.WriteFile(b.in(path), []byte(text), 0o600))
}

func (b *box) repository(dir string) {
	b.file(dir+"/objects/", dir+"/refs/heads/", dir+"/info/", dir+"/hooks/x")
	b.write(dir+"/HEAD", "ref: refs/heads/main\n")
	b.write(dir+"/config", "[core]\n\tbare = false\n")
}

// readOnly are the mounts of a snapshot that hold something.
func readOnly(s *Snapshot) []string {
	var out []string
	for _, m := range s.Mounts() {
		if m.ReadOnly {
			out = append(out, m.Path)
		}
	}
	return out
}

// What was led around is not: by a link in the place of a directory on the way, by
// one into node_modules, by what git's configuration names.
func TestNothingLeadsAround(t *testing.T) {
	for _, test := range []struct {
		name  string
		setup func(*box)
		run   func(*box)
		gone  []string // moved away
		stays []string
	}{
		{
			"a link as the first part", nil, func(b *box) {
				b.file("c/config.toml", "yy/releases/yarn.cjs", "ii/attributes", "d/mise.toml")
				b.file(".cargo -> c", "sub/", "sub/.yarn -> ../yy", ".config -> d")
				must(b.t, os.Rename(b.in(".git/info"), b.in(".git/info.was")))
				must(b.t, os.Symlink("../ii", b.in(".git/info")))
			},
			[]string{".cargo", "sub/.yarn", ".git/info", ".config", "d/mise.toml"},
			[]string{"c/config.toml", "yy/releases/yarn.cjs"},
		},
		{
			"an old link as the first part", func(b *box) { b.file("c/other", ".cargo -> c", "m/", ".yarn -> m/y") }, func(b *box) {
				b.file("c/config.toml", "m/y/releases/yarn.cjs", "c/more")
			},
			[]string{"c/config.toml", "m/y/releases"},
			[]string{".cargo", ".yarn", "c/other", "c/more"},
		},
		{
			"an old link in the place of a directory", func(b *box) { b.file("conf/real/tasks.json", "v -> conf", ".vscode -> v/real") }, func(
				b *box,
			) {
				b.file("evil/real/tasks.json")
				must(b.t, os.Remove(b.in("v")))
				must(b.t, os.Symlink("evil", b.in("v")))
			},
			[]string{"v"},
			[]string{".vscode", "v", "conf/real/tasks.json", "evil/real/tasks.json"},
		},
		{
			"an old link that is replaced", func(b *box) { b.file("conf/envrc", ".envrc -> conf/envrc") }, func(b *box) {
				must(b.t, os.Remove(b.in(".envrc")))
				b.file(".envrc")
			},
			[]string{".envrc"},
			[]string{".envrc", "conf/envrc"},
		},
		{
			"a file that says where the repository is", func(b *box) { b.file(".jj/repo/store/x", ".jj/working_copy/x") }, func(b *box) {
				must(b.t, os.Rename(b.in(".jj/repo"), b.in("r")))
				b.file("r/config.toml", ".jj/repo")
			},
			[]string{".jj/repo"},
			nil,
		},
		{
			"node_modules", func(b *box) { b.file("node_modules/x/.github/workflows/ci.yml") }, func(b *box) {
				b.file("app/.vscode/tasks.json", "app/.envrc")
				must(b.t, os.Rename(b.in("app"), b.in("node_modules/app")))
				b.file("app -> node_modules/app", "lib -> node_modules/y", "node_modules/y/index.js")
			},
			[]string{"app"},
			[]string{"node_modules/app/.envrc", "node_modules/x/.github/workflows/ci.yml", "lib", "node_modules/y/index.js"},
		},
		{
			"node_modules, by a link that was there", func(b *box) {
				b.file("node_modules/app/x", "app -> node_modules/app",
					"b -> node_modules/later")
			}, func(b *box) {
				b.file("node_modules/app/.vscode/tasks.json", "node_modules/app/.cargo/config.toml", "node_modules/later/.envrc",
					"node_modules/z/.envrc")
			},
			[]string{"node_modules/app/.vscode", "node_modules/app/.cargo/config.toml", "node_modules/later/.envrc"},
			[]string{"app", "b", "node_modules/z/.envrc"},
		},
		{
			"node_modules that was not there yet", func(b *box) { b.file("app -> node_modules/app") },
			func(b *box) { b.file("node_modules/app/.vscode/tasks.json") },
			[]string{"node_modules/app/.vscode"},
			[]string{"app"},
		},
		{
			"node_modules, by a link in it", nil, func(b *box) {
				b.file("node_modules/b/.vscode/tasks.json", "node_modules/a/x", "node_modules/a/foo -> ../b", "packages -> node_modules/a")
				b.file("node_modules/c/x", "node_modules/c/self -> .", "node_modules/c/bin -> ../c", "lib -> node_modules/c")
			},
			[]string{"packages"},
			[]string{"lib", "node_modules/a/foo", "node_modules/b/.vscode/tasks.json"},
		},
		{
			"node_modules, by an old link through one in it", func(b *box) {
				b.file("node_modules/a/x", "node_modules/hop -> a", "app -> node_modules/hop")
			}, func(b *box) {
				b.file("node_modules/b/.vscode/tasks.json")
				must(b.t, os.Remove(b.in("node_modules/hop")))
				b.file("node_modules/hop -> b")
			},
			[]string{"app"},
			[]string{"node_modules/b/.vscode/tasks.json"},
		},
		{
			"what the configuration names", func(b *box) {
				b.file("scripts/other/x")
				b.write(".git/config", "[core]\n\thooksPath = scripts/hooks\n\tattributesFile = conf/attrs\n[include]\n\tpath = "+
					"../.inc\n[includeIf \"gitdir:x\"]\n\tpath = \""+b.in("inc/two")+
					"\"\n[diff \"x\"]\n\ttextconv = sh tools/conv.sh\n")
				b.write("inc/two", "[core]\n\tfsmonitor = ./fs/mon\n[include]\n\tpath = three\n")
			}, func(b *box) {
				b.file("scripts/hooks/pre-commit", ".inc", "conf/attrs", "tools/conv.sh", "fs/mon", "inc/three", "scripts/other/y")
			},
			[]string{"scripts/hooks", ".inc", "conf/attrs", "tools/conv.sh", "fs/mon", "inc/three"},
			[]string{"inc/two", "scripts/other/y"},
		},
		{
			"a configuration that is a link", func(b *box) {
				must(b.t, os.Remove(b.in(".git/config")))
				b.write("conf/git", "[core]\n\thooksPath = scripts\n[include]\n\tpath = more\n")
				b.file(".git/config -> ../conf/git")
			}, func(b *box) { b.file("scripts/pre-commit", "conf/more", ".git/more") },
			[]string{"scripts", "conf/more", ".git/more"},
			[]string{"conf/git"},
		},
		{
			"hooks at the top", func(b *box) { b.write(".git/config", "[core]\n\thooksPath = .\n") }, func(b *box) { b.file("pre-commit", "plain") },
			[]string{"pre-commit"},
			[]string{"plain"},
		},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				b := newBox(t)
				b.repository(".git")
				if test.setup != nil {
					test.setup(b)
				}
				s := b.scan()
				if crash {
					doc, err := s.Record()
					must(t, err)
					if s, err = Load(doc); err != nil {
						t.Fatal(err)
					}
				}
				test.run(b)
				made := b.sweep(s)
				for _, p := range test.gone {
					if !slices.Contains(made, p) {
						t.Errorf("%s is not told: %q", p, made)
					}
					if b.exists(p) && !slices.Contains(test.stays, p) {
						t.Errorf("%s remains", p)
					}
				}
				for _, p := range test.stays {
					if !b.exists(p) {
						t.Errorf("%s is gone: %q", p, made)
					}
				}
				if again := b.sweep(s); len(again) > 0 {
					t.Errorf("a second sweep finds %q", again)
				}
			})
		}
	}
}

// What the configuration names and what links lead to is held by mounts where it
// is there.
func TestLeadsAreMounted(t *testing.T) {
	b := newBox(t)
	b.repository(".git")
	b.write(".git/config", "[core]\n\thooksPath = scripts/hooks\n[include]\n\tpath = ../.inc\n[core]\n\tpager = src/ | less\n")
	b.file("scripts/hooks/pre-commit", ".inc", "conf/tasks.json", ".vscode -> conf", "src/x", "c/config.toml", ".cargo -> c",
		".idea -> "+b.out)
	s := b.scan()
	got := readOnly(s)
	for _, p := range []string{"scripts/hooks", ".inc", "conf", "c/config.toml", ".git/config"} {
		if !slices.Contains(got, p) {
			t.Errorf("%s is not held: %q", p, got)
		}
	}
	for _, p := range []string{"src", ".vscode", ".idea", "c", "scripts"} {
		if slices.Contains(got, p) {
			t.Errorf("%s is held", p)
		}
	}
	for _, change := range []func(){
		func() { must(t, os.Remove(b.in(".vscode"))); b.file("conf2/x", ".vscode -> conf2") },
		func() { b.write(".git/config", "[core]\n\thooksPath = h2\n") },
	} {
		c := *s
		change()
		if stale, err := c.Stale(t.Context()); !stale || err != nil {
			t.Errorf("stale %v, %v", stale, err)
		}
	}
	again, err := ScanAgain(t.Context(), s.Apart())
	must(t, err)
	if held := strings.Join(readOnly(again), " "); !strings.Contains(held, "conf2") || strings.Contains(held, "scripts/hooks") {
		t.Error(held)
	}
}

// A rebase may be gone on with; it may not come to run a program that a run put
// into it.
func TestRebaseState(t *testing.T) {
	const todo = ".git/rebase-merge/git-rebase-todo"
	for _, test := range []struct {
		name    string
		before  string // what is to be done when the run begins; none: nothing is under way
		after   string
		extra   func(*box)
		gone    string
		content string // of the list, in the end
	}{
		{name: "a new one", after: "pick 1 a\n", content: "pick 1 a\n"},
		{name: "a new one that runs something", after: "pick 1 a\nexec touch x\n", gone: ".git/rebase-merge"},
		{
			name: "a new one with a strategy of its own", after: "pick 1\n", extra: func(b *box) { b.write(".git/rebase-merge/strategy", "evil") },
			gone: ".git/rebase-merge",
		},
		{
			name: "a new one as a link", extra: func(b *box) { b.write("r/git-rebase-todo", "exec x"); b.file(".git/rebase-merge -> ../r") },
			gone: ".git/rebase-merge",
		},
		{name: "an old one, gone on with", before: "pick 1\npick 2\nexec make\n", after: "pick 2\nexec make\n", content: "pick 2\nexec make\n"},
		{name: "an old one with a line more", before: "pick 1\n", after: "pick 1\nexec touch x\n", gone: todo, content: "pick 1\n"},
		{
			name: "an old one with a line twice", before: "exec make\npick 1\n", after: "exec make\nexec make\npick 1\n", gone: todo,
			content: "exec make\npick 1\n",
		},
		{name: "an old one with a link in it", before: "pick 1\n", extra: func(b *box) {
			must(b.t, os.Remove(b.in(todo)))
			b.write("t", "exec x\n")
			b.file(todo + " -> ../../t")
		}, gone: todo, content: "pick 1\n"},
		{name: "picks", extra: func(b *box) { b.write(".git/sequencer/todo", "exec x\n") }, gone: ".git/sequencer"},
		{name: "a mail", extra: func(b *box) { b.write(".git/rebase-apply/author-script", "touch x\n") }, gone: ".git/rebase-apply"},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				b := newBox(t)
				b.repository(".git")
				if test.before != "" {
					b.write(todo, test.before)
				}
				s := b.scan()
				if crash {
					doc, err := s.Record()
					must(t, err)
					if s, err = Load(doc); err != nil {
						t.Fatal(err)
					}
				}
				if test.after != "" {
					b.write(todo, test.after)
				}
				if test.extra != nil {
					test.extra(b)
				}
				made := b.sweep(s)
				if test.gone != "" && !slices.Equal(made, []string{test.gone}) || test.gone == "" && len(made) > 0 {
					t.Errorf("made %q", made)
				}
				if got, _ := os.ReadFile(b.in(todo)); string(got) != test.content {
					t.Errorf("to do: %q", got)
				}
				if again := b.sweep(s); len(again) > 0 {
					t.Errorf("a second sweep finds %q", again)
				}
			})
		}
	}
}

// A link to where runs keep caches is moved away: a repository could wait there.
func TestLinksIntoCaches(t *testing.T) {
	for _, crash := range []bool{false, true} {
		b := newBox(t)
		b.file("old/x", "node_modules/x/y")
		caches := b.out + "/victim"
		s, err := Scan(t.Context(), b.ws, Default, Limits{Closed: []string{caches}, settle: -1})
		must(t, err)
		if crash {
			doc, err := s.Record()
			must(t, err)
			s, err = Load(doc)
			must(t, err)
		}
		must(t, os.Symlink(b.out, b.out+"/../alias"))
		b.file("docs -> "+caches+"/r", "up -> ../out/victim", "hop -> node_modules/z", "other -> /usr/bin", "by -> "+b.out+"/../alias/victim")
		must(t, os.Symlink(caches, b.in("node_modules/z")))
		want := []string{stays(palyra.RemnantLink, "other"), "by", "docs", "node_modules/z", "up"}
		if made := b.sweep(s); !slices.Equal(made, want) {
			t.Errorf("made %q", made)
		}
	}
}

// New links that lead out of the workspace are told and stay.
func TestLinksThatLeadOut(t *testing.T) {
	b := newBox(t)
	b.file("old -> "+b.out, "dir/x")
	s := b.scan()
	b.file("docs -> "+b.out, "up -> ../out/victim", "in -> dir", "abs -> "+b.in("dir"), "dir/back -> ../old")
	want := []string{stays(palyra.RemnantLink, "dir/back"), stays(palyra.RemnantLink, "docs"), stays(palyra.RemnantLink, "up")}
	if made := b.sweep(s); !slices.Equal(made, want) {
		t.Errorf("told %q", made)
	}
	if made := b.sweep(s); len(made) > 0 {
		t.Errorf("told again: %q", made)
	}
}

// Instructions for agents, and other files that are heeded and written in ordinary
// work, may be changed; the outcome says so, also of a change in place.
func TestHeededFilesAreTold(t *testing.T) {
	for _, crash := range []bool{false, true} {
		b := newBox(t)
		b.file("AGENTS.md", "sub/CLAUDE.md", "same/AGENTS.md", "node_modules/x/AGENTS.md")
		s := b.scan()
		if crash {
			doc, err := s.Record()
			must(t, err)
			s, err = Load(doc)
			must(t, err)
		}
		b.write("AGENTS.md", "obey\n")
		must(t, os.Remove(b.in("sub/CLAUDE.md")))
		b.file("sub/CLAUDE.md", "new/.env", "node_modules/y/AGENTS.md", "plain.md")
		want := []string{
			stays(palyra.RemnantTrusted, "AGENTS.md"), stays(palyra.RemnantTrusted, "new/.env"),
			stays(palyra.RemnantTrusted, "sub/CLAUDE.md"),
		}
		if made := b.sweep(s); !slices.Equal(made, want) || !b.exists("AGENTS.md") || !b.exists("new/.env") {
			t.Errorf("told %q", made)
		}
		if made := b.sweep(s); len(made) > 0 {
			t.Errorf("told again: %q", made)
		}
	}
}

// Below node_modules, where package managers make links in plenty, those that lead
// out are told like any other, and no others are.
func TestPackageLinksThatLeadOut(t *testing.T) {
	b := newBox(t)
	b.file("node_modules/.pnpm/a/node_modules/a/x", "node_modules/linked -> "+b.out, "node_modules/old -> .pnpm/a/node_modules/a",
		"deep/er/node_modules/x/y", "to -> deep/er", "node_modules/@s/c/x")
	s := b.scan()
	b.file("node_modules/a -> .pnpm/a/node_modules/a", "node_modules/.pnpm/a/node_modules/b -> ../../a/node_modules/a",
		"node_modules/abs -> "+b.in("deep"),
		"deep/er/node_modules/three -> ../../..", "deep/er/node_modules/out -> ../../../../out", "node_modules/evil -> "+b.out,
		"deep/er/node_modules/by -> ../../../to/../../../out",
		"deep/er/node_modules/home -> ../../../to/../..", "node_modules/@s/up -> ../../..", "node_modules/@s/fine -> ../..")
	want := []string{
		stays(palyra.RemnantLink, "deep/er/node_modules/by"), stays(palyra.RemnantLink, "deep/er/node_modules/out"),
		stays(palyra.RemnantLink, "node_modules/@s/up"), stays(palyra.RemnantLink, "node_modules/evil"),
	}
	if made := b.sweep(s); !slices.Equal(made, want) {
		t.Errorf("told %q", made)
	}
	if made := b.sweep(s); len(made) > 0 {
		t.Errorf("told again: %q", made)
	}
	if stale, err := s.Stale(t.Context()); stale || err != nil {
		t.Errorf("stale %v, %v", stale, err)
	}
}

// What the owner's own configuration of git has it run in every repository is held
// as well, through includes, and only that.
func TestPersonalConfiguration(t *testing.T) {
	b := newBox(t)
	home := b.out + "/home"
	must(t, os.MkdirAll(home+"/.config/git", 0o755))
	must(t, os.WriteFile(home+"/.gitconfig",
		[]byte("[core]\n\thooksPath = scripts/hooks\n\tpager = less\n[include]\n\tpath = more\n\tpath = ~/none\n\tpath = more\n"), 0o644))
	must(t, os.WriteFile(home+"/more", []byte("[diff \"x\"]\n\ttextconv = ./conv --x\n[include]\n\tpath = more\n"), 0o644))
	must(t, os.WriteFile(home+"/.config/git/config", []byte("[core]\n\tfsmonitor = "+b.in("mon/itor")+"\n"), 0o644))
	t.Setenv("HOME", home)
	b.file(repoIn("sub/.git")...)
	must(t, os.WriteFile(b.in("sub/.git/config"), []byte("[core]\n\tbare = false\n"), 0o644))
	b.file("sub/scripts/plain", "mon/itor", "scripts/x")
	s := b.scan()
	if got := seals(s); !slices.Contains(got, "ro mon/itor") {
		t.Errorf("sealed %q", got)
	}
	b.file("sub/scripts/hooks/pre-commit", "sub/conv", "scripts/hooks/pre-commit", "conv")
	if made := b.sweep(s); !slices.Equal(made, []string{"sub/conv", "sub/scripts/hooks"}) {
		t.Errorf("made %q", made)
	}
}

// More plain files than a workspace may have: the run that made them is told so, its
// sealed paths are found nevertheless, and the next is refused with what to do.
func TestMorePlainFilesThanAreLookedThrough(t *testing.T) {
	b := newBox(t)
	b.file("a")
	s, err := Scan(t.Context(), b.ws, Default, Limits{Entries: 50, settle: -1})
	must(t, err)
	for i := range 300 {
		b.file(fmt.Sprintf("many/f%d", i))
	}
	b.file("many/.envrc", "z/.envrc")
	if made := b.sweep(s); !slices.Equal(made, []string{stays(palyra.RemnantMany, "."), "many/.envrc", "z/.envrc"}) {
		t.Errorf("made %q", made)
	}
	if made := b.sweep(s); len(made) > 0 {
		t.Errorf("told again: %q", made)
	}
	_, err = Scan(t.Context(), b.ws, Default, Limits{Entries: 50})
	if e := palyra.AsError(err); e.Reason != palyra.ReasonSealDenied || !strings.Contains(e.Text, "50 files") || e.Remedy == "" {
		t.Errorf("%v", err)
	}
}
