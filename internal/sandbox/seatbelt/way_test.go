package seatbelt

import (
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

// What is sealed does not become free by being called a workspace, however its
// name is written.
func TestASealedDirectoryIsNoWorkspace(t *testing.T) {
	y := newYard(t, ".git/config", ".git/objects/aa/", "a/.vscode/sub/", "x/.github/workflows/y/", ".GIT./hooks/", ".g\u200cit/info/",
		".claude/commands/",
		"bare/HEAD", "bare/refs/heads/", "bare/objects/", "bare/hooks/", "bare/tree/")
	for p := range strings.FieldsSeq(".git .git/objects .git/objects/aa a/.vscode a/.vscode/sub x/.github/workflows " +
		"x/.github/workflows/y .GIT./hooks .g\u200cit/info .claude .claude/commands bare/refs/heads bare/hooks") {
		marks, err := look(t.Context(), filepath.Join(y.dir, p), y.names, maxEntries)
		if e := palyra.AsError(err); e.Reason != palyra.ReasonSealDenied || !strings.Contains(e.Text, p[:2]) || e.Remedy == "" || marks != nil {
			t.Errorf("%s: %v, %v", p, marks, err)
		}
		if _, err := sweep(t.Context(), filepath.Join(y.dir, p), y.names, nil, call); palyra.AsError(err).Reason != palyra.ReasonSealDenied {
			t.Errorf("%s is swept: %v", p, err)
		}
	}
	for p := range strings.FieldsSeq("a x x/.github bare bare/tree") { // on the way to one, or beside it, there is work to do
		if _, err := look(t.Context(), filepath.Join(y.dir, p), y.names, maxEntries); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	unsealed, err := parseNames([]string{".envrc"}) // who does not seal it may work in it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := look(t.Context(), filepath.Join(y.dir, ".git"), unsealed, maxEntries); err != nil {
		t.Error(err)
	}
}

// A name that begins above the workspace counts in it.
func TestNamesThatBeginAboveTheWorkspace(t *testing.T) {
	y := newYard(t, ".github/actions/a", ".cargo/x")
	y.dir = filepath.Join(y.dir, ".github")
	if y.look(); len(y.marks) != 1 || y.marks[0].Path != "actions" {
		t.Errorf("%+v", y.marks)
	}
	y.make("workflows/evil.yml")
	y.sweep("workflows")
	y.dir = filepath.Join(filepath.Dir(y.dir), ".cargo")
	y.look()
	y.make("config.toml", "Config")
	y.sweep("Config", "config.toml")
}

// What no expression can say is found when the run is over: names that some file
// system holds for equal to sealed ones.
func TestSweepFindsOtherWritings(t *testing.T) {
	y := newYard(t, "src/a.go")
	y.make(".g\u200cit/hooks/post-checkout", "src/.ENVRC.", ".palyra./x", ".Palyra/y", ".palyra/z")
	y.sweep(".Palyra", ".g\u200cit", ".palyra", ".palyra.", "src/.ENVRC.")
}
