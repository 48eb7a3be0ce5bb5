package connect

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/hook"
	"palyra/internal/mcp/install"
	"palyra/internal/show"
)

// hookInstallation is the result of install with --json.
type hookInstallation struct {
	Agent   string `json:"agent"`
	Command string `json:"command"`
	install.Result
	Lines string `json:"lines"`
	Trust string `json:"trust,omitempty"` // Codex: trusted, or why it is not
}

// HookInstall is `palyra hook install`.
func HookInstall(inv *invocation.Invocation) *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use: "install AGENT", Short: "Write the hook into an agent's settings", Args: syntax.Takes("AGENT"), ValidArgs: hook.Names(),
		Long: "Makes an agent ask Palyra before it uses any tool: " + strings.Join(hook.Names(), ", ") + ".\n" +
			"The hook is written into the settings of the user, or with --workspace into those of a\n" +
			"directory. What else is in the file stays, the old file is kept beside it, and doing it\n" +
			"twice changes nothing. opencode gets a plugin, and Copilot and VS Code a file of hooks\n" +
			"that both read.\n\n" +
			"Codex skips a hook that it was not told to trust without a word: the trust is written\n" +
			"into its config.toml with the digest that Codex itself names, and Codex is asked again\n" +
			"whether it holds. Its commands must be able to reach the daemon:\n" +
			"sandbox_workspace_write.network_access = true, or no sandbox of its own.\n\n" +
			"Which failures an agent lets pass is said afterwards; 'palyra hook doctor' tries it.",
		Example: "  palyra hook install claude-code\n  palyra hook install claude-code --observe\n" +
			"  palyra hook install claude-code --workspace . --mode check\n" +
			"  palyra hook install codex --print\n  palyra hook install opencode",
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, err := findAgent(args[0])
			if err != nil {
				return err
			}
			o.agent = agent
			return installHook(cmd.Context(), inv, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.workspace, "workspace", "w", "", "install for this directory only (default: for you, everywhere)")
	f.StringVar(&o.mode, "mode", hook.Rewrite, "what becomes of a shell command: rewrite (into the sandbox) or check (and run outside)")
	f.StringVar(&o.own, "own-server", "",
		"the name that the agent has for Palyra's MCP server (see 'palyra mcp install'): its tools are left to the gate they go through anyway")
	f.BoolVar(&o.park, "park", false,
		"of claude-code: have runs without a window park where nobody answers (see 'palyra help hook claude-code')")
	f.BoolVar(&o.observe, "observe", false, "have its calls observed and not held, while an operator says so (palyra observe start)")
	f.BoolVar(&o.only, "print", false, "print the lines and write nothing")
	_ = cmd.MarkFlagDirname("workspace")
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{hook.Rewrite, hook.Check}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// hookOptions holds the options of hook install.
type hookOptions struct {
	agent                hook.AgentProgram
	workspace, mode, own string
	only, observe, park  bool
}

// findAgent finds an agent by name.
func findAgent(name string) (hook.AgentProgram, error) {
	agent, ok := hook.Find(name)
	if !ok {
		return agent, exit.Usagef("%s is no agent that is known here: %s%s", show.Arg(name), strings.Join(hook.Names(), ", "),
			syntax.Meant(name, hook.Names()))
	}
	return agent, nil
}

// form is how the agent has its hooks written.
func (o hookOptions) form() install.HookForm {
	switch o.agent.Answers() {
	case hook.Codex:
		return install.CodexHooks
	case hook.Gemini:
		return install.GeminiHooks
	case hook.Cursor:
		return install.CursorHooks
	case hook.Copilot:
		return install.CopilotHooks
	case hook.OpenCode:
		return install.OpenCodePlugin
	}
	return install.ClaudeHooks
}

// settings is the file with an agent's hooks.
func (o hookOptions) settings(p install.Places) string { return o.form().Path(p, o.workspace) }

// serverForm is the form of a server's name in an agent's settings, as far as names of tools can contain it.
var serverForm = regexp.MustCompile(`^[A-Za-z0-9-]([A-Za-z0-9_-]{0,62}[A-Za-z0-9-])?$`)

// installHook writes the hook, or only shows it, and reports that.
func installHook(ctx context.Context, inv *invocation.Invocation, o hookOptions) error {
	if o.park && o.agent.Name != hook.ClaudeCode {
		return exit.Usagef("--park is for claude-code: no other agent is known to park a run for its hook")
	}
	done, say, err := writeHook(ctx, inv, o)
	return inv.Answer(err, done, say)
}

// writeHook writes the hook, or nothing where it is only to be shown; say reports to people.
func writeHook(ctx context.Context, inv *invocation.Invocation, o hookOptions) (wrote hookInstallation, say func(io.Writer), err error) {
	refuse := func(err error) (hookInstallation, func(io.Writer), error) { return hookInstallation{}, nil, err }
	workspace, only := o.workspace, o.only
	command, err := hookLine(inv, o)
	if err != nil {
		return refuse(err)
	}
	var claude version
	if o.agent.Name == hook.ClaudeCode {
		claude = claudeVersion(ctx, inv)
	}
	if o.mode == hook.Rewrite && claude.before(rewritesSince) {
		return refuse(exit.Failedf(palyra.ReasonUnsupported, "Claude Code %s does not take a rewritten command: it would run the original",
			claude).
			WithRemedy("update it, or install with --mode check"))
	}
	entry := install.HookEntry{
		Form: o.form(), Command: command, Blocks: claude.known() && !claude.before(blocksSince),
		Unsure: !claude.known() && o.agent.Name == hook.ClaudeCode, Shows: o.agent.Name == hook.Codex,
		Ends: o.observe && o.agent.Name == hook.ClaudeCode,
	}
	lines, err := install.HookLines(entry)
	if err != nil {
		return refuse(err)
	}
	home, _ := inv.Variable("HOME")
	if home == "" && only {
		home = "~"
	}
	if home == "" && workspace == "" {
		return refuse(noHome())
	}
	if workspace != "" {
		if workspace, err = inv.Directory(workspace); err == nil {
			err = isThere(workspace)
		}
		if err != nil {
			return refuse(err)
		}
		o.workspace = workspace
	}
	at := places(inv)
	if at.Home = home; home == "~" {
		at.Config = "~/.config"
	}
	done := install.Result{Path: o.settings(at)}
	trusted, was := trust{}, ""
	if !only {
		if o.agent.Name == hook.Codex {
			if err := install.CheckCodexConfig(install.CodexConfig(at)); err != nil {
				return refuse(err)
			}
		}
		was = install.FindHook(o.form(), done.Path, func(line string) bool { return strings.Contains(line, o.form().Mark()) }).Command
		if done, err = install.WriteHook(done.Path, entry); err != nil {
			return refuse(err)
		}
		if o.agent.Name == hook.Codex {
			trusted = trustHook(ctx, inv, done.Path, func(line string) bool { return line == command })
		}
	}
	return hookInstallation{o.agent.Name, command, done, lines, trusted.result()}, func(w io.Writer) {
		if only {
			inv.Say("palyra: these lines go into %s", show.Line(done.Path))
			fmt.Fprintln(w, strings.TrimSuffix(lines, "\n"))
			return
		}
		sayHooked(inv, w, done, o)
		sayLost(w, o, was, command)
		if o.agent.Name == hook.Codex {
			trusted.say(inv, w)
		}
		if done.Changed {
			sayLimits(inv, o.agent, claude, entry.Blocks)
		}
	}, nil
}

// sayLimits prints what the hook does not do in the installed version of the agent.
func sayLimits(inv *invocation.Invocation, agent hook.AgentProgram, claude version, blocks bool) {
	if agent.Source != "program" {
		inv.Say("  note: this follows the documentation of %s: nobody has seen it with the program itself", agent.Title)
	}
	if agent.Name == hook.Codex {
		inv.Say("  note: let its commands reach the daemon: network_access = true below [sandbox_workspace_write] of its config.toml")
	}
	if agent.Fails == "open" {
		inv.Say("  note: %s lets a tool pass when the hook is killed or not answered in time", agent.Title)
	}
	if agent.Name != hook.ClaudeCode {
		return
	}
	if !claude.known() {
		inv.Say("  note: no `claude` is on your path, so its version is not known and onFailure is left out of the entry")
	}
	if !blocks {
		inv.Say("  note: Claude Code lets a tool pass when its hook is not answered in time. From version %s on it can block\n"+
			"  instead; install again when you have that (found: %s)", blocksSince, claude)
	}
}

// sayLost prints what the hook had been told before and is told no more: an installation is as its own line says.
func sayLost(w io.Writer, o hookOptions, was, now string) {
	if Observes(was) && !o.observe {
		fmt.Fprintf(w, "  %s was observed until now, and is held from its next session on; to have it observed again: %s\n", o.agent.Title,
			undo("hook install "+o.agent.Name+" --observe", o.workspace))
	}
	for _, option := range []string{"--own-server", "--park", "--mode"} {
		if hasWord(was, option) && !hasWord(now, option) {
			fmt.Fprintf(w, "  the hook had %s until now, and has it no more: install again with it to have it back\n", option)
		}
	}
}

// Observes reports whether a hook's command line asks to be observed.
func Observes(command string) bool { return hasWord(command, "--observe") }

// hasWord reports whether a command line of ours has an option.
func hasWord(command, option string) bool { return slices.Contains(strings.Fields(command), option) }

// isThere refuses a directory that does not exist: one that was mistyped is not made.
func isThere(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	return exit.Failedf(palyra.ReasonPathInvalid, "%s is no directory", dir).WithRemedy("name one that exists")
}

// sayHooked prints what was done, what the hook needs from now on and how it is undone.
func sayHooked(inv *invocation.Invocation, w io.Writer, done install.Result, o hookOptions) {
	if !done.Changed {
		fmt.Fprintf(w, "%s has the hook already\n", show.Line(done.Path))
		return
	}
	fmt.Fprintf(w, "wrote %s; %s asks Palyra from its next session on\n", show.Line(done.Path), o.agent.Title)
	if done.Backup != "" {
		fmt.Fprintf(w, "  the file as it was before Palyra: %s\n", show.Line(done.Backup))
	}
	if o.observe {
		inv.Say("  next: `palyra observe start` has its calls observed and not held, for 7 days at most; until then they are held as ever")
	}
	inv.Say("  next: keep the daemon running with `palyra up --detach`: while it is down every tool is blocked")
	inv.Say("  what it asks you, `palyra approvals watch` shows in another terminal; `palyra approvals decide ID allow` (or deny) answers")
	inv.Say("  undo: %s", undo("hook uninstall "+o.agent.Name, o.workspace))
}

// hookLine is the command line that the agent runs.
func hookLine(inv *invocation.Invocation, o hookOptions) (string, error) {
	if o.mode != hook.Rewrite && o.mode != hook.Check {
		return "", exit.Usagef("--mode %q is neither rewrite nor check", o.mode)
	}
	if o.own != "" && !o.agent.OwnServer {
		return "", exit.Usagef("--own-server: %s does not tell for certain whose tool it is", o.agent.Title)
	}
	if o.own != "" && (!serverForm.MatchString(o.own) || strings.Contains(o.own, hook.ToolSeparator)) {
		return "", exit.Usagef("--own-server %q is no name of a server", o.own)
	}
	self, err := quick.Self()
	if err != nil {
		return "", exit.Failedf(palyra.ReasonInternal, "cannot tell where palyra is: %v", err)
	}
	paths, err := inv.Paths()
	if err != nil {
		return "", err
	}
	words := []string{self, "hook", o.agent.Answers()}
	if paths.Home != "" { // the agent may be started where PALYRA_HOME is not set
		words = append(words, "--home", paths.Home)
	}
	if o.mode != hook.Rewrite {
		words = append(words, "--mode", o.mode)
	}
	if o.park {
		words = append(words, "--park")
	}
	if o.observe {
		words = append(words, "--observe")
	}
	if o.own != "" {
		words = append(words, "--own-server", o.own)
	}
	return screen.ShellLine(words) + orElse(o.agent), nil
}

// orBlock makes every other end a no: otherwise the call would pass if palyra were missing or killed. Codex and Gemini
// take the exit code for a no only where something stands on stderr.
const (
	orBlock  = " || exit 2"
	orReason = " || { echo 'palyra: the hook failed, so the tool is blocked' >&2; exit 2; }"
)

// orElse is what follows in the line.
func orElse(agent hook.AgentProgram) string {
	switch {
	case agent.Name == hook.ClaudeCode:
		return orBlock
	case agent.SaysNo: // an exit code means nothing there
		no, _ := screen.EncodePlain(agent.Words(hook.Answer{Decision: hook.Deny, Reason: "palyra: the hook failed, so the tool is blocked"}))
		return " || echo '" + string(no) + "'"
	}
	return orReason
}
