package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"palyra/client"
	"palyra/internal/show"
)

func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say how the daemon does", Args: takes(),
		Example: "  palyra status\n  palyra status --json | jq .pending",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			return a.emit(s, func(w io.Writer) { a.printStatus(w, s) })
		}),
	}
}

func (a *app) printStatus(w io.Writer, s client.Status) {
	journal := strconv.FormatInt(s.JournalSize, 10) + " entries"
	if !s.JournalOK {
		journal += ", NOT GOOD: run palyra journal verify"
	}
	fields(w,
		pair{"Version", s.Version}, pair{"Running", fmt.Sprintf("pid %d, since %s (%s)", s.PID, stamp(s.StartedAt), span(max(a.Now().Sub(s.StartedAt), 0)))},
		pair{"Home", s.Home}, pair{"Keys", s.KeysDir}, pair{"Agent's door", s.AgentSocket}, pair{"Operator's door", s.OperatorSocket},
		pair{"Console", s.Console}, pair{"Devices come in", s.Remote},
		pair{"State", s.StateID}, pair{"Journal", journal}, pair{"Policy", s.Preset}, pair{"Bundle", string(s.Bundle)},
		pair{"Separation", string(s.Separation)}, pair{"Pending", strconv.FormatInt(s.Pending, 10)}, pair{"Running calls", strconv.FormatInt(s.Running, 10)})
	for _, name := range slices.Sorted(maps.Keys(s.Features)) {
		fmt.Fprintf(w, "  %s: %s\n", show.Line(name), show.Line(s.Features[name]))
	}
	printProblems(w, s)
}

// printProblems says what is wrong with a daemon that runs all the same.
func printProblems(w io.Writer, s client.Status) {
	for _, p := range s.Problems {
		fmt.Fprintf(w, "PROBLEM: %s\n", show.Line(p))
	}
}
