package evidence

import (
	"context"
	"fmt"
	"io"

	"palyra"
	"palyra/client"
	"palyra/client/evidence"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// compared is a report with the results for kept evidence.
type compared struct {
	client.Report
	Against []comparison `json:"against"`
}

type comparison struct {
	File string `json:"file"`
	evidence.Claim
	Result string `json:"result"` // held, older, other
}

// log is a journal that claims are compared with.
type log struct {
	trust evidence.Trust
	size  int64
	mark  func(ctx context.Context, seq int64) (evidence.Mark, error)
}

// liveLog is the daemon's journal; with --key only the given keys count, not those that the daemon names.
func liveLog(ctx context.Context, inv *invocation.Invocation, c *client.Client, keys []string) (l log, err error) {
	head, err := c.Head(ctx)
	if err != nil {
		return log{}, err
	}
	if len(keys) > 0 {
		l.trust, err = readJournalTrust(keys)
	} else {
		var raw []byte
		if raw, err = c.ExportKeys(ctx); err == nil {
			l.trust, err = evidence.ParseTrust(raw)
		}
	}
	l.size = head.Size
	l.mark = func(ctx context.Context, seq int64) (evidence.Mark, error) {
		proof, err := c.Proof(ctx, seq)
		if err != nil {
			return evidence.Mark{}, err
		}
		return evidence.MarkOf(proof, l.trust)
	}
	return l, err
}

// copyLog is the journal of a copy of the state.
func copyLog(ctx context.Context, path string, keys []string) (l log, err error) {
	if l.trust, err = readJournalTrust(keys); err != nil {
		return log{}, err
	}
	_, l.size, err = evidence.MarkInFile(ctx, path, 0)
	l.mark = func(ctx context.Context, seq int64) (evidence.Mark, error) {
		m, _, err := evidence.MarkInFile(ctx, path, seq)
		return m, err
	}
	return l, err
}

// compare compares kept evidence with a journal.
func (l log) compare(ctx context.Context, files []string) (all []comparison, err error) {
	for _, file := range files {
		c := comparison{File: file}
		if c.Claim, err = evidence.ReadClaim(ctx, file, l.trust); err != nil {
			return nil, exit.Unproven(err)
		}
		var m evidence.Mark
		if c.Seq <= l.size {
			if m, err = l.mark(ctx, c.Seq); err != nil {
				return nil, err
			}
		}
		c.Result = c.Against(l.size, m)
		all = append(all, c)
	}
	return all, nil
}

// printCompared prints a report and the results of the comparison. An older journal has an exit code of its own.
func printCompared(inv *invocation.Invocation, r client.Report, all []comparison) error {
	if !r.OK {
		return printReport(inv, r)
	}
	worst := evidence.ClaimHeld
	err := inv.Emit(compared{r, all}, func(w io.Writer) {
		fmt.Fprintf(w, "good: %d entries, root %s, signed by %s\n", r.Entries, show.Line(string(r.Root)), show.Line(screen.Joined(r.KeyIDs)))
		for _, c := range all {
			said := map[string]string{
				evidence.ClaimHeld: "it is in the journal", evidence.ClaimOlder: "THE JOURNAL IS OLDER",
				evidence.ClaimOther: "THE JOURNAL HAS SOMETHING ELSE THERE",
			}[c.Result]
			fmt.Fprintf(w, "%s: %s up to entry %d: %s\n", show.Arg(c.File), c.Form, c.Seq, said)
		}
	})
	for _, c := range all {
		if c.Result != evidence.ClaimHeld && worst != evidence.ClaimOther {
			worst = c.Result
		}
	}
	switch {
	case err != nil || worst == evidence.ClaimHeld:
		return err
	case worst == evidence.ClaimOlder:
		return exit.Error{Code: exit.Older, Err: exit.Failedf(palyra.ReasonVerifyFailed,
			"the journal is older than what you kept: it ends at entry %d", r.Entries).
			WithRemedy("an older copy of the state was put in place; keep it as evidence and restore the newest backup")}
	}
	return exit.Failedf(palyra.ReasonVerifyFailed, "the journal is not the one that you kept evidence of").
		WithRemedy("it was replaced or changed by who holds its key; keep both as evidence")
}
