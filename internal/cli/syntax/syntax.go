// Package syntax is the common part of all command lines: groups of commands, named arguments, the
// flags of lists and of files.
//
// Every fault of a command line is a usage error, whoever found it.
package syntax

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
)

// Group runs a command that only holds others: alone it runs its list command, and the root shows its
// help; with an unknown word it fails.
func Group(cmd *cobra.Command, args []string) error {
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
		return exit.Usagef("%s: a command is missing: %s", cmd.Name(), strings.Join(names(cmd), ", "))
	}
	text := fmt.Sprintf("there is no command %q", strings.TrimPrefix(cmd.CommandPath()+" "+args[0], "palyra "))
	near := beginning(args[0], cmd.SuggestionsFor(args[0]))
	if known := elsewhere[args[0]]; known != "" && !cmd.HasParent() {
		near = []string{known}
	}
	if len(near) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return exit.Usagef("%s", text)
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

// Parent makes a command that only holds others.
func Parent(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: Group}
	cmd.SuggestionsMinimumDistance = 2
	for _, c := range commands {
		if c.Name() == "list" {
			cmd.Long = short + ".\n" + "Without a command it lists them."
		}
	}
	cmd.AddCommand(commands...)
	return cmd
}

// Strict makes every fault of arguments a usage error, also in the commands that cobra adds.
func Strict(cmd *cobra.Command) {
	if !cmd.Runnable() && cmd.HasAvailableSubCommands() {
		cmd.RunE, cmd.Args = Group, nil
	}
	check := cmd.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	cmd.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if _, ours := exit.As(err); err != nil && !ours {
			return exit.Usagef("%v", err)
		}
		return err
	}
	for _, sub := range cmd.Commands() {
		Strict(sub)
	}
}

// Takes checks the positional arguments by their names: "ID" is required, "[ID]" is optional.
func Takes(want ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > len(want) {
			return exit.Usagef("%q is one argument too many", args[len(want)])
		}
		for _, name := range want[len(args):] {
			if !strings.HasPrefix(name, "[") {
				return exit.Usagef("%s is missing", name)
			}
		}
		return nil
	}
}

// beginning drops words that only look alike, if some begin with the typed word.
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

// elsewhere maps words that people try first to their names here.
var elsewhere = map[string]string{
	"doctor": "status, or sandbox doctor", "health": "status", "ps": "calls list", "logs": "journal tail", "log": "journal tail",
	"why": "policy why", "start": "up", "stop": "down", "init": "up",
	"decide": "approvals decide", "allow": "approvals decide", "deny": "approvals decide",
}
