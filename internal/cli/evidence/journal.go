package evidence

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// Journal is `palyra journal`.
func Journal(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("journal", "Read, check and export the journal",
		journalTailCommand(inv), journalVerifyCommand(inv), journalExportCommand(inv), journalProofCommand(inv), journalVerifyProofCommand(inv))
}

func journalVerifyCommand(inv *invocation.Invocation) *cobra.Command {
	var keys, against []string
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Check the whole journal, or a copy of it", Args: syntax.Takes("[FILE]"),
		Long: "Without FILE the daemon checks its own journal. With FILE, a copy of state.db or an\n" +
			"export, the check is made here, without a daemon, against the keys you give. Tables of the\n" +
			"state that follow from the journal are held against it.\n\n" +
			"A journal cannot show by itself that it is the newest. --against puts evidence beside it that\n" +
			"you kept: a checkpoint, a proof, an export, an attestation or an outcome. Exit code 8 says\n" +
			"that the journal ends before it.",
		Example: "  palyra journal verify\n  palyra journal verify --against proof.json --against outcome.json\n  palyra journal verify " +
			"copy.db --key trust.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return verifyLive(cmd.Context(), inv, keys, against)
			}
			report, err := verifyJournalFile(cmd.Context(), args[0], keys, progress(inv, "checked"))
			if err != nil {
				return err
			}
			if len(against) == 0 {
				return printReport(inv, report)
			}
			l, err := copyLog(cmd.Context(), args[0], keys)
			if err != nil {
				return err
			}
			all, err := l.compare(cmd.Context(), against)
			if err != nil {
				return err
			}
			return printCompared(inv, report, all)
		},
	}
	keyFlag(cmd, &keys)
	cmd.Flags().StringArrayVar(&against, "against", nil, "evidence you kept, to put beside the journal; may be repeated")
	_ = cmd.MarkFlagFilename("against")
	return cmd
}

// verifyLive has the daemon check its journal, and compares kept evidence with it.
func verifyLive(ctx context.Context, inv *invocation.Invocation, keys, against []string) error {
	if len(keys) > 0 && len(against) == 0 {
		return exit.Usagef("--key belongs to a FILE or to --against; the daemon checks with its own keys")
	}
	c, err := inv.Operator()
	if err != nil {
		return err
	}
	defer c.Close()
	report, err := c.VerifyJournal(ctx, progress(inv, "checked"))
	if err != nil {
		return err
	}
	if len(against) == 0 {
		return printReport(inv, report)
	}
	l, err := liveLog(ctx, inv, c, keys)
	if err != nil {
		return err
	}
	all, err := l.compare(ctx, against)
	if err != nil {
		return err
	}
	return printCompared(inv, report, all)
}

// printReport prints the result of a verification; a bad one is a failure.
func printReport(inv *invocation.Invocation, r client.Report) error {
	err := inv.Emit(r, func(w io.Writer) {
		if r.OK {
			fmt.Fprintf(w, "good: %d entries, root %s, signed by %s\n", r.Entries, show.Line(string(r.Root)), show.Line(screen.Joined(r.KeyIDs)))
			for _, n := range r.Notes {
				fmt.Fprintf(w, "note: %s\n", show.Line(n))
			}
			return
		}
		fmt.Fprintf(w, "BAD: %d entries looked at\n", r.Entries)
		for _, p := range r.Problems {
			fmt.Fprintf(w, "  %s\n", show.Line(p))
		}
	})
	if err == nil && !r.OK {
		first := "it is not what it should be"
		if len(r.Problems) > 0 {
			first = r.Problems[0]
		}
		err = exit.Failedf(palyra.ReasonVerifyFailed, "verification failed: %s", first).
			WithRemedy("keep the file as it is and compare it with a copy or an export")
	}
	return err
}

func journalExportCommand(inv *invocation.Invocation) *cobra.Command {
	var from, to int64
	var out string
	cmd := &cobra.Command{
		Use: "export", Short: "Export entries as a sealed segment", Args: syntax.Takes(),
		Example: "  palyra journal export --out journal.ndjson\n  palyra journal verify journal.ndjson --key trust.json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			if from < 1 || to < 0 || to != 0 && to < from {
				return exit.Usagef("--from %d --to %d is not a range: entries count from 1", from, to)
			}
			return inv.WriteTo(ctx, out, func(ctx context.Context, w io.Writer) error { return c.ExportJournal(ctx, from, to, w) })
		}),
	}
	cmd.Flags().Int64Var(&from, "from", 1, "first sequence number")
	cmd.Flags().Int64Var(&to, "to", 0, "last sequence number (default: the newest)")
	syntax.OutFlag(cmd, &out)
	return cmd
}

func journalProofCommand(inv *invocation.Invocation) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "proof SEQ", Short: "Make a proof that an entry is in the journal", Args: syntax.Takes("SEQ"),
		Example: "  palyra journal proof 42 --out proof.json\n  palyra journal verify-proof proof.json --key trust.json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			seq, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || seq < 1 {
				return exit.Usagef("%q is not a sequence number: entries count from 1", args[0])
			}
			return inv.WriteTo(ctx, out, func(ctx context.Context, w io.Writer) error {
				raw, err := c.Proof(ctx, seq)
				if err != nil {
					return err
				}
				_, err = w.Write(append(bytes.TrimRight(raw, "\n"), '\n'))
				return err
			})
		}),
	}
	syntax.OutFlag(cmd, &out)
	return cmd
}

// progress returns a function that shows the progress of long work on a terminal.
func progress(inv *invocation.Invocation, verb string) func(done, total int64) {
	if inv.Quiet || inv.JSON || !terminal.Is(inv.Stderr) {
		return nil
	}
	last := int64(-1)
	return func(done, total int64) {
		if total <= 0 || done*100/total == last {
			return
		}
		last = done * 100 / total
		end := "\r"
		if done >= total {
			end = "\n"
		}
		fmt.Fprintf(inv.Stderr, "palyra: %s %d of %d (%d %%)%s", verb, done, total, last, end)
	}
}
