package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

// What a run reached, and what it was refused, stands in the text as well.
func TestAttestationsShowTheirFlows(t *testing.T) {
	at := palyra.Attestation{ID: "A", Predicate: palyra.Predicate{
		CallID: "C", EgressOmitted: 3, Quarantined: []palyra.PathText{".git/hooks/x\x1b"}, Egress: []palyra.EgressFlow{
			{Door: "connect", Host: "good.example", Port: 443, Address: "192.0.2.1", In: 10, Out: 20, Verdict: "allow", Grant: "G"},
			{Door: "dns", Host: "bad.example\x1b[2J", Verdict: "deny"},
		},
	}}
	var b bytes.Buffer
	printPredicate(&b, at)
	words := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"HOST VERDICT DOOR ADDRESS BYTES IN BYTES OUT", "good.example:443 allow by G connect 192.0.2.1 10 20", `bad.example\x1b[2J deny dns 0 0`,
		"and 3 connections that are not listed", `quarantined: ".git/hooks/x\x1b"`,
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	b.Reset()
	printPredicate(&b, palyra.Attestation{})
	if strings.Contains(b.String(), "HOST") {
		t.Error(b.String())
	}
}

// A key file that is not there is no riddle.
func TestAMissingKeyFileHasARemedy(t *testing.T) {
	_, err := readTrust([]string{filepath.Join(t.TempDir(), "trust.json")})
	if e := palyra.AsError(err); e.Reason != palyra.ReasonFileNotFound || !strings.Contains(e.Remedy, "palyra keys export > trust.json") {
		t.Errorf("%v, %q", err, e.Remedy)
	}
}
