package connect

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/hook"
	"palyra/internal/mcp/install"
	"palyra/internal/show"
)

// unhooked is the result of hook uninstall with --json.
type unhooked struct {
	Agent string `json:"agent"`
	install.Result
	Trust *install.Result `json:"trust,omitempty"` // what Codex was told of the hook
}

// HookUninstall is `palyra hook uninstall`.
func HookUninstall(inv *invocation.Invocation) *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use: "uninstall AGENT", Short: "Take the hook out of an agent's settings", Args: syntax.Takes("AGENT"),
		ValidArgs: hook.Names(),
		Long: "Undoes 'palyra hook install': takes the hook out of the agent's settings, or with\n" +
			"--workspace out of those of a directory. The agent's own tools do not ask Palyra then.\n" +
			"What else is in the file stays, the old file is kept beside it, and doing it twice\n" +
			"changes nothing. What Codex was told to trust goes out of its config.toml too.",
		Example: "  palyra hook uninstall claude-code\n  palyra hook uninstall claude-code --workspace .",
		RunE: func(_ *cobra.Command, args []string) error {
			agent, err := findAgent(args[0])
			if err != nil {
				return err
			}
			o.agent = agent
			return uninstallHook(inv, o)
		},
	}
	cmd.Flags().StringVarP(&o.workspace, "workspace", "w", "", "take it out for this directory only (default: for you, everywhere)")
	_ = cmd.MarkFlagDirname("workspace")
	return cmd
}

func uninstallHook(inv *invocation.Invocation, o hookOptions) (err error) {
	if o.workspace, err = hereAt(o.workspace); err != nil {
		return err
	}
	path := o.settings(places(inv))
	if !filepath.IsAbs(path) {
		return noHome()
	}
	var keys []string
	if o.agent.Name == hook.Codex {
		keys = install.CodexHookKeys(path)
	}
	done, err := install.RemoveHook(o.form(), path)
	if err != nil {
		return err
	}
	out, late := unhooked{Agent: o.agent.Name, Result: done}, error(nil)
	if len(keys) > 0 {
		var trust install.Result
		if trust, late = install.DistrustCodexHooks(install.CodexConfig(places(inv)), keys); trust.Changed {
			out.Trust = &trust
		}
	}
	return inv.Emit(out, func(w io.Writer) { sayUnhooked(inv, w, o, out, late) })
}

// sayUnhooked prints what was taken out, and what was not.
func sayUnhooked(inv *invocation.Invocation, w io.Writer, o hookOptions, out unhooked, late error) {
	if !out.Changed {
		fmt.Fprintf(w, "%s has no hook of Palyra\n", show.Line(out.Path))
		return
	}
	fmt.Fprintf(w, "took the hook out of %s; %s does not ask Palyra from its next session on\n", show.Line(out.Path), o.agent.Title)
	if out.Removed {
		fmt.Fprintln(w, "  there was nothing else in the file, and it is gone")
	} else if out.Backup != "" {
		fmt.Fprintf(w, "  the file as it was before Palyra: %s\n", show.Line(out.Backup))
	}
	if late != nil {
		m := inv.Message(late)
		inv.Say("  note: that Codex trusts the hook is still on record: %s\n  %s", show.Line(m.Text), show.Line(m.Remedy))
	}
	if out.Trust != nil {
		fmt.Fprintf(w, "  that Codex trusts it is out of %s\n", show.Line(out.Trust.Path))
	}
	if o.agent.Name == hook.Codex && !out.Removed {
		inv.Say("  note: Codex knows hooks by their place in the file: it may ask in its window whether it should trust the others")
	}
}

// hereAt is the absolute path of a directory; "" stays "".
func hereAt(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", exit.Failedf(palyra.ReasonPathInvalid, "%v", err)
	}
	return abs, nil
}

func noHome() error {
	return exit.Failedf(palyra.ReasonFileNotFound, "there is no home directory").WithRemedy("set HOME, or name a directory with --workspace")
}

// undo is the command line that undoes an installation.
func undo(words, workspace string) string {
	if workspace != "" {
		words += " --workspace " + show.Arg(workspace)
	}
	return "palyra " + words
}
