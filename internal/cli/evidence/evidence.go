// Package evidence has the commands that show, export and check what the daemon leaves behind: the
// journal and proofs of it, attestations, exported approvals, the postures of sandbox tiers, and
// the keys to check all that with.
//
// A check of a file asks no daemon: it is made here, against the keys the person gives.
package evidence

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/client/evidence"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// maxTrust is the largest trust file that is read, and maxExport the largest export.
const (
	maxTrust  = 4 << 20
	maxExport = 1 << 30
)

// keyFlag adds --key.
func keyFlag(cmd *cobra.Command, keys *[]string) {
	cmd.Flags().StringArrayVar(keys, "key", nil,
		"whom to trust: a trust file of 'palyra keys export', a public key in base64, or a verifier line; may be repeated")
	_ = cmd.MarkFlagFilename("key")
}

// readTrust reads the --key flags: the keys that the person trusts.
func readTrust(values []string) (evidence.Trust, error) {
	if len(values) == 0 {
		return evidence.Trust{}, exit.Usagef("--key is required: the trust file of `palyra keys export`, or a public key")
	}
	var all evidence.Trust
	for _, v := range values {
		t, err := readKey(v)
		if err != nil {
			return evidence.Trust{}, err
		}
		all = all.With(t)
	}
	return all, nil
}

// readKey reads one --key: a public key, a verifier line, else a file.
func readKey(value string) (evidence.Trust, error) {
	if t, ok := evidence.ParseKey(value); ok {
		return t, nil
	}
	raw, err := readLimited(value, maxTrust)
	if err != nil {
		return evidence.Trust{}, palyra.AsError(err).
			WithRemedy("give --key a trust file (`palyra keys export > trust.json` makes one), a public key in base64, or a verifier line")
	}
	t, err := evidence.ParseTrust(raw)
	return t, exit.Unproven(err)
}

// readJournalTrust reads the --key flags where a journal is checked.
func readJournalTrust(values []string) (evidence.Trust, error) {
	t, err := readTrust(values)
	if err == nil && !t.ForJournal() {
		err = exit.Usagef("a journal is checked with a trust file of `palyra keys export` or a verifier line, not with a bare public key")
	}
	return t, err
}

// aboutForm adds to the error of a check what to give instead, where the document is the --json
// output of a showing command: that is for reading, and only the envelope in it is signed.
func aboutForm(raw []byte, err error) error {
	var form struct {
		Postures []json.RawMessage `json:"postures"`
		Envelope json.RawMessage   `json:"envelope"`
		Posture  json.RawMessage   `json:"posture"`
	}
	if json.Unmarshal(raw, &form) != nil {
		return err
	}
	switch {
	case form.Postures != nil || form.Posture != nil && form.Envelope != nil:
		return palyra.AsError(err).WithRemedy("this is what --json prints; give what is signed: palyra sandbox posture DIGEST --envelope > FILE")
	case form.Envelope != nil:
		return palyra.AsError(err).WithRemedy("this is what --json prints; give what is signed: palyra attest show REF --envelope > FILE")
	}
	return err
}

// public reports whether s is an Ed25519 public key in base64.
func public(s string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && len(raw) == ed25519.PublicKeySize
}

// readFile reads a file to be checked; "-" is stdin.
func readFile(inv *invocation.Invocation, path string, limit int64) ([]byte, error) {
	if path == "-" {
		return inv.ReadInput("-", limit)
	}
	return readLimited(path, limit)
}

func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.Failedf(palyra.ReasonFileNotFound, "%v", err).WithRemedy("name a file that you can read")
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, exit.Failedf(palyra.ReasonMalformedInput, "%v", err)
	}
	if int64(len(raw)) > limit {
		return nil, exit.Failedf(palyra.ReasonFileTooLarge, "%s is larger than %s", path, screen.Size(limit))
	}
	return raw, nil
}

// ApprovalsVerify is `palyra approvals verify`.
func ApprovalsVerify(inv *invocation.Invocation) *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check an export of approvals; needs no daemon", Args: syntax.Takes("FILE"),
		Example: "  palyra approvals verify approvals.ndjson --key trust.json",
		RunE: func(_ *cobra.Command, args []string) error {
			trust, err := readTrust(keys)
			if err != nil {
				return err
			}
			raw, err := readFile(inv, args[0], maxExport)
			if err != nil {
				return err
			}
			report, err := evidence.VerifyApprovals(bytes.NewReader(raw), trust)
			if err != nil {
				return exit.Unproven(err)
			}
			return inv.Emit(goodExport{true, report}, func(w io.Writer) {
				fmt.Fprintf(w, "good: %d approvals, %d of them pending, exported by %s at %s, signed by %s\n", report.Count, report.Pending,
					show.Line(string(report.By)), screen.Second(report.ExportedAt), show.Line(report.KeyID))
			})
		},
	}
	keyFlag(cmd, &keys)
	return cmd
}

// goodExport is a report with a field that says that the check succeeded.
type goodExport struct {
	OK bool `json:"ok"`
	evidence.ApprovalsReport
}

// verifyJournalFile checks a copy of a journal.
func verifyJournalFile(ctx context.Context, path string, keys []string, progress func(done, total int64)) (client.Report, error) {
	trust, err := readJournalTrust(keys)
	if err != nil {
		return client.Report{}, err
	}
	return reportOf(evidence.VerifyJournal(ctx, path, trust, progress))
}

// reportOf turns the result of an offline check into the report of a live one. A problem is part of
// the report, not an error.
func reportOf(r evidence.JournalReport, err error) (client.Report, error) {
	out := client.Report{OK: err == nil, Root: r.Root, Entries: max(r.To-r.From+1, 0), Notes: r.Notes}
	if r.Key != "" {
		out.KeyIDs = []string{r.Key}
	}
	if r.Problem == nil {
		return out, exit.Unproven(err)
	}
	out.OK, out.Problems = false, []string{r.Problem.String()}
	return out, nil
}

func journalVerifyProofCommand(inv *invocation.Invocation) *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use: "verify-proof FILE", Short: "Check a proof; needs no daemon", Args: syntax.Takes("FILE"),
		Example: "  palyra journal verify-proof proof.json --key trust.json",
		RunE: func(_ *cobra.Command, args []string) error {
			trust, err := readJournalTrust(keys)
			if err != nil {
				return err
			}
			raw, err := readFile(inv, args[0], maxTrust)
			if err != nil {
				return err
			}
			report, err := reportOf(evidence.VerifyProof(raw, trust))
			if err != nil {
				return err
			}
			return printReport(inv, report)
		},
	}
	keyFlag(cmd, &keys)
	return cmd
}
