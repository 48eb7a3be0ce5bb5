// Package configuration has the commands about the settings of this machine, which need no daemon:
// config, setup, the profiles of the sandbox, and the help page about variables.
package configuration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/config"
	"palyra/internal/config/home"
	"palyra/internal/show"

	profiles "palyra/internal/profile"
)

// Command is `palyra config`.
func Command(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("config", "Check and show the configuration; needs no daemon",
		configCheckCommand(inv), configShowCommand(inv), configPathCommand(inv), configGroupsCommand(inv), toolchainsCommand(inv))
}

func configCheckCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "List everything that is wrong with the configuration", Args: syntax.Takes(),
		Long: "Looks at config.toml, the environment, your sandbox profiles and whether bubblewrap\n" +
			"is there, and names file and line of everything that is wrong. One profile that cannot be read stops all of tier\n" +
			"C: it may have been the stricter one.",
		Example: "  palyra config check\n  palyra config check --json",
		RunE: func(*cobra.Command, []string) error {
			problems := slices.Concat(config.Check(config.Options{Home: inv.Home, Env: inv.Env}), profileProblems(inv),
				bwrapProblems(inv, runtime.GOOS))
			result := struct {
				OK       bool             `json:"ok"`
				Problems []config.Problem `json:"problems"`
			}{len(problems) == 0, screen.Some(problems)}
			err := inv.Emit(result, func(w io.Writer) {
				for _, p := range problems {
					fmt.Fprintln(w, show.Line(p.String()))
				}
				if result.OK {
					fmt.Fprintln(w, "the configuration is good")
				}
			})
			if err == nil && !result.OK {
				return exit.Failedf(palyra.ReasonConfig, "the configuration has %d problem(s)", len(problems))
			}
			return err
		},
	}
}

// profileProblems lists the faults of the operator's profiles.
func profileProblems(inv *invocation.Invocation) []config.Problem {
	paths, err := config.Locate(config.Options{Home: inv.Home, Env: inv.Env})
	if err != nil {
		return nil // the configuration's own check reports it
	}
	var out []config.Problem
	for _, f := range profiles.Check(paths.Profiles()) {
		out = append(out, config.Problem{Where: f.Where(), Text: f.Text})
	}
	return out
}

// bwrapDefault is where the daemon looks for bubblewrap by default.
const bwrapDefault = "/usr/bin/bwrap"

// bwrapProblems lists obvious faults of bubblewrap, where programs run in it. The daemon checks
// more; its status has the result.
func bwrapProblems(inv *invocation.Invocation, system string) []config.Problem {
	c, err := inv.Config()
	if err != nil || system != "linux" || c.Process.Tier != "c" {
		return nil
	}
	path, text := cmp.Or(c.Process.Bwrap, bwrapDefault), ""
	info, err := os.Stat(path)
	switch {
	case err != nil:
		text = "there is no bubblewrap at " + path + ", so nothing runs in tier C: install it (apt install bubblewrap)"
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		text = path + " is no program, so nothing runs in tier C: install bubblewrap (apt install bubblewrap)"
	case info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0:
		text = path + " is set-user-id or set-group-id, so nothing runs in tier C: chmod ug-s " + path
	default:
		return nil
	}
	return []config.Problem{{Where: "process.bwrap", Text: text}}
}

func configShowCommand(inv *invocation.Invocation) *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use: "show", Short: "Show every setting and its value", Args: syntax.Takes(),
		Example: "  palyra config show --origin",
		RunE: func(*cobra.Command, []string) error {
			c, err := inv.Config()
			if err != nil {
				return err
			}
			list := c.Origins()
			return inv.Emit(map[string][]config.Origin{"settings": list}, func(w io.Writer) {
				header := []string{"KEY", "VALUE"}
				if origin {
					header = append(header, "ORIGIN", "WHERE")
				}
				var rows [][]string
				for _, o := range list {
					row := []string{o.Key, settingText(o.Value)}
					if origin {
						row = append(row, string(o.Source), o.Where)
					}
					rows = append(rows, row)
				}
				screen.Table(w, header, rows)
			})
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "also say where each value comes from")
	return cmd
}

func settingText(v any) string {
	if list, ok := v.([]string); ok {
		return strings.Join(list, ", ")
	}
	return fmt.Sprint(v)
}

func configPathCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "path", Short: "Show where configuration, state, keys and sockets are", Args: syntax.Takes(),
		Long: "Shows every place that Palyra uses. Of a daemon that is root, what runs have of\n" +
			"their own lies below /var/lib, by the state's id: while it runs, the id is shown.",
		Example: "  palyra config path\n  palyra config path --json | jq -r .operator_key",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := inv.Config()
			if err != nil {
				return err
			}
			agent, operator, err := c.Paths.Sockets()
			if errors.Is(err, home.ErrCopied) { // the ones that a daemon of this home would have
				dir := c.Paths.SocketDir()
				agent, operator, err = filepath.Join(dir, home.AgentSocket), filepath.Join(dir, home.OperatorSocket), nil
			}
			if err != nil {
				return err
			}
			result := struct {
				config.Paths
				config.Places
				Agent    string `json:"agent_socket"`
				Operator string `json:"operator_socket"`
			}{c.Paths, c.Places(stateID(cmd.Context(), inv)), agent, operator}
			return inv.Emit(result, func(w io.Writer) {
				p, at := c.Paths, result.Places
				screen.Fields(w, screen.Pair{"Home", p.Home}, screen.Pair{"Configuration", p.Config},
					screen.Pair{"System's", p.System}, screen.Pair{"State", p.State}, screen.Pair{"Keys", p.Keys},
					screen.Pair{"Operator key", p.OperatorKey}, screen.Pair{"Agent's door", agent},
					screen.Pair{"Operator's door", operator}, screen.Pair{"Cache", p.Cache},
					screen.Pair{"Quarantine", p.Quarantine}, screen.Pair{"Runs", at.Cells},
					screen.Pair{"Runs' caches", at.Caches}, screen.Pair{"Stages", at.Stages},
					screen.Pair{"Kept for undo", at.Undo}, screen.Pair{"Trials", at.Posture})
			})
		},
	}
}

// stateID is the id of the state, which only the daemon knows. Without a daemon that answers at
// once it is a placeholder: only names under root contain it.
func stateID(ctx context.Context, inv *invocation.Invocation) string {
	const unknown = "<state id>"
	c, err := inv.Operator()
	if err != nil {
		return unknown
	}
	defer c.Close()
	ctx, done := context.WithTimeout(ctx, time.Second)
	defer done()
	s, err := c.Status(ctx)
	if err != nil || s.StateID == "" {
		return unknown
	}
	return s.StateID
}

// EnvironmentTopic is the help page `palyra help environment`.
func EnvironmentTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("A setting is taken from the strongest place that names it: --set of `palyra up`, the\n" +
		"environment, the user's config.toml, the system's, the default. These variables count:\n\n" +
		"  PALYRA_HOME\n      directory of state, keys and sockets; --home is stronger\n" +
		"  " + invocation.RemoteVariable + "\n      the daemon on another machine to talk to, by its name in 'palyra device remotes';\n " +
		"     --remote is stronger, and --remote '' means this machine's\n" +
		"  " + invocation.TokenVariable + "\n      file with the token of a named agent\n" +
		"  NO_COLOR\n      print without colours\n")
	defaults := config.Default()
	for _, o := range defaults.Origins() {
		fmt.Fprintf(&b, "  %s\n      %s (%s, default %s)\n", o.Variable, o.Text, o.Key, settingText(o.Value))
	}
	b.WriteString("\nLists are separated by commas. A variable that looks like a setting and is none is an\nerror.")
	return &cobra.Command{Use: "environment", Short: "Which variables count", Long: b.String()}
}
