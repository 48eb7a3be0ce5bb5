package evidence

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/profile"
	"palyra/internal/show"
	"palyra/internal/subpath"
)

// tried is a program that was asked for its version inside.
type tried struct {
	profile.Need
	Works   bool   `json:"works"`
	Version string `json:"version,omitempty"` // the first line that it printed
	Text    string `json:"text,omitempty"`    // why it does not work
	Remedy  string `json:"remedy,omitempty"`
}

// tryTools runs the programs that a workspace takes, inside, and fails when one that its files call for does not work.
func tryTools(ctx context.Context, inv *invocation.Invocation, workspace string) error {
	if workspace == "" {
		workspace, _ = inv.Nearest(ctx)
	}
	workspace, err := inv.WorkspaceOf(workspace)
	if err != nil {
		return err
	}
	c, err := inv.ByHand()
	if err != nil {
		return err
	}
	defer c.Close()
	here := workspace
	if inv.RemoteName() != "" {
		here = "" // its files are on another machine
	}
	if err := wouldAsk(ctx, inv, c, workspace); err != nil {
		return err
	}
	found := struct {
		Workspace string  `json:"workspace"`
		Tools     []tried `json:"tools"`
	}{Workspace: workspace}
	missing := false
	for _, need := range profile.Needs(here) {
		one, err := tryTool(ctx, inv, c, workspace, need)
		if err != nil {
			return err
		}
		missing = missing || !one.Works && one.For != ""
		found.Tools = append(found.Tools, one)
	}
	err = inv.Emit(found, func(w io.Writer) { printTools(w, workspace, found.Tools) })
	if err == nil && missing {
		return exit.Error{Code: exit.Failure} // the table shows which
	}
	return err
}

// wouldAsk refuses a directory that is not registered, where each program would be a question: nobody wants those.
func wouldAsk(ctx context.Context, inv *invocation.Invocation, c *client.Client, workspace string) error {
	if inv.RemoteName() != "" || inv.TokenFile() != "" || inv.Inside() {
		return nil // an agent, which cannot look; its workspace is registered
	}
	person, err := inv.OperatorAs(nil)
	if err != nil {
		return err
	}
	defer person.Close()
	known, err := person.Workspaces(ctx)
	if err != nil {
		return err
	}
	at := workspace
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	if slices.ContainsFunc(known, func(w palyra.Workspace) bool { return subpath.Within(w.Path, at) }) {
		return nil
	}
	me, err := c.WhoAmI(ctx)
	if err != nil {
		return err
	}
	e, err := person.Why(ctx, client.WhyRequest{
		Principal: me.Principal, Tool: palyra.ToolProcessRun, Arguments: json.RawMessage(`{"command":"true"}`), Workspace: workspace,
		Surface: palyra.SurfaceCLI,
	})
	if err != nil || e.Layer != palyra.LayerApproval {
		return nil // the call itself says what is wrong
	}
	return exit.Failedf(palyra.ReasonWorkspaceDenied,
		"%s is no registered workspace, so each program in it would be a question", show.Arg(workspace)).
		WithRemedy("register it with '%s workspace add %s', or name one with --workspace", inv.Own(), show.Arg(workspace))
}

// tryTool asks one program for its version, as any call: a question is not waited for.
func tryTool(ctx context.Context, inv *invocation.Invocation, c *client.Client, workspace string, n profile.Need) (tried, error) {
	one := tried{Need: n}
	args, err := json.Marshal(map[string]any{"command": n.Program, "args": n.Args})
	if err != nil {
		return one, err
	}
	o, err := c.Call(ctx, client.CallRequest{
		Tool: palyra.ToolProcessRun, Arguments: args, Workspace: workspace, NoWait: true, Surface: palyra.SurfaceCLI,
	}, nil)
	if err != nil {
		return one, err
	}
	one.Version, _, _ = strings.Cut(strings.TrimSpace(o.Stdout), "\n")
	if exit.OfOutcome(o) == exit.OK {
		one.Works = true
		return one, nil
	}
	if o.ReasonCode == palyra.ReasonWorkspaceDenied {
		return one, palyra.Errorf(palyra.Denied, o.ReasonCode, "%s", o.Reason).WithRemedy("%s", o.Remedy)
	}
	said, _, _ := strings.Cut(strings.TrimSpace(o.Stderr), "\n")
	one.Version, one.Text, one.Remedy = "", cmp.Or(o.Reason, said, fmt.Sprintf("it ended with %d", o.ExitCode)), o.Remedy
	if o.ReasonCode != palyra.ReasonFileNotFound || inv.RemoteName() != "" {
		return one, nil
	}
	one.Remedy = fmt.Sprintf("install %s on this machine, then run `%s setup`", n.Program, inv.Own())
	if at, err := exec.LookPath(n.Program); err == nil {
		one.Remedy = fmt.Sprintf("%s of this machine is not seen inside: `%s setup` shows toolchains to runs, "+
			"or name its directory in a profile", show.Arg(at), inv.Own())
	}
	return one, nil
}

func printTools(w io.Writer, workspace string, all []tried) {
	fmt.Fprintf(w, "Programs in %s, asked for their version inside\n", show.Arg(workspace))
	var rows [][]string
	for _, t := range all {
		state, text := "works", t.Version
		if !t.Works {
			state, text = "FAILS", "see below"
		}
		rows = append(rows, []string{t.Program, state, cmp.Or(t.For, "-"), show.Line(text)})
	}
	screen.Table(w, []string{"PROGRAM", "INSIDE", "FOR", ""}, rows)
	for _, t := range all {
		if !t.Works {
			fmt.Fprintf(w, "%s: %s\n", t.Program, show.Line(t.Text))
			remedy(w, t.Remedy)
		}
	}
}
