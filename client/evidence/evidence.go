// Package evidence checks what a daemon signed, without a daemon: attestations, the journal or a part of it, a
// proof that an entry stands in the journal, and exported approvals. All it needs is the daemon's trust file, which
// client.ExportKeys or "palyra keys export" returns, or one of its keys.
//
// A nil error means that everything was checked and fits. Any other result is
// an error, whatever the report says; reports are for people.
//
// What a trust file cannot say is whether it is the right one: get it, or a
// key's fingerprint, by a way that the daemon's host does not control.
package evidence

import (
	"context"
	"io"
	"time"

	"palyra/internal/approval"
	"palyra/internal/attest"
	"palyra/internal/audit"
	"palyra/internal/journal"
)

// The reports of the checks.
type (
	// AttestationReport is the content of a checked attestation.
	AttestationReport = attest.Report
	// JournalReport is the result of checking a journal.
	JournalReport = journal.Report
	// JournalProblem is the first thing that a journal's check found wrong.
	JournalProblem = journal.Problem
	// ApprovalsReport is the content of a checked export of approvals.
	ApprovalsReport = approval.Report
)

// MaxAttestation is the largest text that VerifyAttestation reads, in bytes.
const MaxAttestation = attest.MaxInput

// VerifyAttestation checks a DSSE envelope, or a whole outcome that contains one.
func VerifyAttestation(raw []byte, t Trust) (AttestationReport, error) {
	return attest.Verify(raw, t.attestation())
}

// VerifyJournal checks a copy of a state file, with the tables that follow from the
// journal, or an exported segment. progress may be nil.
func VerifyJournal(ctx context.Context, path string, t Trust, progress func(done, total int64)) (JournalReport, error) {
	return journal.VerifyFile(ctx, path, t.verifiers(), progress, func(now time.Time) journal.Auditor { return audit.New(now) })
}

// VerifyProof checks the proof of an entry.
func VerifyProof(raw []byte, t Trust) (JournalReport, error) {
	return journal.VerifyProof(raw, t.verifiers())
}

// VerifyApprovals checks an export of approvals.
func VerifyApprovals(r io.Reader, t Trust) (ApprovalsReport, error) {
	return approval.VerifyExport(r, t.publicKeys())
}
