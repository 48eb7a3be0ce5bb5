package invocation

import (
	"context"
	"path"
	"path/filepath"
	"strings"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
	"palyra/internal/subpath"
)

// RemoteVariable names the daemon to talk to, as --remote does.
const RemoteVariable = quick.RemoteVariable

// RemoteFlag is --remote. An empty value means the daemon of this machine, whatever the environment says.
type RemoteFlag struct {
	Name  string
	Given bool
}

// Set implements pflag.Value.
func (f *RemoteFlag) Set(name string) error {
	f.Name, f.Given = name, true
	return nil
}

// String implements pflag.Value.
func (f *RemoteFlag) String() string { return f.Name }

// Type implements pflag.Value.
func (*RemoteFlag) Type() string { return "string" }

// RemoteName is the remote daemon that the person named, or "".
func (inv *Invocation) RemoteName() string {
	if inv.Remote.Given {
		return inv.Remote.Name
	}
	for _, pair := range inv.Env {
		if name, value, _ := strings.Cut(pair, "="); name == RemoteVariable {
			return value
		}
	}
	return ""
}

// Own is how a palyra command line for the same daemon begins.
func (inv *Invocation) Own() string {
	if name := inv.RemoteName(); name != "" {
		return "palyra --remote " + show.Arg(name)
	}
	if inv.Home != "" {
		return "palyra --home " + show.Arg(inv.Home)
	}
	return "palyra"
}

// connectRemote opens a door of the daemon on another machine. The device's own key signs there.
func (inv *Invocation) connectRemote(name string, door client.Door) (*client.Client, error) {
	c, err := inv.Config()
	if err != nil {
		return nil, err
	}
	r, err := client.LoadRemote(c.Paths.Remotes, name)
	if err != nil {
		return nil, err
	}
	conf := client.Config{Remote: r, Door: door}
	if door == client.OperatorDoor {
		conf.Signer = r.Signer()
	} else if conf.AgentToken, err = inv.AgentToken(); err != nil {
		return nil, err
	}
	inv.renewInTime(r)
	return client.Open(conf)
}

// renewPatience is how long a renewal may delay a command.
const renewPatience = 5 * time.Second

// renewInTime renews the device's certificate after two thirds of its life. A failure is only
// reported: a third is left.
func (inv *Invocation) renewInTime(r *client.Remote) {
	ctx, done := context.WithTimeout(inv.Context, renewPatience)
	defer done()
	_, err := r.RenewIfDue(ctx, inv.Now())
	if err == nil || palyra.AsError(err).Reason == client.ReasonNoDaemon { // the command itself reports that
		return
	}
	ends, _ := r.Expires()
	inv.Say("palyra: the certificate for %s ends %s and could not be renewed: %s", show.Line(r.Name), screen.Stamp(ends),
		show.Line(palyra.AsError(err).Text))
}

// Directory is the absolute path of a directory: on this machine from the working directory, on
// another one as given.
func (inv *Invocation) Directory(dir string) (string, error) {
	if name := inv.RemoteName(); name != "" {
		if !path.IsAbs(dir) {
			return "", exit.Usagef("%s is no whole path: a directory of %s is named from its root on", show.Arg(dir), show.Arg(name))
		}
		return path.Clean(dir), nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", exit.Failedf(palyra.ReasonPathInvalid, "%v", err)
	}
	return abs, nil
}

// Directories does the same for a list.
func (inv *Invocation) Directories(list []string) (out []string, err error) {
	for _, dir := range list {
		whole, err := inv.Directory(dir)
		if err != nil {
			return nil, err
		}
		out = append(out, whole)
	}
	return out, nil
}

// WorkspaceOf is the directory that a call works in: the given one, else the working directory,
// which means nothing on another machine.
func (inv *Invocation) WorkspaceOf(given string) (string, error) {
	if given != "" {
		return inv.Directory(given)
	}
	if name := inv.RemoteName(); name != "" {
		return "", exit.Usagef("--workspace is required: the directory you stand in is not one of %s; '%s workspace list' shows those it has",
			show.Arg(name), inv.Own())
	}
	return WorkingDir()
}

// Nearest is the registered workspace around the working directory, and the path from there: a project is more than
// the directory in which a person happens to be. Both are empty when the directory itself or none around it is
// registered, and for a caller that cannot ask the daemon: an agent in a sandbox works in its own directory.
func (inv *Invocation) Nearest(ctx context.Context) (workspace, cwd string) {
	here, err := WorkingDir()
	if err != nil || inv.RemoteName() != "" {
		return "", ""
	}
	c, err := inv.OperatorAs(nil)
	if err != nil {
		return "", ""
	}
	defer c.Close()
	known, err := c.Workspaces(ctx)
	if err != nil {
		return "", ""
	}
	if real, err := filepath.EvalSymlinks(here); err == nil {
		here = real
	}
	dirs := make([]string, 0, len(known))
	for _, w := range known {
		dirs = append(dirs, w.Path)
	}
	return subpath.Nearest(dirs, here)
}
