// Package cli is the palyra command: what people type, on top of the client.
//
// Data goes to stdout and talk to stderr. With --json stdout has one JSON object
// (or one per line where a command streams), in the words of package palyra.
// Exit codes stand in one table (exit.go). Text that comes from outside, names
// and reasons included, reaches a terminal only through package show.
//
// Promises: no command but up starts a daemon; nothing but a typed word or an
// echoed plan digest approves; a passphrase comes from the person's terminal and
// from nowhere else. What the command may do is the daemon's decision, never its
// own: it holds no policy and looks into no state.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/show"
)

// Process is what the command is given by the process it runs in.
type Process struct {
	Version string   // stamped by the build
	Args    []string // without the command's own name
	Env     []string // name=value
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Now     func() time.Time // nil: the clock
}

// Main runs one command and returns the exit code.
func Main(ctx context.Context, p Process) int {
	if p.Now == nil {
		p.Now = time.Now
	}
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	a := &app{Process: p, ctx: ctx, interrupt: interrupt}
	root := a.root()
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	a.command = cmd.CommandPath()
	if ctx.Err() != nil && err != nil {
		err = interrupted(err)
	}
	return a.finish(err)
}

// app is one run of the command.
type app struct {
	Process
	ctx       context.Context    // of this run
	interrupt context.CancelFunc // ends it as Ctrl-C does; nil in parts of tests
	command   string             // the one that ran, for its help
	home      string             // --home
	remote    farFlag            // --remote
	asJSON    bool
	quiet     bool
	noColor   bool
	forAgent  bool // an agent runs it and reads what it prints, at a terminal of its own too
	loaded    *config.Config
	signals   func() (<-chan os.Signal, func()) // of this process; nil: the real ones
	rawNow    func() bool                       // the terminal is raw; nil: never
}

// config loads the configuration once.
func (a *app) config() (*config.Config, error) {
	if a.loaded == nil {
		c, err := config.Load(config.Options{Home: a.home, Env: a.Env})
		if err != nil {
			return nil, err
		}
		a.loaded = &c
	}
	return a.loaded, nil
}

// paths is where everything is. A configuration with a mistake in it does not keep
// people from a daemon that runs: it can be asked, answered and stopped while its
// file is being changed. Where none runs the mistake is what there is to say.
func (a *app) paths() (config.Paths, error) {
	c, err := a.config()
	if err == nil {
		return c.Paths, nil
	}
	if e := palyra.AsError(err); e.Code != palyra.Invalid || e.Reason != palyra.ReasonConfig {
		return config.Paths{}, err
	}
	paths, lost := config.Locate(config.Options{Home: a.home, Env: a.Env})
	if lost != nil {
		return config.Paths{}, err
	}
	if agent, _, lost := paths.Sockets(); lost != nil || !exists(agent) {
		return config.Paths{}, err
	}
	return paths, nil
}

// say talks to the person, unless told to be quiet. The text must be safe
// already.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		a.must(format, args...)
	}
}

// must tells it also to those who want little said. In a raw terminal a line feed
// alone would leave the cursor where it is.
func (a *app) must(format string, args ...any) {
	end := "\n"
	if a.rawNow != nil && a.rawNow() {
		end = "\r\n"
	}
	fmt.Fprintf(a.Stderr, format+end, args...)
}

// emit prints a result: as JSON, or in words.
func (a *app) emit(v any, words func(io.Writer)) error {
	if a.asJSON {
		return a.printJSON(v)
	}
	words(a.Stdout)
	return nil
}

// printJSON prints one value on one line.
func (a *app) printJSON(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(b)
	return err
}

// encode is the one JSON form of results: a line, HTML characters as they are,
// characters that hide themselves escaped.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("cli: encode: %w", err)
	}
	return show.JSON(b.Bytes()), nil
}

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "palyra",
		Short: "The gate between agents and your machine",
		Long: "Palyra stands between LLM agents and your machine: every tool call is judged by\n" +
			"policy, shown to you where policy asks, run in its tier, and kept in a journal\n" +
			"that can be checked by others.",
		Example: "  palyra up --detach\n" +
			"  palyra exec -- make test\n" +
			"  palyra tools call palyra.echo --input '{\"text\":\"hello\"}'\n" +
			"  palyra approvals list --pending",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          group,
		Version:       a.thisBuild().String(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SuggestionsMinimumDistance = 2
	flags := root.PersistentFlags()
	flags.StringVar(&a.home, "home", "", "directory of state, keys and sockets (default $PALYRA_HOME, else the XDG directories)")
	flags.Var(&a.remote, "remote", "talk to the daemon on another machine that this one is paired with (default $PALYRA_REMOTE; see 'palyra device')")
	flags.BoolVar(&a.asJSON, "json", false, "print one JSON object")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print results and errors only")
	flags.BoolVar(&a.noColor, "no-color", false, "print without colours")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	_ = root.RegisterFlagCompletionFunc("remote", a.completeRemotes)
	root.AddCommand(a.all()...)
	root.SetHelpCommand(help())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	completionExamples(root)
	strict(root)
	a.guarded(root)
	return root
}

// help shows the page of a command, and knows when there is none.
func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "Show the help of a command", Args: cobra.ArbitraryArgs,
		Example: "  palyra help approvals decide\n  palyra help exit-codes",
		RunE: func(cmd *cobra.Command, args []string) error {
			page, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usage("there is no help on %q", strings.Join(args, " "))
			}
			return page.Help()
		},
	}
}

// all lists the commands there are.
func (a *app) all() []*cobra.Command {
	return []*cobra.Command{
		a.up(), a.down(), a.status(), a.version(),
		a.exec(), a.check(), a.hook(), a.run(), a.runs(), a.tools(), a.approvals(), a.grants(), a.sessions(), a.calls(),
		a.workspaces(), a.agents(), a.operators(), a.access(), a.devices(), a.console(), a.keys(),
		a.journal(), a.attest(), a.policy(), a.mcp(), a.sandbox(), a.setup(), a.configuration(),
		a.man(), exitTopic(), environmentTopic(),
	}
}

// workingDir is the directory the person stands in.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cli: working directory: %w", err)
	}
	return dir, nil
}
