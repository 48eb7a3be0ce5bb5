package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/hook"
	"palyra/internal/mcp/install"
	"palyra/internal/show"
)

// hookInstallation is what install says with --json.
type hookInstallation struct {
	Agent   string `json:"agent"`
	Command string `json:"command"`
	install.Result
	Lines string `json:"lines"`
}

func (a *app) hookInstall() *cobra.Command {
	var o hookInstallOptions
	cmd := &cobra.Command{
		Use: "install AGENT", Short: "Write the hook into an agent's settings", Args: takes("AGENT"),
		ValidArgs: []string{claudeCode, codexAgent},
		Long: "Makes an agent ask Palyra before it uses any tool. For Claude Code the hook is written\n" +
			"into ~/.claude/settings.json, for Codex into ~/.codex/hooks.json, or with --workspace\n" +
			"into that of a directory. What else is in the file stays, the old file is kept beside\n" +
			"it, and doing it twice changes nothing.\n\n" +
			"Codex runs a hook only when you have told it to trust it, in its window; 'codex exec'\n" +
			"skips one that is not trusted without a word. Its commands must be able to reach the\n" +
			"daemon: sandbox_workspace_write.network_access = true, or no sandbox of its own. And it\n" +
			"lets a tool pass when a hook ends in another way than with a no.",
		Example: "  palyra hook install claude-code\n  palyra hook install claude-code --workspace . --mode check\n" +
			"  palyra hook install codex --print",
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, ok := hook.Find(args[0])
			if !ok {
				return usage("%s is no agent that is known here: %s or %s", show.Arg(args[0]), claudeCode, codexAgent)
			}
			o.agent = agent
			return a.installHook(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.workspace, "workspace", "w", "", "install for this directory only (default: for you, everywhere)")
	f.StringVar(&o.mode, "mode", hookRewrite, "what becomes of a shell command: rewrite (into the sandbox) or check (and run outside)")
	f.StringVar(&o.own, "own-server", "", "the name that Claude Code has for Palyra's MCP server (see 'palyra mcp install'): its tools are left to the gate they go through anyway")
	f.BoolVar(&o.only, "print", false, "print the lines and write nothing")
	_ = cmd.MarkFlagDirname("workspace")
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{hookRewrite, hookCheck}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// hookInstallOptions is what the command line of hook install says.
type hookInstallOptions struct {
	agent                hook.Agent
	workspace, mode, own string
	only                 bool
}

// settings is the file that an agent's hooks are in.
func (o hookInstallOptions) settings(p install.Places) string {
	if o.agent.Name == codexAgent {
		return install.CodexHooks(p, o.workspace)
	}
	return install.HookSettings(p, o.workspace)
}

// serverForm is the name of a server in an agent's settings, as far as it can be told
// in the name of a tool.
var serverForm = regexp.MustCompile(`^[A-Za-z0-9-]([A-Za-z0-9_-]{0,62}[A-Za-z0-9-])?$`)

// installHook writes the hook, or only shows it, and says so.
func (a *app) installHook(ctx context.Context, o hookInstallOptions) error {
	done, say, err := a.writeHook(ctx, o)
	if err != nil {
		return err
	}
	return a.emit(done, say)
}

// writeHook writes the hook, or nothing where it is only to be shown; say tells people.
func (a *app) writeHook(ctx context.Context, o hookInstallOptions) (wrote hookInstallation, say func(io.Writer), err error) {
	refuse := func(err error) (hookInstallation, func(io.Writer), error) { return hookInstallation{}, nil, err }
	workspace, only := o.workspace, o.only
	command, err := a.hookCommand(o)
	if err != nil {
		return refuse(err)
	}
	var claude version
	if o.agent.Name == claudeCode {
		claude = a.claudeVersion(ctx)
	}
	if o.mode == hookRewrite && claude.before(rewritesSince) {
		return refuse(failed(palyra.ReasonUnsupported, "Claude Code %s does not take a rewritten command: it would run the original", claude).
			WithRemedy("update it, or install with --mode check"))
	}
	entry := install.Hook{
		Command: command, Blocks: claude.known() && !claude.before(blocksSince),
		Unsure: !claude.known() && o.agent.Name == claudeCode, Shows: o.agent.Name == codexAgent,
	}
	lines, err := install.HookLines(entry)
	if err != nil {
		return refuse(err)
	}
	home, _ := a.variable("HOME")
	if home == "" && only {
		home = "~"
	}
	if home == "" && workspace == "" {
		return refuse(noHome())
	}
	if workspace != "" {
		if workspace, err = a.directory(workspace); err != nil {
			return refuse(err)
		}
		o.workspace = workspace
	}
	done := install.Result{Path: o.settings(install.Places{Home: home})}
	if !only {
		if done, err = install.WriteHook(done.Path, entry); err != nil {
			return refuse(err)
		}
	}
	return hookInstallation{o.agent.Name, command, done, lines}, func(w io.Writer) {
		if only {
			a.say("palyra: these lines go into %s", show.Line(done.Path))
			fmt.Fprintln(w, strings.TrimSuffix(lines, "\n"))
			return
		}
		a.sayHooked(w, done, o)
		if done.Changed {
			a.sayLimits(o.agent, claude, entry.Blocks)
		}
	}, nil
}

// sayLimits says what the hook does not do in the agent that was found.
func (a *app) sayLimits(agent hook.Agent, claude version, blocks bool) {
	if agent.Name == codexAgent {
		a.say("  note: start Codex in its window and trust the hook: `codex exec` skips one that is not trusted, without a word")
		a.say("  note: let its commands reach the daemon: network_access = true below [sandbox_workspace_write] of its config.toml")
		a.say("  note: Codex lets a tool pass when the hook is killed or not answered in time")
		return
	}
	if !claude.known() {
		a.say("  note: no `claude` is on your path, so its version is not known and onFailure is left out of the entry")
	}
	if !blocks {
		a.say("  note: Claude Code lets a tool pass when its hook is not answered in time. From version %s on it can block\n"+
			"  instead; install again when you have that (found: %s)", blocksSince, claude)
	}
}

// sayHooked says what was done, what it needs from now on and how it is undone.
func (a *app) sayHooked(w io.Writer, done install.Result, o hookInstallOptions) {
	if !done.Changed {
		fmt.Fprintf(w, "%s has the hook already\n", show.Line(done.Path))
		return
	}
	fmt.Fprintf(w, "wrote %s; %s asks Palyra from its next session on\n", show.Line(done.Path), o.agent.Title)
	if done.Backup != "" {
		fmt.Fprintf(w, "  the file as it was: %s\n", show.Line(done.Backup))
	}
	a.say("  next: keep the daemon running with `palyra up --detach`: while it is down every tool is blocked")
	a.say("  what it asks you, `palyra approvals watch` shows in another terminal; `palyra approvals decide ID` answers")
	a.say("  undo: %s", undo("hook uninstall "+o.agent.Name, o.workspace))
}

// hookCommand is the line that the agent runs.
func (a *app) hookCommand(o hookInstallOptions) (string, error) {
	if o.mode != hookRewrite && o.mode != hookCheck {
		return "", usage("--mode %q is neither rewrite nor check", o.mode)
	}
	if o.own != "" && (!serverForm.MatchString(o.own) || strings.Contains(o.own, between)) {
		return "", usage("--own-server %q is no name of a server", o.own)
	}
	self, err := os.Executable()
	if err != nil {
		return "", failed(palyra.ReasonInternal, "cannot tell where palyra is: %v", err)
	}
	paths, err := a.paths()
	if err != nil {
		return "", err
	}
	words := []string{self, "hook", o.agent.Name}
	if paths.Home != "" { // the agent may be started where PALYRA_HOME is not set
		words = append(words, "--home", paths.Home)
	}
	if o.mode != hookRewrite {
		words = append(words, "--mode", o.mode)
	}
	if o.own != "" {
		words = append(words, "--own-server", o.own)
	}
	return shellLine(words) + orBlock, nil
}

// orBlock makes a no of every other end: that palyra is not there any more, or was
// killed, would let the call pass.
const orBlock = " || exit 2"
