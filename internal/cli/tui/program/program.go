// Package program is palyra-tui: the terminal UI in a program of its own, which is half as large as the one with all
// commands and starts in half the time.
//
// It has the commands whose output follows something or that sign, since those speak with the screen while they run. The
// others are those of palyra-full, which it runs beside itself with nothing to read, and no terminal to ask at.
package program

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"palyra"
	"palyra/internal/cli/changes"
	"palyra/internal/cli/child"
	"palyra/internal/cli/execute"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/leases"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/root"
	"palyra/internal/cli/tui"
	"palyra/internal/cli/tui/opening"
)

// Run is the program. The small one has drawn the first screen of most that call it.
func Run(version string) int {
	args, drawn := opening.Unmarked(os.Args)
	if drawn {
		os.Args = args
		endAtSecond()
	}
	if drawn && !takes(args[1:]) { // the small program is of another version
		opening.Leave(os.Stdout)
		drawn = false
	}
	return root.Run(version, parts{drawn}.commands)
}

// takes reports whether arguments are a line of the terminal UI, and nothing has to be said about them.
func takes(args []string) bool {
	cmd, rest, err := parts{}.commands(&invocation.Invocation{}, args...).Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	return err == nil && cmd.Name() == "tui"
}

// endAtSecond ends the process at the second signal, with the terminal as it was: Ctrl-C it was started with ignored, so
// nothing else would, and another signal would leave the screen as it is.
func endAtSecond() {
	was, err := term.GetState(int(os.Stdin.Fd()))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		<-signals
		opening.Leave(os.Stdout)
		if err == nil {
			_ = term.Restore(int(os.Stdin.Fd()), was)
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
	}()
}

// parts makes the commands, of a terminal with the first screen or without.
type parts struct{ drawn bool }

// own are the commands that are here.
func (p parts) own() []root.Top {
	return []root.Top{
		{Names: "tui", Make: func(inv *invocation.Invocation) *cobra.Command { return tui.Command(inv, p.runner, p.drawn) }},
		{Names: "runs", Make: execute.RunsCommand},
		{Names: "changes", Make: changes.Command},
		{Names: "undo", Make: changes.Undo},
		{Names: "redo", Make: changes.Redo},
		{Names: "leases", Make: leases.Command},
	}
}

// commands makes the one that words call, which is the inbox where they call none.
func (p parts) commands(inv *invocation.Invocation, words ...string) *cobra.Command {
	return root.New(inv, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && tui.Ready(inv) {
			return tui.Run(cmd.Context(), inv, p.runner, tui.Options{})
		}
		full, err := quick.Find(quick.FullName)
		if err != nil {
			return err
		}
		code, err := quick.Become(full, words)
		if err == nil && code != 0 {
			err = exit.Error{Code: code}
		}
		return err
	}, root.Called(p.own(), inv, words)...)
}

// runner runs a command here, where it is here, and else in palyra-full.
func (p parts) runner(inv *invocation.Invocation) tui.Runner {
	here := root.Another(p.commands, inv)
	return func(ctx context.Context, out io.Writer, args ...string) error {
		isOwn := slices.ContainsFunc(p.own(), func(t root.Top) bool { return t.Names == args[0] })
		if args = tui.There(inv, args); isOwn {
			return here(ctx, out, args...)
		}
		return inFull(ctx, inv, out, args)
	}
}

// inFull runs a command in palyra-full. It ends when it is not wanted any more, and with this process.
func inFull(ctx context.Context, inv *invocation.Invocation, out io.Writer, args []string) error {
	full, err := quick.Find(quick.FullName)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, full, append(root.Same(inv), args...)...)
	said := &short{}
	cmd.Env, cmd.Stdout, cmd.Stderr = inv.Env, out, said
	child.Alone(cmd)
	release := child.Bound(cmd)
	defer release()
	err = cmd.Run()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ctx.Err() == nil {
		text, _, _ := strings.Cut(strings.TrimPrefix(said.String(), "palyra: "), "\n")
		return exit.Failedf(palyra.ReasonInternal, "%s", text)
	}
	return err
}

// mostSaid is how much is kept of what a command says beside its output: the first of it is why it failed.
const mostSaid = 4096

// short keeps the beginning of what is written.
type short struct{ bytes.Buffer }

// Write implements io.Writer.
func (s *short) Write(p []byte) (int, error) {
	_, _ = s.Buffer.Write(p[:min(len(p), mostSaid-s.Len())])
	return len(p), nil
}
