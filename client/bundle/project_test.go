package bundle_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client/bundle"
)

const forbids = `@id("no-echo") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo");`

// project makes a workspace with one policy file.
func project(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	own := filepath.Join(dir, bundle.ProjectDir)
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheckProject(t *testing.T) {
	good := project(t, "a.cedar", forbids)
	for _, dir := range []string{good, filepath.Join(good, bundle.ProjectDir), good + "/"} {
		r, err := bundle.CheckProject(dir)
		if err != nil || len(r.Problems) != 0 || r.Policies != 1 || !r.Bundle.Valid() || r.Dir != filepath.Join(good, bundle.ProjectDir) {
			t.Errorf("%s: %+v %v", dir, r, err)
		}
	}
	for text, want := range map[string]string{
		"\n@id(\"x\") permit (principal, action, resource);": "a.cedar:2:",
		"\n\nforbid (":                    "a.cedar:3:",
		"forbid (principal, action);":     "a.cedar:1:",
		forbids[:len(forbids)-1] + "\xff": "UTF-8",
	} {
		r, err := bundle.CheckProject(project(t, "a.cedar", text))
		if err != nil || len(r.Problems) == 0 || r.Bundle != "" || !strings.Contains(r.Problems[0].String(), want) {
			t.Errorf("%q: %+v %v", text, r, err)
		}
	}
}

func TestProblemsOf(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.cedar", "b.ceder"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(forbids), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := bundle.Read(dir)
	if got := bundle.ProblemsOf(err); len(got) != 1 || got[0].File != "b.ceder" {
		t.Errorf("%v: %v", err, got)
	}
	if got := bundle.ProblemsOf(os.ErrNotExist); got != nil {
		t.Error(got)
	}
}

// A link is refused here as a daemon refuses it.
func TestCheckProjectLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(project(t, "a.cedar", forbids), ".palyra"), filepath.Join(dir, ".palyra")); err != nil {
		t.Fatal(err)
	}
	if r, err := bundle.CheckProject(dir); err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, "link") ||
		r.Bundle != "" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestCheckNoProject(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none"), project(t, "readme.txt", "x")} {
		if r, err := bundle.CheckProject(dir); palyra.AsError(err).Reason != palyra.ReasonFileNotFound ||
			!strings.Contains(palyra.AsError(err).Remedy, bundle.ProjectDir) {
			t.Errorf("%s: %+v %v", dir, r, err)
		}
	}
}
