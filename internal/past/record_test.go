package past

import (
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/internal/bundle"
	"palyra/internal/policy"
)

// A replay leaves out calls that policies below their workspace would have a say in,
// as it does those of the workspace itself: no bundle has them.
func TestReplayKnowsPoliciesBelow(t *testing.T) {
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(work, "a", policy.ProjectDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.cedar"), []byte(`@id("x") forbid (principal, action in Action::"call", resource);`),
		0o644); err != nil {
		t.Fatal(err)
	}
	r := &reader{Config: Config{Projects: &bundle.Projects{}}}
	for place, want := range map[string]bool{".": false, "b": false, "a": true, "a/b/c": true} {
		p := palyra.Plan{Workspace: palyra.WorkspaceRef{Path: work}, Cwd: work, Writes: []string{place}}
		if got := r.ownPolicies(&p); got != want {
			t.Errorf("%s: %v", place, got)
		}
	}
}
