package service

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// Status is `palyra status`.
func Status(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say how the daemon does", Args: syntax.Takes(),
		Example: "  palyra status\n  palyra status --json | jq .pending",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Status(ctx)
			return inv.Answer(err, s, func(w io.Writer) { printStatus(inv, w, s) })
		}),
	}
}

func printStatus(inv *invocation.Invocation, w io.Writer, s client.Status) {
	journal := strconv.FormatInt(s.JournalSize, 10) + " entries"
	if !s.JournalOK {
		journal += ", NOT GOOD: run palyra journal verify"
	}
	list := []screen.Pair{
		{"Version", s.Version},
		{"Running", fmt.Sprintf("pid %d, since %s (%s)", s.PID, screen.Stamp(s.StartedAt), screen.Span(max(inv.Now().Sub(s.StartedAt), 0)))},
		{"Home", s.Home},
		{"Keys", s.KeysDir},
		{"Agent's door", s.AgentSocket},
		{"Operator's door", s.OperatorSocket},
		{"Console", s.Console},
		{"Devices come in", s.Remote},
		{"State", s.StateID},
		{"Journal", journal},
		{"Policy", s.Preset},
		{"Bundle", string(s.Bundle)},
		{"Separation", string(s.Separation)},
		{"Pending", strconv.FormatInt(s.Pending, 10)},
		{"Running calls", strconv.FormatInt(s.Running, 10)},
	}
	for _, key := range slices.Sorted(maps.Keys(s.Features)) {
		name := strings.ReplaceAll(show.Line(key), "_", " ")
		list = append(list, screen.Pair{strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):], s.Features[key]})
	}
	screen.Fields(w, list...)
	printProblems(w, s)
}

// printProblems prints the problems of a running daemon.
func printProblems(w io.Writer, s client.Status) {
	for _, p := range s.Problems {
		fmt.Fprintf(w, "PROBLEM: %s\n", show.Line(p))
	}
}
