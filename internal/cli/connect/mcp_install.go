package connect

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/hook"
	"palyra/internal/mcp/install"
	"palyra/internal/show"
)

// MCPInstall is `palyra mcp install`.
func MCPInstall(inv *invocation.Invocation) *cobra.Command {
	var o mcpInstallOptions
	names := clientNames()
	cmd := &cobra.Command{
		Use: "install CLIENT", Short: "Connect an MCP client to Palyra", Args: syntax.Takes("CLIENT"),
		Long: "Writes Palyra into the configuration of an MCP client: " + strings.Join(names, ", ") + ".\n" +
			"The user's own file is changed, or with --workspace that of a project. Everything\n" +
			"else in it stays as it is, the old file is kept beside it, and a file that cannot be\n" +
			"changed for certain is left alone. Start the client anew afterwards.\n\n" +
			"Clients that would ask before Palyra's tools are told not to, since the gate asks: for\n" +
			"Claude Code a rule in its settings.json, for Codex a line in the entry.\n\n" +
			"This gives the client Palyra's tools. It takes none of its own away: what its own shell\n" +
			"and editor do does not pass Palyra. --hook puts those behind the gate as well, where\n" +
			"the client has hooks (see 'palyra help hook').",
		Example: "  palyra mcp install claude-code --hook\n  palyra mcp install codex --print\n  palyra mcp install vscode --workspace ~/project",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, ok := install.Find(args[0])
			if !ok {
				return exit.Usagef("the client %q is not known; it must be one of %s", args[0], strings.Join(names, ", "))
			}
			if _, hooks := hook.Find(c.Name); o.hook && !hooks {
				return exit.Usagef("--hook: %s has no hooks that Palyra knows", c.Title)
			}
			return installMCP(cmd.Context(), inv, c, o)
		},
		ValidArgs: names,
	}
	cmd.Flags().BoolVar(&o.print, "print", false, "print the lines and where they go, and write nothing")
	cmd.Flags().BoolVar(&o.hook, "hook", false, "put the client's own tools behind the gate as well: 'palyra hook install'")
	cmd.Flags().StringVarP(&o.workspace, "workspace", "w", "", "write the file of this project, and have tools work there")
	return cmd
}

// mcpInstallOptions holds the options of mcp install.
type mcpInstallOptions struct {
	workspace   string
	print, hook bool
}

// installed is the result of install.
type installed struct {
	Client string `json:"client"`
	install.Result
	Lines string            `json:"lines"`
	Allow *install.Result   `json:"allow,omitempty"`       // the rule in Claude Code's settings
	Rule  string            `json:"allow_lines,omitempty"` // the same as lines, with --print
	Hook  *hookInstallation `json:"hook,omitempty"`        // with --hook
}

func installMCP(ctx context.Context, inv *invocation.Invocation, c install.Client, o mcpInstallOptions) error {
	var err error
	if o.workspace != "" {
		if o.workspace, err = inv.Directory(o.workspace); err == nil && inv.RemoteName() == "" {
			err = isThere(o.workspace)
		}
		if err != nil {
			return err
		}
	}
	s, err := serverEntry(inv, o.workspace)
	if err != nil {
		return err
	}
	out := installed{Client: c.Name}
	if out.Lines, err = c.Lines(s); err != nil {
		return err
	}
	if out.Path, err = c.Path(places(inv), o.workspace); err != nil {
		return err
	}
	var late error
	if !o.print {
		if !filepath.IsAbs(out.Path) {
			return noHome()
		}
		if out.Result, err = c.Write(out.Path, s); err != nil {
			return err
		}
		out.Allow, late = allowServer(inv, c, o.workspace, true)
	}
	if o.print {
		return printMCP(ctx, inv, c, out, o)
	}
	if agent, ok := hook.Find(c.Name); ok && inv.JSON && o.hook { // one answer, in one object
		done, _, err := writeHook(ctx, inv, ownHook(agent, o.workspace))
		if err != nil {
			return err
		}
		out.Hook = &done
		return inv.Emit(out, nil)
	}
	if err := inv.Emit(out, func(w io.Writer) { sayInstalled(inv, w, c, out, o, late) }); err != nil {
		return err
	}
	return offerHook(ctx, inv, c, o)
}

// printMCP prints everything that install would write, and where.
func printMCP(ctx context.Context, inv *invocation.Invocation, c install.Client, out installed, o mcpInstallOptions) error {
	if c.Name == hook.ClaudeCode {
		rule, err := install.WithRule(nil, true)
		if err != nil {
			return err
		}
		out.Allow, out.Rule = &install.Result{Path: install.HookSettings(places(inv), o.workspace)}, string(rule)
	}
	sayHook := func(io.Writer) {}
	if agent, ok := hook.Find(c.Name); ok && o.hook {
		h := ownHook(agent, o.workspace)
		h.only = true
		done, say, err := writeHook(ctx, inv, h)
		if err != nil {
			return err
		}
		out.Hook, sayHook = &done, say
	}
	return inv.Emit(out, func(w io.Writer) {
		inv.Say("palyra: these lines go into %s", show.Arg(out.Path))
		io.WriteString(w, out.Lines)
		if set := c.Sets(); set != "" {
			inv.Say("  set: %s", set)
		}
		if out.Allow != nil {
			inv.Say("palyra: these lines go into %s: Claude Code does not ask before Palyra's tools, the gate does", show.Arg(out.Allow.Path))
			fmt.Fprintln(w, strings.TrimSuffix(out.Rule, "\n"))
		}
		sayHook(w)
	})
}

// allowServer has Claude Code not ask about Palyra's tools by itself, or ask again. A failure to
// write is only reported.
func allowServer(inv *invocation.Invocation, c install.Client, workspace string, in bool) (*install.Result, error) {
	if c.Name != hook.ClaudeCode {
		return nil, nil
	}
	done, err := install.Allow(install.HookSettings(places(inv), workspace), in)
	if err != nil {
		return nil, err
	}
	return &done, nil
}

func sayInstalled(inv *invocation.Invocation, w io.Writer, c install.Client, out installed, o mcpInstallOptions, late error) {
	if !out.Changed {
		fmt.Fprintf(w, "%s: %s has Palyra already\n", c.Title, show.Arg(out.Path))
	} else {
		fmt.Fprintf(w, "%s: Palyra is in %s\n", c.Title, show.Arg(out.Path))
		if out.Backup != "" {
			fmt.Fprintf(w, "  the file as it was before Palyra: %s\n", show.Arg(out.Backup))
		}
	}
	if set := c.Sets(); set != "" {
		inv.Say("  set: %s", set)
	}
	switch {
	case late != nil:
		inv.Say("  note: Claude Code asks before Palyra's tools as well, until %q is in permissions.allow of its settings.json",
			install.AllowRule)
	case out.Allow != nil && out.Allow.Changed:
		inv.Say("  set: %q in permissions.allow of %s: Claude Code does not ask before Palyra's tools, the gate does", install.AllowRule,
			show.Arg(out.Allow.Path))
	}
	if !out.Changed {
		return
	}
	if o.workspace != "" {
		inv.Say("  note: the file names programs and directories of this machine: keep it out of what the project shares")
		if c.Name == hook.ClaudeCode {
			inv.Say("  note: Claude Code does not start a project's servers until you have said yes to them in its window")
		}
	}
	inv.Say("  next: start %s anew, and keep the daemon running with `palyra up --detach`", c.Title)
	inv.Say("  undo: %s", undo("mcp uninstall "+c.Name, o.workspace))
}

// offerHook says that the client's own tools do not pass Palyra, and installs the hook for them if wanted.
func offerHook(ctx context.Context, inv *invocation.Invocation, c install.Client, o mcpInstallOptions) error {
	agent, ok := hook.Find(c.Name)
	if !ok {
		inv.Say("  note: what %s's own tools do does not pass Palyra: switch them off there, or run it inside with `palyra agent run`", c.Title)
		return nil
	}
	line := "hook install " + c.Name
	if agent.OwnServer {
		line += " --own-server palyra"
	}
	command := undo(line, o.workspace)
	wanted := o.hook
	found := hooked(inv, agent, o.workspace)
	if found.Command != "" && !found.Off && !wanted {
		inv.Say("  its own tools are behind the gate already: the hook is installed")
		if agent.OwnServer && ownServer(found.Command) != "palyra" {
			inv.Say("  note: the hook asks about Palyra's own tools as well; to have the gate alone ask: %s", command)
		}
		return nil
	}
	if !wanted {
		switch {
		case found.Off:
			inv.Say("  note: the settings switch all hooks off (disableAllHooks), or cannot be read: no hook counts until that is mended")
		case found.Other:
			inv.Say("  note: there is an entry that names the hook and is not the one that this program writes for you: it does not count")
		}
		inv.Say("  note: what %s's own tools do (its shell, its editor) does not pass Palyra by this", c.Title)
		if inv.Interactive() && !inv.JSON {
			word, err := terminal.AskLine(ctx, "  put them behind the gate as well? [y/N] ")
			wanted = err == nil && (word == "y" || word == "yes")
		}
	}
	if !wanted {
		inv.Say("  to put them behind the gate: %s", command)
		return nil
	}
	return installHook(ctx, inv, ownHook(agent, o.workspace))
}

// serverEntry is how a client starts this very program: by its full path, because clients that are
// started from a desktop have another PATH.
func serverEntry(inv *invocation.Invocation, workspace string) (install.Server, error) {
	self, err := quick.Self()
	if err != nil {
		return install.Server{}, err
	}
	s := install.Server{Command: self}
	paths, err := inv.Paths()
	if err != nil {
		return s, err
	}
	if paths.Home != "" {
		s.Args = append(s.Args, "--home", paths.Home)
	}
	if name := inv.RemoteName(); name != "" {
		s.Args = append(s.Args, "--remote", name)
	}
	s.Args = append(s.Args, "mcp", "serve")
	s.Shared = workspace != ""
	if workspace != "" {
		s.Args = append(s.Args, "--workspace", workspace)
	}
	return s, nil
}
