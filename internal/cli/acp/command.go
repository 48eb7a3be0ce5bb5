package acp

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/child"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
)

// Command is `palyra acp`.
func Command(inv *invocation.Invocation) *cobra.Command {
	var anyMode bool
	cmd := &cobra.Command{
		Use: "acp [flags] -- AGENT [ARG]...", Short: "Stand between an editor and an agent that speak ACP",
		Long: "Starts an agent that speaks the Agent Client Protocol, for an editor that starts this\n" +
			"command in the agent's place. What the agent asks of the editor goes through the gate:\n" +
			"files are read and written by palyra.fs.read and palyra.fs.write, terminals run as\n" +
			"'palyra exec --tier c' does, and permissions are judged like 'palyra check'. Where\n" +
			"policy asks you answer in Palyra; the editor's dialog shows the question, and can only\n" +
			"withdraw it. Without a daemon all of it is refused.\n\n" +
			"What the agent does without asking the editor is not gated by this: put the agent\n" +
			"itself into the sandbox for that, 'palyra acp -- palyra agent run -- AGENT'.\n" +
			"Modes in which an agent asks nobody cannot be set, but with --any-mode.",
		Example: "  palyra acp -- claude-code-acp\n  palyra acp -- palyra agent run -- codex-acp",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 0 || len(args) == 0 || args[0] == "" {
				return exit.Usagef("give the agent's command after two dashes: palyra acp -- AGENT [ARG]...")
			}
			return nil
		},
		RunE: inv.AsAgent(func(ctx context.Context, c *client.Client, args []string) error {
			return serve(ctx, inv, c, args, anyMode)
		}),
		ValidArgsFunction: syntax.CompleteNothing,
	}
	cmd.Flags().BoolVar(&anyMode, "any-mode", false, "let the editor set modes in which the agent asks nobody")
	return cmd
}

// lastWords is how long an agent may take to end once its editor is gone.
const lastWords = 2 * time.Second

// serve runs the agent and passes messages on.
func serve(ctx context.Context, inv *invocation.Invocation, c *client.Client, argv []string, anyMode bool) error {
	sayNoDaemon(ctx, inv, c)
	p, err := New(Config{
		Daemon: c, Agent: agentName(argv), Shell: shell(), AnyMode: anyMode,
		Log: slog.New(slog.NewTextHandler(inv.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stderr = inv.Env, inv.Stderr
	finish := child.Group(cmd) // a signal for the editor's is not the agent's
	defer child.Bound(cmd)()   // editors kill what they started, and some agents outlive their input
	in, err := cmd.StdinPipe()
	if err != nil {
		return exit.Failedf(palyra.ReasonInternal, "cannot make a pipe: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return exit.Failedf(palyra.ReasonNotExecutable, "cannot start the agent %s: %v", argv[0], bare(err)).
			WithRemedy("give its full path, or install it")
	}
	err = p.Run(ctx, Pipes{In: inv.Stdin, Out: inv.Stdout}, Pipes{In: out, Out: in})
	_ = in.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for _, last := range []bool{false, true} {
		select {
		case <-ended:
			_ = finish(true) // what it left behind
			return err
		case <-time.After(lastWords):
			_ = finish(last)
		}
	}
	<-ended
	return err
}

// daemonPatience is how long the daemon may take to say that it is there.
const daemonPatience = 2 * time.Second

// sayNoDaemon says where no daemon answers: the agent starts all the same, and what it asks for is refused until one does.
func sayNoDaemon(ctx context.Context, inv *invocation.Invocation, c *client.Client) {
	ctx, done := context.WithTimeout(ctx, daemonPatience)
	defer done()
	_, err := c.Tools(ctx)
	if palyra.CodeOf(err) != palyra.Unavailable {
		return
	}
	m := inv.Message(err)
	inv.SayAlways("palyra: %s: what the agent asks of the editor is refused until one answers\n  remedy: %s", m.Text, m.Remedy)
}

var notPlain = regexp.MustCompile(`[^a-z0-9.-]+`)

const maxAgent = 32

// agentName is the agent's name in names of sessions: that of the last program on its command line.
func agentName(argv []string) string {
	word := argv[0]
	for i, w := range argv[1:] {
		if argv[i] == "--" {
			word = w
		}
	}
	name := strings.Trim(notPlain.ReplaceAllString(strings.ToLower(filepath.Base(word)), "-"), "-.")
	if name = strings.Trim(name[:min(len(name), maxAgent)], "-."); name == "" {
		return "agent"
	}
	return name
}

// shell takes the lines that agents send in the place of a program's name.
func shell() string {
	const bash = "/bin/bash"
	if fi, err := os.Stat(bash); err == nil && fi.Mode().IsRegular() {
		return bash
	}
	return "/bin/sh"
}

// bare is the cause of a failed start.
func bare(err error) error {
	if e := (*exec.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	if e := (*os.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
