package cli

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/screen"
)

// palyra.ToolProcessRun is the tool that exec calls.
// execOptions is what the command line of exec says.
type execOptions struct {
	session, tier, workspace, cwd, key string
	profile, script                    string
	egress, env                        []string
	within                             []string // workspaces that an agent reaches beside its own
	timeout, cpu                       screen.SpanFlag
	memory, disk                       screen.SizeFlag
	processes                          int64
	noWait, noStdin, terminal, limits  bool
	agent                              bool // the command is an agent itself
	asAgent                            bool // an agent proposes it, and no person
}

func (a *app) exec() *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use: "exec [flags] -- CMD [ARG]...", Short: "Run a command through the gate", Args: o.check,
		Long: "Proposes the command as a call of " + palyra.ToolProcessRun + " on the agent's door. Policy judges\n" +
			"it, you are asked where policy asks, and it runs in its sandbox. Its output comes as\n" +
			"it is printed; on a terminal, control sequences in it are shown rather than obeyed,\n" +
			"unless -t gives the command a terminal of its own.\n\n" +
			"Standard input is passed on when it is a file or a pipe: up to 1 MiB of it is read\n" +
			"first and bound by the approval, more is fed while the command runs. Signals are\n" +
			"passed on; while an answer is awaited Ctrl-C cancels the call, and so does a second\n" +
			"Ctrl-C within two seconds. Nothing of your environment is passed on but --env.\n" +
			"Shells and other programs that take instructions from their input cannot be fed\n" +
			"while they run. --script runs a script instead of a command, with /bin/sh or with what\n" +
			"its #! line names; whoever approves it sees it.\n\n" +
			"In tier C the command sees the system's programs, the workspace and what its profile\n" +
			"mounts, and nothing else of your home: see 'palyra setup' and 'palyra sandbox\n" +
			"profiles'. It reaches the hosts of its profile and of --egress or, without that, those\n" +
			"whose URLs one plain command of curl, wget or git goes to. Any other host is asked\n" +
			"about when it is reached for, where the guard may ask, and refused elsewhere. Hooks,\n" +
			"CI and editor settings of the workspace stay as they are; new ones are taken away.\n" +
			"In tier B it has no network, and a script of the workspace that is run by its own\n" +
			"name does not find files beside itself: call it by its interpreter.\n\n" +
			"The exit code is the command's own, or 128+n where signal n ended it. 126: refused,\n" +
			"denied or not answered in time. 6: the credential may not call. 124: it took too long. 130: cancelled. 125: Palyra\n" +
			"itself failed, or a file or pipe did not get all of the output: what is longer than\n" +
			"tool_call.output_bytes is better written to a file of the workspace. With --json\n" +
			"there is one object, the outcome, and nothing else.",
		Example: "  palyra exec -- make test\n" +
			"  palyra exec --timeout 30s --memory 512M --env CI=1 -- make -j2 check\n" +
			"  palyra exec --workspace ~/project --cwd src -- ls -la\n" +
			"  git diff | palyra exec -- wc -l\n" +
			"  palyra exec --profile node --egress example.org:443 -- npm install\n" +
			"  palyra exec --script build.sh\n" +
			"  palyra exec -t -- less README.md\n" +
			"  palyra exec --json --no-wait --no-stdin -- git status | jq .outcome",
		RunE: func(cmd *cobra.Command, argv []string) error {
			if err := o.conflicts(a); err != nil {
				return err
			}
			return execError(a.execute(cmd.Context(), o, argv))
		},
		ValidArgsFunction: completeNothing,
	}
	o.flags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("session", a.completeSessions)
	return cmd
}

// flags adds the flags of exec.
func (o *execOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.workspace, "workspace", "w", "", "directory to work in (default: the current one; with --remote it must be given)")
	f.StringVar(&o.cwd, "cwd", "", "directory to start in, inside the workspace (default: the workspace)")
	f.StringVar(&o.session, "session", "", "a session's id, or a name of your own (default: the one of this workspace)")
	f.StringVar(&o.tier, "tier", "", "sandbox: b or c (default: the configured one)")
	f.StringVar(&o.profile, "profile", "", "what its sandbox is furnished with, or none (default: by the command)")
	f.StringArrayVar(&o.egress, "egress", nil, "host:port it may connect to; may be given again")
	f.StringArrayVarP(&o.env, "env", "e", nil, "variable NAME=VALUE it gets; may be given again")
	f.StringVar(&o.key, "key", "", "idempotency key: a repeat returns the first outcome")
	f.BoolVar(&o.noWait, "no-wait", false, "where policy asks, leave the question open and be refused at once")
	f.BoolVar(&o.noStdin, "no-stdin", false, "give it nothing to read")
	f.BoolVarP(&o.terminal, "terminal", "t", false, "give it a terminal of its own")
	f.Var(&o.timeout, "timeout", "how long it may run (this and the next may only be lower than what is set)")
	f.Var(&o.cpu, "cpu", "processor time of all it starts")
	f.Var(&o.memory, "memory", "memory of all it starts: 512M, 2G")
	f.Var(&o.disk, "disk", "what all it starts writes to disk: 512M, 2G")
	f.Int64Var(&o.processes, "processes", 0, "processes and threads at once")
	f.BoolVar(&o.limits, "require-limits", false, "refuse to run where the kernel does not hold memory and processes")
	f.BoolVar(&o.asAgent, "as-agent", false, "propose it as the agent without a name, not as your own command: for what an agent runs")
	f.StringVar(&o.script, "script", "", "file with a script to run instead of CMD, with /bin/sh or what its #! line names; - for stdin")
	_ = cmd.RegisterFlagCompletionFunc("tier", cobra.FixedCompletions([]string{"b", "c"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(shippedProfiles, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("workspace")
	_ = cmd.MarkFlagFilename("script")
}

// shippedProfiles are the profiles that every daemon has.
var shippedProfiles = []string{"dev", "git", "git-setup", "go", "node", palyra.NoProfile, "python", "rust"}

// completeNothing leaves the words after -- to the shell.
func completeNothing(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// check refuses a command line without its command. The two dashes are needed:
// without them a flag of the command would be taken for one of ours, or the
// other way round.
func (o *execOptions) check(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("script") {
		if err := o.checkScript(args); err != nil {
			return err
		}
		return o.values(args)
	}
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && len(args) > 0:
		return usage("put -- before the command: palyra exec -- %s", strings.Join(args, " "))
	case dash > 0:
		return usage("%q stands before --; the command comes after it", args[0])
	case len(args) == 0:
		return usage("CMD is missing: palyra exec -- CMD [ARG]...")
	case args[0] == "":
		return usage("CMD is empty")
	}
	return o.values(args)
}

// values refuses flags that cannot mean anything, and words that are not UTF-8:
// they would become other words on the way.
func (o *execOptions) values(argv []string) error {
	for _, word := range slices.Concat(argv, o.env, o.egress, []string{o.cwd, o.workspace, o.session, o.key, o.profile}) {
		if !utf8.ValidString(word) {
			return usage("%q is not UTF-8; the tool takes text only", word)
		}
	}
	if o.tier = strings.ToLower(o.tier); !slices.Contains([]string{"", "b", "c"}, o.tier) {
		return usage("--tier %q is neither b nor c", o.tier)
	}
	if o.processes < 0 {
		return usage("--processes must not be negative")
	}
	if slices.Contains(o.egress, "") {
		return usage("--egress must be host:port")
	}
	_, err := o.variables()
	return err
}

// conflicts refuses flags that exclude each other, and -t where there is no
// terminal to give.
func (o *execOptions) conflicts(a *app) error {
	switch {
	case !o.terminal:
		return nil
	case a.asJSON:
		return usage("-t and --json exclude each other")
	case o.noStdin:
		return usage("-t and --no-stdin exclude each other")
	case !isTerminal(a.Stdin):
		return usage("-t needs a terminal on stdin; leave it out, or run it from a terminal")
	}
	return nil
}

// variables are the environment of --env. One that is given twice is refused:
// which of the two was meant is not for us to say.
func (o *execOptions) variables() (map[string]string, error) {
	vars := map[string]string{}
	for _, pair := range o.env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usage("--env %q is not NAME=VALUE", pair)
		}
		if _, twice := vars[name]; twice {
			return nil, usage("--env gives %s twice", name)
		}
		vars[name] = value
	}
	return vars, nil
}

// execute runs a command through the gate. Signals are not the end of it: they
// are the command's, so the context that they end is left behind.
func (a *app) execute(ctx context.Context, o execOptions, argv []string) error {
	patient, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); cause == context.Canceled || cause == context.DeadlineExceeded {
			interrupt() // whoever runs us gives up; a signal has a cause of its own
		}
	})
	defer stop()
	a.ctx, a.interrupt = patient, interrupt
	door := a.byHand
	if o.asAgent {
		door, a.forAgent = a.agent, true
	}
	c, err := door()
	if err != nil {
		return err
	}
	defer c.Close()
	x := &execution{waiter: &waiter{app: a, client: c, noWait: o.noWait}}
	defer x.listen()()
	a.nearest(patient, &o)
	if o.workspace, err = a.workspaceOf(o.workspace); err != nil {
		return err
	}
	for i, w := range o.within {
		if w == palyra.AnyWorkspace {
			continue
		}
		if o.within[i], err = a.directory(w); err != nil {
			return err
		}
	}
	script, err := x.readScript(patient, c, &o)
	if err != nil {
		return err
	}
	if err := x.prepare(patient, c, o); err != nil {
		return err
	}
	r, err := o.request(argv, script, x.input, x.size)
	if err != nil {
		return err
	}
	return x.run(patient, r)
}
