package configuration

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"

	profiles "palyra/internal/profile"
)

// Profiles is `palyra sandbox profiles`.
func Profiles(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "profiles [NAME]", Short: "List the profiles of sandboxes, or show one", Args: syntax.Takes("[NAME]"),
		Long: "A profile says what a sandbox of tier C has beside the workspace: toolchains, caches,\n" +
			"variables, hosts. It is chosen by the command's name, or with --profile. Your own\n" +
			"profiles are the files profiles/*.toml beside config.toml; they replace those that\n" +
			"are shipped under the same name. Needs no daemon, and shows what the daemon of the\n" +
			"same configuration uses.",
		Example: "  palyra sandbox profiles\n  palyra sandbox profiles git-setup",
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := profileList(inv)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return inv.Emit(map[string][]profiles.Info{"profiles": list}, func(w io.Writer) { printProfiles(w, list) })
			}
			i := slices.IndexFunc(list, func(p profiles.Info) bool { return p.Name == args[0] })
			if i < 0 {
				return palyra.Errorf(palyra.NotFound, palyra.ReasonBadProfile, "there is no profile %q", args[0]).
					WithRemedy("see 'palyra sandbox profiles'")
			}
			return inv.Emit(list[i], func(w io.Writer) { printProfile(w, list[i]) })
		},
	}
}

// profileList reads the profiles that a daemon with this configuration would read.
func profileList(inv *invocation.Invocation) ([]profiles.Info, error) {
	c, err := inv.Config()
	if err != nil {
		return nil, err
	}
	set, err := profiles.New(profiles.Config{
		Dir:  c.Paths.Profiles(),
		Home: func(int64) (string, error) { return "", errors.New("nothing is resolved here") },
	})
	if err != nil {
		return nil, err
	}
	return set.List()
}

func printProfiles(w io.Writer, list []profiles.Info) {
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{p.Name, strings.Join(p.Commands, " "), p.Source, p.Description})
	}
	screen.Table(w, []string{"PROFILE", "FOR", "FROM", "DESCRIPTION"}, rows)
}

func printProfile(w io.Writer, p profiles.Info) {
	git := ""
	if p.GitConfig {
		git = "name, address and two settings of yours"
	}
	flags := []string{}
	if p.Asks {
		flags = append(flags, "always asks")
	}
	if p.UnixSockets {
		flags = append(flags, "may use unix sockets")
	}
	screen.Fields(
		w, screen.Pair{"profile", p.Name}, screen.Pair{"description", p.Description}, screen.Pair{"from", p.Source},
		screen.Pair{"commands", strings.Join(p.Commands, " ")},
		screen.Pair{"includes", strings.Join(p.Includes, " ")}, screen.Pair{"mounts", strings.Join(p.Mounts, " ")},
		screen.Pair{"caches", strings.Join(p.Caches, " ")}, screen.Pair{"variables", strings.Join(p.Env, " ")},
		screen.Pair{"path", strings.Join(p.Path, " ")}, screen.Pair{"hosts", strings.Join(p.Egress, " ")},
		screen.Pair{"seals", strings.Join(p.Seals, " ")}, screen.Pair{"unseals", strings.Join(p.Unseal, " ")},
		screen.Pair{"files", strings.Join(p.Files, " ")}, screen.Pair{"git", git},
		screen.Pair{"flags", strings.Join(flags, ", ")},
	)
}
