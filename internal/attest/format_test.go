package attest_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"palyra/internal/attest"
	"palyra/internal/attest/attesttest"
)

var update = flag.Bool("update", false, "write testdata anew")

// The file is what this run has always looked like. When it changes, evidence
// that people keep is no longer read: then the predicate needs a new type, not
// this test a new file.
func TestFormatIsFixed(t *testing.T) {
	const file = "testdata/outcome.json"
	got, _ := attesttest.NewRun().Seal()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the format has changed:\n%s\nwas\n%s", got, want)
	}
	if _, err := attest.Verify(want, attesttest.Trust()); err != nil {
		t.Error(err)
	}
}

// Signing does not change what it is given, and signs the same twice.
func TestSignIsPure(t *testing.T) {
	p := predicate()
	fields := len(p.Decision.Votes[0].Signature.Fields)
	first, err := attest.Sign(t.Context(), attesttest.Daemon, p)
	if err != nil {
		t.Fatal(err)
	}
	second, err := attest.Sign(t.Context(), attesttest.Daemon, first.Predicate)
	if err != nil || second.Digest != first.Digest {
		t.Errorf("%s then %s, %v", first.Digest, second.Digest, err)
	}
	if p.ExecutionSHA256 != "" || len(p.Decision.Votes[0].Signature.Fields) != fields {
		t.Error("the predicate was changed")
	}
}

// The reader sees the predicate that was signed.
func TestSignedPredicateIsTheOneRead(t *testing.T) {
	att, err := attest.Sign(t.Context(), attesttest.Daemon, predicate())
	if err != nil {
		t.Fatal(err)
	}
	if execution, err := att.Predicate.Execution(); err != nil || execution != att.Predicate.ExecutionSHA256 {
		t.Errorf("execution %s, %v; signed %s", execution, err, att.Predicate.ExecutionSHA256)
	}
}

// JSON would write U+FFFD for bytes that are no text, and two predicates would
// read the same: they are not signed.
func TestWhatIsNoTextIsNotSigned(t *testing.T) {
	p := predicate()
	p.KillReason = "bad \xff byte"
	if _, err := attest.Sign(t.Context(), attesttest.Daemon, p); err == nil {
		t.Error("signed")
	}
}
