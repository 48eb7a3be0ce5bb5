package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/root"
)

// Each command is found by its own names, and no other is made for it.
func TestOnlyTheCommandThatIsCalledIsMade(t *testing.T) {
	for _, top := range tops() {
		names := strings.Fields(top.Names)
		c := top.Make(&invocation.Invocation{})
		if c.Name() != names[0] || !slices.Equal(c.Aliases, append([]string{}, names[1:]...)) && len(c.Aliases)+len(names) > 1 {
			t.Errorf("%q makes %s, which is also called %q", top.Names, c.Name(), c.Aliases)
		}
		for _, name := range names {
			made := root.Called(tops(), &invocation.Invocation{}, []string{"--home", "x", "--json", name, "--help"})
			if len(made) != 1 && !top.All {
				t.Errorf("%s makes %d commands", name, len(made))
			}
		}
	}
	all := len(tops())
	for _, words := range [][]string{
		nil, {"help", "tui"}, {"__complete", "tu"}, {"man"}, {"tuii"}, {"--what", "tui"}, {"--home"}, {"--help"},
	} {
		if made := root.Called(tops(), &invocation.Invocation{}, words); len(made) != all {
			t.Errorf("%q makes %d of %d commands", words, len(made), all)
		}
	}
}

// The help of a command is the same whether the others are there or not.
func TestHelpOfTheOnlyCommand(t *testing.T) {
	page := func(name string, words ...string) string {
		var out strings.Builder
		cmd := rootCommand(&invocation.Invocation{}, words...)
		cmd.SetOut(&out)
		cmd.SetArgs([]string{name, "--help"})
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for _, name := range []string{"tui", "approvals", "exec", "hook"} {
		if diff := cmp.Diff(page(name), page(name, name)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
