package evidence_test

import (
	"bytes"
	"context"
	"fmt"

	"palyra/client/evidence"
	"palyra/internal/attest/attesttest"
)

// A reader who holds an outcome and knows the daemon's key, and those of the people who may decide, needs no daemon.
// Whatever was changed in it is refused.
func ExampleVerifyAttestation() {
	outcome, _ := attesttest.NewRun().Seal()
	trust, ok := evidence.ParseKey(attesttest.Daemon.Public()) // or ParseTrust of what "palyra keys export" wrote
	if !ok {
		fmt.Println("that is no key")
		return
	}
	trust = trust.WithOperators(attesttest.Ada.Public())

	report, err := evidence.VerifyAttestation(outcome, trust)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Tool, report.Outcome, "allowed by", report.DecidedBy)

	changed := bytes.Replace(outcome, []byte(`"outcome":"finished"`), []byte(`"outcome":"refused"`), 1)
	_, err = evidence.VerifyAttestation(changed, trust)
	fmt.Println("changed:", err != nil)

	// Output:
	// palyra.process.run finished allowed by [user:ada]
	// changed: true
}

// A journal export is checked from its first line to its last, against the keys of a trust file.
func ExampleVerifyJournal() {
	check := func(trustFile []byte, export string) error {
		trust, err := evidence.ParseTrust(trustFile)
		if err != nil {
			return err
		}
		report, err := evidence.VerifyJournal(context.Background(), export, trust, nil)
		if err != nil {
			return err // nothing in the report counts
		}
		fmt.Println("entries", report.From, "to", report.To)
		return nil
	}
	fmt.Println(check([]byte("{}"), "journal.jsonl") != nil)
	// Output: true
}
