package connect

import (
	"path/filepath"
	"strings"

	"palyra/internal/cli/invocation"
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
	p := install.Places{Home: env["HOME"], Config: env["XDG_CONFIG_HOME"]}
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
	found := install.FindHook(o.settings(places(inv)), ours)
	if o.workspace = workspace; workspace != "" {
		there := install.FindHook(o.settings(places(inv)), ours)
		found.Other = found.Other || there.Other || there.Command != ""
		found.Off = found.Off || agent.Name == hook.ClaudeCode && install.HooksOff(workspace)
	}
	return found
}

// isHookCommand reports whether a command line is one that hook install writes.
func isHookCommand(inv *invocation.Invocation, agent hook.AgentProgram, command string) bool {
	for _, mode := range []string{hook.Rewrite, hook.Check} {
		line, err := hookLine(inv, hookOptions{agent: agent, mode: mode, own: ownServer(command)})
		if err == nil && line == command {
			return true
		}
	}
	return false
}

// ownServer is the server whose tools a hook command of ours leaves to the gate.
func ownServer(command string) string {
	_, own, _ := strings.Cut(strings.TrimSuffix(command, orBlock), " --own-server ")
	return own
}

// ownHook returns the options of the hook beside Palyra's own server.
func ownHook(agent hook.AgentProgram, workspace string) hookOptions {
	return hookOptions{agent: agent, workspace: workspace, mode: hook.Rewrite, own: "palyra"}
}
