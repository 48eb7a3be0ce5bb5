// Package proposal makes a call of palyra.process.run from a command line: the one that 'palyra
// exec' proposes, and that 'palyra policy why' and hooks ask about.
package proposal

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/screen"
	"palyra/internal/hostport"
)

// Options holds the options of exec.
type Options struct {
	session, Tier, Workspace, Cwd, key string
	Profile, Script                    string
	Egress, Env, Publish               []string
	bindings                           []string // of secrets
	Within                             []string // workspaces that an agent reaches beside its own
	timeout, cpu                       screen.SpanFlag
	memory, disk                       screen.SizeFlag
	processes                          int64
	NoWait, NoStdin, Terminal, limits  bool
	live                               bool // it writes to the workspace directly
	Agent                              bool // the command is an agent itself
	Park                               bool // a start that nobody has answered is left for later; with NoWait
	Staged                             bool // what the agent and its calls write waits for a person
	AsAgent                            bool // an agent proposes it, not a person
	Background                         bool // nobody waits for its end
}

// Flags adds the flags of exec.
func (o *Options) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.Workspace, "workspace", "w", "", "directory to work in (default: the current one; with --remote it must be given)")
	f.StringVar(&o.Cwd, "cwd", "", "directory to start in, inside the workspace (default: the workspace)")
	f.StringVar(&o.session, "session", "", "a session's id, or a name of your own (default: the one of this workspace)")
	f.StringVar(&o.Tier, "tier", "", "sandbox: b or c (default: the configured one)")
	f.StringVar(&o.Profile, "profile", "", "what its sandbox is furnished with, or none (default: by the command)")
	f.StringArrayVar(&o.Egress, "egress", nil, "host:port it may connect to; may be given again")
	f.StringArrayVar(&o.bindings, "secret", nil, "secret it uses, by the name of its binding ('palyra vault bindings'); may be given again")
	f.StringArrayVarP(&o.Env, "env", "e", nil, "variable NAME=VALUE it gets; may be given again")
	f.StringVar(&o.key, "key", "", "idempotency key: a repeat returns the first outcome")
	f.BoolVar(&o.NoWait, "no-wait", false, "where policy asks, be refused at once; the question stays open where a later answer can count")
	f.BoolVar(&o.NoStdin, "no-stdin", false, "give it nothing to read")
	f.BoolVarP(&o.Terminal, "terminal", "t", false, "give it a terminal of its own")
	f.Var(&o.timeout, "timeout", "how long it may run (this and the next may only be lower than what is set)")
	f.Var(&o.cpu, "cpu", "processor time of all it starts")
	f.Var(&o.memory, "memory", "memory of all it starts: 512M, 2G")
	f.Var(&o.disk, "disk", "what all it starts writes to disk: 512M, 2G")
	f.Int64Var(&o.processes, "processes", 0, "processes and threads at once")
	f.BoolVar(&o.live, "live", false,
		"write to the workspace while it runs, seen by others, not to a layer that is judged and kept when it has ended")
	f.BoolVar(&o.limits, "require-limits", false, "refuse to run where the kernel does not hold memory and processes")
	f.BoolVar(&o.AsAgent, "as-agent", false, "propose it as the agent without a name, not as your own command: for what an agent runs")
	f.StringVar(&o.Script, "script", "", "file with a script to run instead of CMD, with /bin/sh or what its #! line names; - for stdin")
	_ = cmd.RegisterFlagCompletionFunc("tier", cobra.FixedCompletions([]string{"b", "c"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(Profiles, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("workspace")
	_ = cmd.MarkFlagFilename("script")
}

// BackgroundFlags adds the flags of what goes on when it is answered.
func (o *Options) BackgroundFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.Background, "background", false, "start it and come back while it goes on (see palyra processes)")
	f.StringArrayVar(&o.Publish, "publish", nil,
		"PORT or HOST:INSIDE to reach it at, with --background: 127.0.0.1:HOST here, localhost:HOST in calls of its session")
}

// Profiles lists the profiles that every daemon has.
var Profiles = []string{"dev", "git", "git-setup", "go", "node", palyra.NoProfile, "python", "rust"}

// Check refuses a command line without its command. The two dashes are required: without them a
// flag of the command would be taken for one of ours, or the other way round.
func (o *Options) Check(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("script") {
		if err := o.checkScript(args); err != nil {
			return err
		}
		return o.Values(args)
	}
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && len(args) > 0:
		return exit.Usagef("put -- before the command: %s -- %s", cmd.CommandPath(), strings.Join(args, " "))
	case dash > 0:
		return exit.Usagef("%q stands before --; the command comes after it", args[0])
	case len(args) == 0:
		return exit.Usagef("CMD is missing: %s -- CMD [ARG]...", cmd.CommandPath())
	case args[0] == "":
		return exit.Usagef("CMD is empty")
	}
	return o.Values(args)
}

// Values refuses meaningless flags, and words that are not UTF-8: they would become other words on the way.
func (o *Options) Values(argv []string) error {
	for _, word := range slices.Concat(argv, o.Env, o.Egress, o.bindings, []string{o.Cwd, o.Workspace, o.session, o.key, o.Profile}) {
		if !utf8.ValidString(word) {
			return exit.Usagef("%q is not UTF-8; the tool takes text only", word)
		}
	}
	if o.Tier = strings.ToLower(o.Tier); !slices.Contains([]string{"", "b", "c"}, o.Tier) {
		return exit.Usagef("--tier %q is neither b nor c", o.Tier)
	}
	if o.processes < 0 {
		return exit.Usagef("--processes must not be negative")
	}
	for _, p := range o.Publish {
		if _, err := hostport.Parse(p); err != nil {
			return exit.Usagef("--publish %q is neither PORT nor HOST:INSIDE; ports are 1024 to 65535 here, 1 to 65535 inside", p)
		}
	}
	if len(o.Publish) > 0 && !o.Background {
		return exit.Usagef("--publish is for --background: other commands are over when they are answered")
	}
	if slices.Contains(o.Egress, "") {
		return exit.Usagef("--egress must be host:port")
	}
	_, err := o.variables()
	return err
}

// Conflicts refuses flags that exclude each other, and -t without a terminal.
func (o *Options) Conflicts(asJSON, atTerminal bool) error {
	switch {
	case o.Background && (o.Terminal || o.Agent):
		return exit.Usagef("--background excludes a terminal and agents: nobody is there to speak with it")
	case !o.Terminal:
		return nil
	case asJSON:
		return exit.Usagef("-t and --json exclude each other")
	case o.NoStdin:
		return exit.Usagef("-t and --no-stdin exclude each other")
	case !atTerminal:
		return exit.Usagef("-t needs a terminal on stdin; leave it out, or run it from a terminal")
	}
	return nil
}

// variables is the environment of --env. It refuses a variable that is given twice, because either could be meant.
func (o *Options) variables() (map[string]string, error) {
	vars := map[string]string{}
	for _, pair := range o.Env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, exit.Usagef("--env %q is not NAME=VALUE", pair)
		}
		if _, twice := vars[name]; twice {
			return nil, exit.Usagef("--env gives %s twice", name)
		}
		vars[name] = value
	}
	return vars, nil
}

// Names lists the variables that --env names.
func (o *Options) Names() (names []string) {
	for _, pair := range o.Env {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	return names
}

// Lend adds a binding to those of --secret.
func (o *Options) Lend(binding string) {
	if !slices.Contains(o.bindings, binding) {
		o.bindings = append(o.bindings, binding)
	}
}
