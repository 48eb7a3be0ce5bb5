package connect

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/hook"
	"palyra/internal/mcp/install"
)

// places lists where clients keep their configuration.
func places(inv *invocation.Invocation) install.Places {
	env := map[string]string{}
	for _, pair := range inv.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	p := install.Places{Home: env["HOME"], Config: env["XDG_CONFIG_HOME"], Codex: env["CODEX_HOME"]}
	if !filepath.IsAbs(p.Codex) {
		p.Codex = ""
	}
	if !filepath.IsAbs(p.Config) {
		p.Config = filepath.Join(p.Home, ".config")
	}
	return p
}

// hooked returns the installed hook. Only the person's own settings count as proof: those of a
// workspace may have come with it, and can remove the hook but not replace it.
func hooked(inv *invocation.Invocation, agent hook.AgentProgram, workspace string) install.Hooked {
	o := hookOptions{agent: agent}
	ours := func(command string) bool { return isHookCommand(inv, agent, command) }
	found := install.FindHook(o.form(), o.settings(places(inv)), ours)
	if o.workspace = workspace; workspace != "" {
		there := install.FindHook(o.form(), o.settings(places(inv)), ours)
		found.Other = found.Other || there.Other || there.Command != ""
		found.Off = found.Off || agent.Name == hook.ClaudeCode && install.HooksOff(workspace)
	}
	return found
}

// isHookCommand reports whether a command line is one that hook install writes.
func isHookCommand(inv *invocation.Invocation, agent hook.AgentProgram, command string) bool {
	for _, mode := range []string{hook.Rewrite, hook.Check} {
		for variant := range 4 {
			o := hookOptions{agent: agent, mode: mode, own: ownServer(command), observe: variant&1 != 0, park: variant&2 != 0}
			line, err := hookLine(inv, o)
			if err == nil && line == command {
				return true
			}
		}
	}
	return false
}

// ownServer is the server whose tools a hook command of ours leaves to the gate.
func ownServer(command string) string {
	_, own, _ := strings.Cut(command, " --own-server ")
	own, _, _ = strings.Cut(own, " ")
	return own
}

// ownHook returns the options of the hook beside Palyra's own server.
func ownHook(agent hook.AgentProgram, workspace string) hookOptions {
	o := hookOptions{agent: agent, workspace: workspace, mode: hook.Rewrite}
	if agent.OwnServer {
		o.own = "palyra"
	}
	return o
}

// Installed is what an agent's settings say about the hook: those of the person, and those of a workspace.
func Installed(inv *invocation.Invocation, agent hook.AgentProgram, workspace string) (file string, found install.Hooked) {
	o := hookOptions{agent: agent}
	found = hooked(inv, agent, workspace)
	return o.settings(places(inv)), found
}

// WriteProbe writes the hook into the settings of an invocation that has another home, as it was found and with a command line that answers
// probes: what else follows in the line is the same.
func WriteProbe(inv *invocation.Invocation, agent hook.AgentProgram, found install.Hooked, self, dir string) (file string, err error) {
	o := hookOptions{agent: agent}
	entry := install.HookEntry{
		Form: o.form(), Command: screen.ShellLine([]string{self, "hook", agent.Answers(), "--probe", dir}) + orElse(agent),
		Blocks: found.Blocks, Shows: found.Shows,
	}
	done, err := install.WriteHook(o.settings(places(inv)), entry)
	return done.Path, err
}

// Trusted is what Codex says about the hook in a file, in its own words; it changes nothing.
func Trusted(ctx context.Context, inv *invocation.Invocation, file string) (holds bool, says string) {
	codex, _ := hook.Find(hook.Codex)
	ours, err := codexHooks(ctx, inv, file, func(command string) bool { return isHookCommand(inv, codex, command) })
	t := trust{status: ours.Status, err: err}
	return t.holds(), t.result()
}

// Trust has Codex trust the hook for probes in a file that is ours alone.
func Trust(ctx context.Context, inv *invocation.Invocation, file string) error {
	t := trustHook(ctx, inv, file, func(command string) bool { return strings.Contains(command, install.CodexHooks.Mark()) })
	if !t.holds() {
		return errors.Join(errors.New(t.result()), t.err)
	}
	return nil
}

// OnPath is the program of a name on this shell's path; "" if there is none.
func OnPath(inv *invocation.Invocation, name string) string { return onPath(inv, name) }

// MCPState says whether the settings of an MCP client have Palyra's server.
func MCPState(inv *invocation.Invocation, client string) string {
	c, ok := install.Find(client)
	if !ok {
		return "not written by palyra mcp install"
	}
	path, err := c.Path(places(inv), "")
	if err != nil {
		return "unknown: " + err.Error()
	}
	entry, err := c.Entry(path)
	switch {
	case err != nil:
		return "unknown: " + err.Error()
	case entry == "":
		return "no entry"
	}
	return "there is an entry; what the agent's own tools do does not pass it"
}
