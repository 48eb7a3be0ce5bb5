package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/subpath"
)

// execArguments is the input of the tool.
type execArguments struct {
	Command  string            `json:"command,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Stdin    string            `json:"stdin,omitempty"`
	StdinB64 string            `json:"stdin_b64,omitempty"`
	Live     bool              `json:"stdin_live,omitempty"`
	Terminal *execTerminal     `json:"terminal,omitempty"`
	Tier     string            `json:"tier,omitempty"`
	Profile  string            `json:"profile,omitempty"`
	Egress   []string          `json:"egress,omitempty"`
	Script   string            `json:"script,omitempty"`
	Held     bool              `json:"require_limits,omitempty"`
	Agent    bool              `json:"agent_socket,omitempty"`
	Within   []string          `json:"agent_within,omitempty"`
	Limits   *execLimits       `json:"limits,omitempty"`
}

// execTerminal is the size of a terminal.
type execTerminal struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

// execLimits are the limits that the command line lowers.
type execLimits struct {
	CPUMS       int64 `json:"cpu_ms,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	Processes   int64 `json:"processes,omitempty"`
	DiskBytes   int64 `json:"disk_bytes,omitempty"`
}

// request makes the call to propose: of a script, or of a command.
func (o *execOptions) request(argv []string, script string, in input, t *execTerminal) (client.CallRequest, error) {
	vars, err := o.variables()
	if err != nil {
		return client.CallRequest{}, err
	}
	args := execArguments{
		Cwd: o.cwd, Env: vars, Live: in.live, Terminal: t, Tier: o.tier, Profile: o.profile, Egress: o.egress, Script: script, Held: o.limits, Agent: o.agent, Within: o.within,
	}
	if script == "" {
		args.Command, args.Args = argv[0], argv[1:]
	}
	if args.Cwd == "" {
		args.Cwd = "."
	}
	if !in.live {
		args.Stdin, args.StdinB64 = textOr64(in.head)
	}
	if l := (execLimits{time.Duration(o.cpu).Milliseconds(), int64(o.memory), o.processes, int64(o.disk)}); l != (execLimits{}) {
		args.Limits = &l
	}
	raw, err := screen.EncodePlain(args)
	if err != nil {
		return client.CallRequest{}, fmt.Errorf("cli: exec: %w", err)
	}
	return client.CallRequest{
		Tool: palyra.ToolProcessRun, Arguments: raw, Workspace: o.workspace, Session: o.session, Key: o.key, NoWait: o.noWait,
		Timeout: time.Duration(o.timeout), Surface: palyra.SurfaceCLI,
	}, nil
}

// textOr64 is bytes as text, which people can read, or as base64 when they are
// none or would be too long as JSON: control characters take six bytes each there.
func textOr64(b []byte) (text, b64 string) {
	const most = 3 << 20 // of the 4 MiB that the tool takes
	if raw, err := screen.EncodePlain(string(b)); utf8.Valid(b) && err == nil && len(raw) <= most {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

// nearest makes the registered directory that the person stands in the workspace,
// and the place where they stand the one to start in: a project is more than the
// directory in which one happens to be. Who cannot look, an agent in a sandbox,
// works where it stands.
func (a *app) nearest(ctx context.Context, o *execOptions) {
	here, err := workingDir()
	if o.workspace != "" || o.cwd != "" || err != nil || a.remoteName() != "" {
		return
	}
	c, err := a.operatorAs(nil)
	if err != nil {
		return
	}
	defer c.Close()
	known, err := c.Workspaces(ctx)
	if err != nil {
		return
	}
	if real, err := filepath.EvalSymlinks(here); err == nil {
		here = real
	}
	if slices.ContainsFunc(known, func(w palyra.Workspace) bool { return w.Path == here }) {
		return
	}
	for _, w := range known {
		if rel, ok := subpath.Rel(w.Path, here); ok && len(w.Path) > len(o.workspace) {
			o.workspace, o.cwd = w.Path, rel
		}
	}
}
