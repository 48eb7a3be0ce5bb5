package tiers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/mcp/upstream"
	"palyra/internal/sandbox"
	"palyra/internal/tool/process"
	"palyra/internal/workspace"
	"palyra/secrets"
)

// Servers starts MCP servers in tier C. What it knows of an upstream is its name and its definition.
type Servers struct {
	*Tiers
	Workspaces *workspace.Registry
	NewID      func() palyra.ID
}

// Resolve implements upstream.Launcher: the plan by which the server of an upstream runs: that of its command in
// tier C, fed live. Its start is no call: the operator's signature under the definition stands for it.
func (s Servers) Resolve(ctx context.Context, name string, def palyra.UpstreamDefinition) (palyra.Plan, error) {
	ctx = secrets.ForUpstream(ctx, name)
	if len(def.Bindings) > 0 {
		if err := s.programBindings(ctx, name, def); err != nil {
			return palyra.Plan{}, err
		}
	}
	t, _ := s.Tool.Tool(process.Name)
	args, err := json.Marshal(serverArguments(def))
	if err != nil {
		return palyra.Plan{}, err
	}
	p := palyra.Plan{
		Tool: process.Name, Arguments: args, Capabilities: slices.Sorted(slices.Values(t.Capabilities)), Source: t.Source, Tier: palyra.TierC,
		Limits: palyra.Limits{WallMS: s.Settings.ToolCall.ExecutionTimeoutMS, OutputBytes: s.Settings.ToolCall.OutputBytes},
	}
	if p.Workspace, p.Mounts, err = s.place(ctx, name, def.Workspace); err != nil {
		return palyra.Plan{}, err
	}
	c := serverCall()
	c.Proposal.Arguments, c.Proposal.Workspace = args, p.Workspace.Path
	if err := s.Tool.Plan(ctx, c, &p); err != nil {
		return palyra.Plan{}, err
	}
	p.Stdin = palyra.StdinLive // after planning: interpreters are refused live instructions, and this is none
	if p.Staging.Staged() {
		p.Staging = palyra.Staging{Writes: palyra.WritesLive, Why: "it is a server, which lives on between calls"}
	}
	p.Limits.WallMS, p.Limits.EmittedBytes = 0, 0
	return p, nil
}

// serverArguments are those of the process tool.
func serverArguments(def palyra.UpstreamDefinition) map[string]any {
	args := map[string]any{"command": def.Command[0], "args": append([]string{}, def.Command[1:]...), "tier": "c"}
	if len(def.Env) > 0 {
		args["env"] = def.Env
	}
	if len(def.Bindings) > 0 {
		args["bindings"] = def.Bindings
	}
	if len(def.Egress) > 0 {
		args["egress"] = def.Egress
	}
	if def.Profile != "" {
		args["profile"] = def.Profile
	}
	return args
}

// place is where a server works: in the definition's workspace, or in a
// directory of its own, beside which a workspace may be mounted to be read.
func (s Servers) place(ctx context.Context, name, workspace string) (palyra.WorkspaceRef, []palyra.Mount, error) {
	dir, only := strings.CutSuffix(workspace, palyra.UpstreamReadOnly)
	var ref palyra.WorkspaceRef
	if dir != "" {
		var err error
		if ref, err = s.Workspaces.Resolve(ctx, dir, 0); err != nil || !only { // an operator has signed it
			return ref, nil, err
		}
	}
	owner := int64(os.Geteuid())
	var mounts []palyra.Mount
	if only { // who may read it is who it belongs to
		owner, mounts = ref.Owner, []palyra.Mount{{Source: ref.Path, Target: ref.Path}}
	}
	own, err := s.dir(name, owner)
	if err != nil {
		return ref, nil, fmt.Errorf("tiers: servers: %w", err)
	}
	return palyra.WorkspaceRef{Path: own, Owner: owner, Known: true}, mounts, nil
}

// dir makes the directory of a server where it is missing, for who it runs as.
func (s Servers) dir(name string, owner int64) (string, error) {
	if err := os.MkdirAll(s.places.Servers(), 0o711); err != nil {
		return "", err
	}
	above, err := filepath.EvalSymlinks(s.places.Servers())
	if err != nil {
		return "", err
	}
	dir := filepath.Join(above, name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if os.Geteuid() == 0 { // nobody else can put anything there
		err = os.Lchown(dir, int(owner), -1)
	}
	return dir, err
}

// Forget implements upstream.Launcher: it removes the directory of a server, so that the next one of its name
// finds nothing that it did not put there.
func (s Servers) Forget(name string) error {
	dir, err := os.OpenRoot(s.places.Servers())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tiers: servers: %w", err)
	}
	defer dir.Close()
	if err := dir.RemoveAll(name); err != nil {
		return fmt.Errorf("tiers: servers: %w", err)
	}
	return nil
}

// Tidy removes the directories of servers that are no more.
func (s Servers) Tidy(known []string) {
	dir, err := os.OpenRoot(s.places.Servers())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		s.Log.Warn("the directories of MCP servers cannot be looked at", "error", err)
		return
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) {
			err = errors.Join(err, dir.RemoveAll(e.Name()))
		}
	}
	if err != nil {
		s.Log.Warn("the directory of an MCP server cannot be removed", "error", err)
	}
}

// Start implements upstream.Launcher.
func (s Servers) Start(ctx context.Context, name string, p palyra.Plan) (upstream.Process, error) {
	service, err := s.Runner.Serve(secrets.ForUpstream(ctx, name), palyra.CallID(s.NewID()), p)
	if err != nil {
		return nil, err
	}
	return serverProcess{service}, nil
}

// serverProcess is a started server.
type serverProcess struct{ *sandbox.Service }

// Pipes implements upstream.Process.
func (s serverProcess) Pipes() (io.WriteCloser, io.ReadCloser) { return s.Stdin, s.Stdout }

// Held implements upstream.Process.
func (s serverProcess) Held() (string, palyra.Enforcement) { return s.Executor(), s.Enforcement() }

// Last implements upstream.Process.
func (s serverProcess) Last() (ended string, stderr []byte) {
	select {
	case <-s.Done():
		return s.ended(), s.Stderr()
	default:
		return "", s.Stderr()
	}
}

// ended is how a server that is done came to it.
func (s serverProcess) ended() string {
	exit, err := s.Exit()
	switch {
	case err != nil:
		return "its cell was lost"
	case exit.Limit != "":
		return "by its " + exit.Limit + " limit"
	case exit.Stopped != "":
		return "it was stopped (" + exit.Stopped + ")"
	case exit.Signal != "":
		return "by " + exit.Signal
	}
	return fmt.Sprintf("with exit code %d", exit.Code)
}
