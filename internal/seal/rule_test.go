package seal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/trusted"
)

func TestRules(t *testing.T) {
	m, err := Compile([]string{".Envrc", "<repository>/hooks", ".git/**/c*G/", "Node_*"})
	must(t, err)
	want := []Rule{
		{Parts: []Part{{Pieces: []string{".envrc"}}}},
		{Parts: []Part{{Repository: true}, {Pieces: []string{"hooks"}}}, Every: true},
		{Parts: []Part{{Pieces: []string{".git"}}, {Any: true}, {Pieces: []string{"c", "g"}}}, Keep: true, Every: true},
		{Parts: []Part{{Pieces: []string{"node_", ""}}}},
	}
	got := m.Rules()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for name, part := range map[string]Part{".ENVRC. ": got[0].Parts[0], "ConFiG": got[2].Parts[2], "node_modules": got[3].Parts[0]} {
		if !part.Fits(name) || part.Fits("x"+name) {
			t.Errorf("%q and %+v", name, part)
		}
	}
	for _, none := range []Part{got[1].Parts[0], got[2].Parts[1]} {
		if none.Fits("") || none.Fits(trusted.Repository) || none.Fits("**") {
			t.Errorf("%+v fits a name", none)
		}
	}
	if Fold(".G\u200cIT. ") != ".git" || Fold("con\ufb01g") != "config" {
		t.Error(Fold(".G\u200cIT. "), Fold("con\ufb01g"))
	}
}

// A walk by spots, step by step.
func TestSpots(t *testing.T) {
	m, err := Compile(Default)
	must(t, err)
	top, err := Start(m, "/nowhere/work")
	must(t, err)
	const repo = "@" // after a directory's name: git takes it for a repository
	for path, want := range map[string]string{
		"src":                          "",
		".git":                         "keep",
		".GIT./config":                 "seal",
		".git/modules/a/b/hooks":       "seal",
		".git/modules/a@/hooks":        "seal",
		".git/modules/a@/refs/x/hooks": "", // a branch of that name
		".git/modules/a/refs/x/hooks":  "seal",
		"bare@/config":                 "seal",
		"bare/config":                  "",
		"node_modules/.envrc":          "",
		"node_modules/x/.git/config":   "seal",
		"Node_Modules":                 "",
		".github/workflows":            "seal",
		".github/x/workflows":          "",
	} {
		at, got := top, ""
		for part := range strings.SplitSeq(path, "/") {
			name, isRepo := strings.CutSuffix(part, repo)
			next, seals, keeps := m.Step(at, name)
			switch got = ""; {
			case seals:
				got = "seal"
			case keeps:
				got = "keep"
			}
			if at = next; isRepo {
				if at, keeps = m.Enter(at); !keeps {
					t.Errorf("%s: repositories are not kept", path)
				}
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for _, ws := range []string{"/nowhere/.git", "/nowhere/.vscode/x"} {
		if _, err := Start(m, ws); err == nil {
			t.Errorf("%s was taken", ws)
		}
	}
	above, err := Start(m, "/nowhere/.github")
	must(t, err)
	if _, seals, _ := m.Step(above, "workflows"); !seals {
		t.Error("a name that begins above the workspace was lost")
	}
}
