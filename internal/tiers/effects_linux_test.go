package tiers

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/internal/dotenv"
	"palyra/internal/effects"
	"palyra/internal/sandbox"
)

// What links and git's configuration lead to, before the run, is told as the names are. A workspace that cannot be
// looked through has nothing but such files.
func TestFactsFollowWhatLeadsThere(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		".git/HEAD":      "ref: refs/heads/main\n",
		".git/config":    "[core]\n\thooksPath = scripts/hooks\n[include]\n\tpath = ../more.conf\n",
		".git/objects/x": "", ".git/refs/x": "", "c/x": "", "ed/x": "", "other": "x",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{".cargo": "c", "sub": "ed", ".vscode": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	tiers := &Tiers{Config: Config{Log: slog.New(slog.DiscardHandler)}}
	told := func() string {
		t.Helper()
		var all []palyra.Change
		for _, name := range []string{
			"c/config.toml", "c/note", "ed/tasks.json", "more.conf", "scripts/build", "scripts/hooks/pre-commit", "src/a\xff",
		} {
			c := palyra.Change{Path: palyra.TextOfPath(name), Now: &palyra.PathState{Kind: palyra.PathFile}}
			c.Kind = effects.KindOf(c.Was, c.Now)
			all = append(all, c)
		}
		call := &palyra.Call{Plan: palyra.Plan{Workspace: palyra.WorkspaceRef{Path: dir}}}
		s, err := tiers.list(t.Context(), call, sandbox.Left{Changes: all})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(s.Facts.Trusted)
	}
	if got := told(); got != "[c/config.toml ed/tasks.json more.conf scripts/hooks/pre-commit]" {
		t.Errorf("%s", got)
	}
	if err := os.Link(filepath.Join(dir, ".git/config"), filepath.Join(dir, "second")); err != nil { // nobody can say what it is
		t.Fatal(err)
	}
	if got := told(); got != `[c/config.toml c/note ed/tasks.json more.conf scripts/build scripts/hooks/pre-commit "src/a\xff"]` {
		t.Errorf("%s", got)
	}
}

// A link by which a file like .env is found is a name that others obey: once it is gone, the file is shown as any other.
func TestLinksOfMaskedFilesAreTold(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secrets/real", "conf/x", "plain"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("A=secretsecret1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"conf/current.env": "../way", "way": "../" + filepath.Base(dir) + "/secrets/real", "link": "plain", "dead.env": "none",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, masks := range []*dotenv.Masks{{}, nil} {
		tiers := &Tiers{Config: Config{Log: slog.New(slog.DiscardHandler)}, Masks: masks}
		for name, want := range map[string]bool{
			"conf/current.env": true, "way": true, "conf": true, "link": false, "dead.env": false, "plain": false,
		} {
			was := &palyra.PathState{Kind: palyra.PathLink, Target: "x"}
			c := palyra.Change{Path: palyra.TextOfPath(name), Kind: effects.KindOf(was, nil), Was: was}
			call := &palyra.Call{Plan: palyra.Plan{Workspace: palyra.WorkspaceRef{Path: dir}}}
			s, err := tiers.list(t.Context(), call, sandbox.Left{Changes: []palyra.Change{c}})
			if got := len(s.Facts.Trusted) == 1; err != nil || got != (want && masks != nil) {
				t.Errorf("%s goes: %v, %v", name, s.Facts.Trusted, err)
			}
		}
	}
}
