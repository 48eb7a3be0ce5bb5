package cli

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// remoteVariable names the daemon to talk to, as --remote does.
const remoteVariable = "PALYRA_REMOTE"

// farFlag is --remote. One that is given empty means the daemon of this machine,
// whatever the environment says.
type farFlag struct {
	name  string
	given bool
}

// Set implements pflag.Value.
func (f *farFlag) Set(name string) error {
	f.name, f.given = name, true
	return nil
}

// String implements pflag.Value.
func (f *farFlag) String() string { return f.name }

// Type implements pflag.Value.
func (*farFlag) Type() string { return "string" }

// remoteName is the daemon on another machine that the person named, or "".
func (a *app) remoteName() string {
	if a.remote.given {
		return a.remote.name
	}
	for _, pair := range a.Env {
		if name, value, _ := strings.Cut(pair, "="); name == remoteVariable {
			return value
		}
	}
	return ""
}

// own is how the command line of palyra begins when it is to reach the daemon that
// this one reaches.
func (a *app) own() string {
	if name := a.remoteName(); name != "" {
		return "palyra --remote " + show.Arg(name)
	}
	return "palyra"
}

// elsewhere opens a door of the daemon on another machine. The device's own key
// signs there.
func (a *app) elsewhere(name string, door client.Door) (*client.Client, error) {
	c, err := a.config()
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
	} else if conf.AgentToken, err = a.agentToken(); err != nil {
		return nil, err
	}
	a.renewInTime(r)
	return client.Open(conf)
}

// renewPatience is how long a renewal on the way may hold a command up.
const renewPatience = 5 * time.Second

// renewInTime renews the device's certificate after two thirds of its life. That
// it could not be is told and no reason to stop: there is a third left.
func (a *app) renewInTime(r *client.Remote) {
	ctx, done := context.WithTimeout(a.ctx, renewPatience)
	defer done()
	_, err := r.RenewIfDue(ctx, a.Now())
	if err == nil || palyra.AsError(err).Reason == client.ReasonNoDaemon { // of which the command itself will speak
		return
	}
	ends, _ := r.Expires()
	a.say("palyra: the certificate for %s ends %s and could not be renewed: %s", show.Line(r.Name), screen.Stamp(ends), show.Line(palyra.AsError(err).Text))
}

// ownMachine are the commands about this machine; another one cannot be meant.
// Those that read nothing but their arguments are not among them.
var ownMachine = map[string]string{
	"palyra up":               "it starts the daemon of this machine; start one elsewhere there",
	"palyra down":             "it stops the daemon of this machine; stop one elsewhere there, where it can be started again",
	"palyra hook install":     "it is about the settings of agents on this machine",
	"palyra hook uninstall":   "it is about the settings of agents on this machine",
	"palyra hook claude-code": "it is asked about files and commands of this machine",
	"palyra hook codex":       "it is asked about files and commands of this machine",
	"palyra setup":            "it is about the toolchains of this machine",
	"palyra config check":     "it is about the configuration of this machine",
	"palyra config show":      "it is about the configuration of this machine",
	"palyra config path":      "it is about the directories of this machine",
	"palyra operator show":    "it is about your key on this machine; elsewhere you sign with the key of the device ('palyra device remotes')",
	"palyra operator protect": "it is about your key on this machine",
	"palyra sandbox profiles": "it is about the profiles of this machine",
	"palyra device join":      "it pairs this machine; the daemon is named by its address",
}

// here refuses a command about this machine when another one is named.
func (a *app) here(cmd *cobra.Command) error {
	why, ok := ownMachine[cmd.CommandPath()]
	if name := a.remoteName(); ok && name != "" {
		how := "leave --remote out"
		if !a.remote.given {
			how = "unset " + remoteVariable + " or give --remote ''"
		}
		return usage("%s cannot be meant for %s: %s; %s", strings.TrimPrefix(cmd.CommandPath(), "palyra "), show.Arg(name), why, how)
	}
	return nil
}

// guarded makes every command below cmd refuse a machine that cannot be meant,
// before it does anything else.
func (a *app) guarded(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.guarded(sub)
	}
	check := cmd.Args
	if _, ok := ownMachine[cmd.CommandPath()]; !ok {
		return
	}
	cmd.Args = func(c *cobra.Command, args []string) error {
		if err := a.here(c); err != nil {
			return err
		}
		return check(c, args)
	}
}

// directory is a directory by its whole path: on this machine from where the
// person stands, elsewhere as it is called there.
func (a *app) directory(dir string) (string, error) {
	if name := a.remoteName(); name != "" {
		if !path.IsAbs(dir) {
			return "", usage("%s is no whole path: a directory of %s is named from its root on", show.Arg(dir), show.Arg(name))
		}
		return path.Clean(dir), nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", failed(palyra.ReasonPathInvalid, "%v", err)
	}
	return abs, nil
}

// directories are several.
func (a *app) directories(list []string) (out []string, err error) {
	for _, dir := range list {
		whole, err := a.directory(dir)
		if err != nil {
			return nil, err
		}
		out = append(out, whole)
	}
	return out, nil
}

// workspaceOf is the directory that a call works in: the one given, else the one
// the person stands in, which means nothing on another machine.
func (a *app) workspaceOf(given string) (string, error) {
	if given != "" {
		return a.directory(given)
	}
	if name := a.remoteName(); name != "" {
		return "", usage("--workspace is required: the directory you stand in is not one of %s; '%s workspace list' shows those it has", show.Arg(name), a.own())
	}
	return workingDir()
}

// completeRemotes offers the daemons that this machine is paired with.
func (a *app) completeRemotes(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := a.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := client.Remotes(c.Paths.Remotes) // those that can be used
	words, _ := wordsOf(list, nil, func(r *client.Remote) string { return r.Name })
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, begun) }), cobra.ShellCompDirectiveNoFileComp
}

// completeRemote is completeRemotes for a command's one argument.
func (a *app) completeRemote(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeRemotes(cmd, args, begun)
}

// noTerminal says how to do without a terminal what needs one.
func noTerminal(err error, text, remedy string) error {
	if e := (*palyra.Error)(nil); errors.As(err, &e) && e.Reason == palyra.ReasonUnsupported {
		return failed(palyra.ReasonUnsupported, "%s", text).WithRemedy("%s", remedy).WithCause(err)
	}
	return err
}
