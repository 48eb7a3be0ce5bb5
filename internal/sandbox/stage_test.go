package sandbox

import (
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/stage"
)

// Directories that git is told to move are known by the words of the command, or of the script.
func TestRenames(t *testing.T) {
	for _, c := range []struct {
		exe  string
		argv []string
		want []string
	}{
		{"/usr/bin/git", []string{"git", "mv", "a", "b/c"}, []string{"sub/a", "sub/b/c"}},
		{"/usr/bin/git", []string{"/usr/bin/git", "mv", "a/", "/w/x"}, []string{"sub/a", "x"}},
		{"/bin/sh", []string{"sh", "-c", "cd x; git mv 'a' \"b\" && ls d; git mv e f"}, []string{"sub/a", "sub/b", "sub/e", "sub/f"}},
		{"/bin/sh", []string{"sh", "-c", "mv a b; legit mv c d"}, nil},
		{"/usr/bin/git", []string{"git", "mv", "/etc", "..", "../.."}, nil},
		{"/usr/bin/make", []string{"make"}, nil},
	} {
		p := palyra.Plan{Argv: c.argv, Cwd: "/w/sub", Workspace: palyra.WorkspaceRef{Path: "/w"}, Executable: palyra.Executable{Path: c.exe}}
		if got := renames(p); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, not %q", c.argv, got, c.want)
		}
	}
}

// Changes that were not kept say why: because somebody changed the same files, or because another run must find them.
func TestWhyNothingWasKept(t *testing.T) {
	for want, e := range map[string]stage.Settled{
		"somebody else changed the same files": {Conflicts: []string{`"f"`}},
		"another run that is under way":        {Conflicts: []string{`"f"`}, InUse: true},
	} {
		var res palyra.Result
		settle(&res, e)
		if res.Effects != palyra.EffectsConflict || !strings.HasPrefix(res.Failure.Text, want) || res.Failure.Remedy == "" {
			t.Errorf("%+v, %+v", res.Effects, res.Failure)
		}
	}
}
