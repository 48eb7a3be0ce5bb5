package seal

import (
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

// What is sealed in a directory is sealed whatever part of it is called the
// workspace.
func TestSealedDirectoriesAreNoWorkspaces(t *testing.T) {
	b := newBox(t)
	b.file(append(repoIn(".git"), append(repoIn("bare.git"), append(repoIn("repo/.git/modules/m"),
		".git/objects/aa/", "a/.vscode/sub/", ".husky/_/", ".claude/commands/", "x/.github/workflows/y/", ".hg/store/", ".palyra/z/",
		"upper/.GIT/hooks/",
		"node_modules/m/.envrc/", "bare.git/worktrees/w/", "my.code-workspace/in/", ".yarn/releases/", "dots/.git. /hooks/")...)...)...)
	for _, p := range strings.Split(
		".git|.git/hooks|.git/objects/aa|.git/info|a/.vscode|a/.vscode/sub|.husky|.husky/_|.claude|.claude/commands|x/.github/workflows|"+
			"x/.github/workflows/y|.hg|.hg/store|.palyra|.palyra/z|upper/.GIT|upper/.GIT/hooks|repo/.git/modules/m|"+
			"repo/.git/modules/m/hooks|bare.git/hooks|bare.git/info|"+
			"bare.git/objects|bare.git/refs/heads|bare.git/worktrees/w|node_modules/m/.envrc|"+
			"my.code-workspace/in|.yarn/releases|dots/.git. /hooks", "|") {
		s, err := Scan(t.Context(), b.in(p), Default, Limits{})
		e := palyra.AsError(err)
		if s != nil || e.Reason != palyra.ReasonSealDenied || !strings.Contains(e.Remedy, b.ws) ||
			!strings.Contains(e.Text, filepath.Base(b.ws)) {
			t.Errorf("%s: %v, %v (%s)", p, s, err, e.Remedy)
		}
	}
}

// A workspace on the way to a sealed path has it sealed, as the directory above
// would; also when it is swept after a crash.
func TestNamesThatBeginAboveTheWorkspace(t *testing.T) {
	for _, test := range []struct{ ws, have, mounts, makes, made string }{
		{".github", ".github/actions/a", "ro actions", ".github/workflows/evil.yml", "workflows"},
		{"sub/.cargo", "sub/.cargo/x", "", "sub/.cargo/config.toml", "config.toml"},
		{"bare/main", "bare/main/.git", "ro .git", "bare/main/hooks/x", ""},
		{"bare/main", "bare/main/.git", "ro .git", "bare/main/.envrc", ".envrc"},
	} {
		b := newBox(t)
		b.file(repoIn("bare")...)
		b.file(test.have)
		b.ws = b.in(test.ws)
		s := b.scan()
		if got := strings.Join(seals(s), " "); got != test.mounts {
			t.Errorf("%s: mounts %q, want %q", test.ws, got, test.mounts)
		}
		if stale, err := s.Stale(t.Context()); stale || err != nil {
			t.Errorf("%s: stale %v, %v", test.ws, stale, err)
		}
		text, err := s.Record()
		must(t, err)
		loaded, err := Load(text)
		must(t, err)
		for _, s := range []*Snapshot{s, loaded} {
			rel, _ := filepath.Rel(test.ws, test.makes)
			b.file(rel)
			if made := strings.Join(b.sweep(s), " "); made != test.made {
				t.Errorf("%s: made %q, want %q", test.ws, made, test.made)
			}
		}
	}
}

// A directory above the workspace that has become a repository makes a cell of no
// use.
func TestStaleByWhatIsAbove(t *testing.T) {
	b := newBox(t)
	b.file("top/info/x")
	top := b.ws
	b.ws = b.in("top/info")
	s := b.scan()
	b.ws = top
	b.file("top/HEAD", "top/objects/", "top/refs/")
	if stale, err := s.Stale(t.Context()); !stale || err != nil {
		t.Errorf("stale %v, %v", stale, err)
	}
	if _, err := Scan(t.Context(), b.in("top/info"), Default, Limits{}); palyra.AsError(err).Reason != palyra.ReasonSealDenied {
		t.Errorf("%v", err)
	}
}

// Who does not seal it may work in it.
func TestUnsealedAboveTheWorkspace(t *testing.T) {
	b := newBox(t)
	b.file(repoIn(".git")...)
	if _, err := Scan(t.Context(), b.in(".git/hooks"), []string{".envrc"}, Limits{}); err != nil {
		t.Error(err)
	}
}
