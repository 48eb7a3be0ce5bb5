package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/mcp/install"
	"palyra/internal/show"
)

// hookInstallation is what install says with --json.
type hookInstallation struct {
	Agent   string `json:"agent"`
	Command string `json:"command"`
	install.Result
}

func (a *app) hookInstall() *cobra.Command {
	var workspace, mode string
	var only bool
	cmd := &cobra.Command{
		Use: "install AGENT", Short: "Write the hook into an agent's settings", Args: takes("AGENT"),
		ValidArgs: []string{"claude-code"},
		Long: "Makes Claude Code ask Palyra before it uses any tool: writes the hook into\n" +
			"~/.claude/settings.json, or with --workspace into that of a directory. What else is in\n" +
			"the file stays, the old file is kept beside it, and doing it twice changes nothing.",
		Example: "  palyra hook install claude-code\n  palyra hook install claude-code --workspace . --mode check\n" +
			"  palyra hook install claude-code --print",
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != "claude-code" {
				return usage("%s is no agent that is known here: claude-code", show.Arg(args[0]))
			}
			return a.installHook(workspace, mode, only)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&workspace, "workspace", "w", "", "install for this directory only (default: for you, everywhere)")
	f.StringVar(&mode, "mode", hookRewrite, "what becomes of a shell command: rewrite (into the sandbox) or check (and run outside)")
	f.BoolVar(&only, "print", false, "print the lines and write nothing")
	_ = cmd.MarkFlagDirname("workspace")
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{hookRewrite, hookCheck}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// installHook writes the hook, or only shows it.
func (a *app) installHook(workspace, mode string, only bool) error {
	command, err := a.hookCommand(mode)
	if err != nil {
		return err
	}
	if only {
		lines, err := install.HookLines(command)
		if err == nil {
			_, err = io.WriteString(a.Stdout, lines)
		}
		return err
	}
	home, _ := a.variable("HOME")
	if home == "" && workspace == "" {
		return failed(palyra.ReasonFileNotFound, "there is no home directory").WithRemedy("set HOME, or name a directory with --workspace")
	}
	if workspace != "" {
		if workspace, err = a.directory(workspace); err != nil {
			return err
		}
	}
	done, err := install.WriteHook(install.HookSettings(install.Places{Home: home}, workspace), command)
	if err != nil {
		return err
	}
	return a.emit(hookInstallation{"claude-code", command, done}, func(w io.Writer) {
		if !done.Changed {
			fmt.Fprintf(w, "%s has the hook already\n", show.Line(done.Path))
			return
		}
		fmt.Fprintf(w, "wrote %s; Claude Code asks Palyra from its next session on\n", show.Line(done.Path))
		if done.Backup != "" {
			fmt.Fprintf(w, "the file as it was: %s\n", show.Line(done.Backup))
		}
	})
}

// hookCommand is the line that the agent runs.
func (a *app) hookCommand(mode string) (string, error) {
	if mode != hookRewrite && mode != hookCheck {
		return "", usage("--mode %q is neither rewrite nor check", mode)
	}
	self, err := os.Executable()
	if err != nil {
		return "", failed(palyra.ReasonInternal, "cannot tell where palyra is: %v", err)
	}
	words := []string{self, "hook", "claude-code"}
	if a.home != "" {
		words = append(words, "--home", a.home)
	}
	if mode != hookRewrite {
		words = append(words, "--mode", mode)
	}
	return shellLine(words) + orBlock, nil
}

// orBlock makes a no of every other end: that palyra is not there any more, or was
// killed, would let the call pass.
const orBlock = " || exit 2"
