package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/show"
)

// exitError is an exit code by itself, for commands that already said what there
// is to say.
type exitError struct {
	code int
	text string // "" when nothing is left to print
	err  error  // said instead of text
}

// Error implements error.
func (e exitError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return e.text
}

// Unwrap returns the error that is said.
func (e exitError) Unwrap() error { return e.err }

// unproven makes an error of an offline check an ordinary failure: no
// credential and no policy is involved, whatever its reason says.
func unproven(err error) error {
	if err == nil {
		return nil
	}
	if _, ours := asExit(err); ours {
		return err
	}
	return exitError{code: exitFailure, err: err}
}

func asExit(err error) (exitError, bool) {
	var s exitError
	ok := errors.As(err, &s)
	return s, ok
}

// usage is an error in the command line.
func usage(format string, args ...any) error {
	return exitError{code: exitUsage, text: fmt.Sprintf(format, args...)}
}

// failed is an ordinary failure in the command's own words.
func failed(reason palyra.Reason, format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, reason, format, args...)
}

// interrupted turns the end of the person's patience into its own exit code.
func interrupted(err error) error {
	if s, ok := asExit(err); ok && s.code != exitFailure {
		return err
	}
	return palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "interrupted").WithCause(err)
}

// failure is an error as --json prints it.
type failure struct {
	Code   palyra.Code   `json:"code"`
	Reason palyra.Reason `json:"reason_code"`
	Text   string        `json:"text"`
	Remedy string        `json:"remedy"`
}

// finish prints what is left of an error and returns the exit code.
func (a *app) finish(err error) int {
	code := exitOf(err)
	if err == nil {
		return code
	}
	f := a.failureOf(err)
	if f.Text == "" {
		return code
	}
	if a.asJSON {
		if b, err := encode(map[string]failure{"error": f}); err == nil {
			_, _ = a.Stderr.Write(b)
		}
		return code
	}
	fmt.Fprintf(a.Stderr, "palyra: %s\n", show.Line(f.Text))
	if f.Remedy != "" {
		fmt.Fprintf(a.Stderr, "  remedy: %s\n", show.Line(f.Remedy))
	}
	return code
}

// failureOf puts an error into words. An error nobody foresaw keeps its own
// text: here it is the person's own machine that speaks, not a daemon to a
// caller.
func (a *app) failureOf(err error) failure {
	if s, ok := asExit(err); ok && s.err == nil {
		f := failure{Code: palyra.Invalid, Reason: palyra.ReasonMalformedInput, Text: s.text}
		if s.code == exitUsage {
			f.Remedy = "see `" + a.helpOf() + "`"
		}
		return f
	}
	var e *palyra.Error
	if !errors.As(err, &e) {
		return failure{Code: palyra.Internal, Reason: palyra.ReasonInternal, Text: err.Error()}
	}
	return failure{Code: e.Code, Reason: e.Reason, Text: e.Text, Remedy: e.Remedy}
}

// helpOf is how to see the help of the command that was meant.
func (a *app) helpOf() string {
	if a.command == "" || a.command == "palyra help" {
		return "palyra --help"
	}
	return a.command + " --help"
}

// elsewhere are words for which people look first and that have another name here.
var elsewhere = map[string]string{
	"doctor": "status, or sandbox doctor", "health": "status", "ps": "calls list", "logs": "journal tail", "log": "journal tail",
	"start": "up", "stop": "down", "init": "up", "decide": "approvals decide", "allow": "approvals decide", "deny": "approvals decide",
}

// group runs a command that only holds others: alone it lists what it is about, else it
// shows its help; with a word that it does not know it fails.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		if !cmd.HasParent() {
			return cmd.Help()
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() == "list" && sub.RunE != nil {
				sub.SetContext(cmd.Context())
				return sub.RunE(sub, nil)
			}
		}
		return usage("%s: a command is missing: %s", cmd.Name(), strings.Join(names(cmd), ", "))
	}
	text := fmt.Sprintf("there is no command %q", strings.TrimPrefix(cmd.CommandPath()+" "+args[0], "palyra "))
	near := beginning(args[0], cmd.SuggestionsFor(args[0]))
	if known := elsewhere[args[0]]; known != "" && !cmd.HasParent() {
		near = []string{known}
	}
	if len(near) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return usage("%s", text)
}

func names(cmd *cobra.Command) []string {
	var out []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c.Name())
		}
	}
	return out
}

// parent makes a command that only holds others.
func parent(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: group}
	cmd.SuggestionsMinimumDistance = 2
	for _, c := range commands {
		if c.Name() == "list" {
			cmd.Long = short + ".\n" + "Without a command it lists them."
		}
	}
	cmd.AddCommand(commands...)
	return cmd
}

// strict makes every complaint about arguments a usage error, also those of the
// commands that cobra adds.
func strict(cmd *cobra.Command) {
	if !cmd.Runnable() && cmd.HasAvailableSubCommands() {
		cmd.RunE, cmd.Args = group, nil
	}
	check := cmd.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	cmd.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if _, ours := asExit(err); err != nil && !ours {
			return usage("%v", err)
		}
		return err
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

// takes checks the positional arguments by their names: "ID" is needed, "[ID]"
// is not.
func takes(want ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > len(want) {
			return usage("%q is one argument too many", args[len(want)])
		}
		for _, name := range want[len(args):] {
			if !strings.HasPrefix(name, "[") {
				return usage("%s is missing", name)
			}
		}
		return nil
	}
}

// beginning leaves out what only looks alike where something begins with the word.
func beginning(word string, near []string) []string {
	var begin []string
	for _, name := range near {
		if strings.HasPrefix(name, word) {
			begin = append(begin, name)
		}
	}
	if len(begin) > 0 {
		return begin
	}
	return near
}
