package connect

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/mcp/install"
	"palyra/internal/show"
)

// MCPUninstall is `palyra mcp uninstall`.
func MCPUninstall(inv *invocation.Invocation) *cobra.Command {
	var print bool
	var workspace string
	names := clientNames()
	cmd := &cobra.Command{
		Use: "uninstall CLIENT", Short: "Take Palyra out of an MCP client", Args: syntax.Takes("CLIENT"), ValidArgs: names,
		Long: "Undoes 'palyra mcp install': takes the entry palyra out of the configuration of an MCP\n" +
			"client: " + strings.Join(names, ", ") + ". Only an entry that starts\n" +
			"'palyra mcp serve' is taken. Everything else in the file stays as it is, the old file is\n" +
			"kept beside it, and a file that cannot be changed for certain is left alone. Start the\n" +
			"client anew afterwards: one that runs keeps its tools.",
		Example: "  palyra mcp uninstall claude-code\n  palyra mcp uninstall codex --print\n  palyra mcp uninstall vscode --workspace ~/project",
		RunE: func(_ *cobra.Command, args []string) error {
			c, ok := install.Find(args[0])
			if !ok {
				return exit.Usagef("the client %q is not known; it must be one of %s", args[0], strings.Join(names, ", "))
			}
			return uninstallMCP(inv, c, workspace, print)
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "print the lines that would be taken out, and write nothing")
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "change the file of this project")
	_ = cmd.MarkFlagDirname("workspace")
	return cmd
}

// uninstalled is the result of uninstall.
type uninstalled struct {
	Client string `json:"client"`
	install.Result
	Lines string          `json:"lines,omitempty"` // with --print
	Allow *install.Result `json:"allow,omitempty"` // the rule in Claude Code's settings
}

func uninstallMCP(inv *invocation.Invocation, c install.Client, workspace string, print bool) error {
	workspace, err := hereAt(workspace)
	if err != nil {
		return err
	}
	out := uninstalled{Client: c.Name}
	if out.Path, err = c.Path(places(inv), workspace); err != nil {
		return err
	}
	if !filepath.IsAbs(out.Path) {
		return noHome()
	}
	if print {
		out.Lines, err = c.Entry(out.Path)
	} else {
		if out.Allow, err = allowServer(inv, c, workspace, false); err != nil {
			inv.Say("palyra: %v", err) // the entry is removed all the same
		}
		out.Result, err = c.Remove(out.Path, workspace != "")
	}
	if err != nil {
		return err
	}
	return inv.Emit(out, func(w io.Writer) { sayUninstalled(inv, w, c, out) })
}

func sayUninstalled(inv *invocation.Invocation, w io.Writer, c install.Client, out uninstalled) {
	switch {
	case out.Lines != "":
		inv.Say("palyra: these lines would be taken out of %s", show.Arg(out.Path))
		fmt.Fprintln(w, show.Block(strings.TrimRight(out.Lines, "\r\n")))
		return
	case !out.Changed:
		fmt.Fprintf(w, "%s: %s has no entry of Palyra\n", c.Title, show.Arg(out.Path))
		return
	}
	fmt.Fprintf(w, "%s: Palyra is out of %s\n", c.Title, show.Arg(out.Path))
	if out.Removed {
		fmt.Fprintln(w, "  there was nothing else in the file, and it is gone")
	} else if out.Backup != "" {
		fmt.Fprintf(w, "  the file as it was before Palyra: %s\n", show.Arg(out.Backup))
	}
	if out.Allow != nil && out.Allow.Changed {
		fmt.Fprintf(w, "  %q is out of permissions.allow of %s\n", install.AllowRule, show.Arg(out.Allow.Path))
	}
	inv.Say("  next: start %s anew: until then it keeps the tools that it has", c.Title)
}

func clientNames() []string {
	var names []string
	for _, c := range install.Clients() {
		names = append(names, c.Name)
	}
	return names
}
