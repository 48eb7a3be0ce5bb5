package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

// A public key, and the same as a verifier line.
const (
	sampleKey      = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
	sampleVerifier = "palyra/test+0f1d9bbd+AddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea"
)

func TestParseKey(t *testing.T) {
	for text, verifier := range map[string]string{sampleKey: "", sampleVerifier: sampleVerifier} {
		want := []palyra.Key{{PublicKey: sampleKey, Verifier: verifier}}
		if got, ok := ParseKey(text); !ok || !cmp.Equal(want, got.keys) {
			t.Errorf("%q: %+v", text, got.keys)
		}
		if got, err := ParseTrust([]byte(" " + text + "\n")); err != nil || !cmp.Equal(want, got.keys) {
			t.Errorf("%q in a file: %+v %v", text, got.keys, err)
		}
	}
	for name, text := range map[string]string{
		"nothing":           "",
		"white space":       " " + sampleKey,
		"a broken line":     sampleKey[:8] + "\n" + sampleKey[8:],
		"two keys":          sampleKey + "\n" + sampleKey,
		"a shorter key":     base64.StdEncoding.EncodeToString(make([]byte, ed25519.PublicKeySize-1)),
		"a line of RSA":     "n+00000000+" + base64.StdEncoding.EncodeToString(append([]byte{2}, make([]byte, 32)...)),
		"a line with spice": sampleVerifier + "!",
		"a line's half":     "n+00000000",
		"a trust file":      `{"palyra_keys":1,"keys":[]}`,
	} {
		if got, ok := ParseKey(text); ok || len(got.keys) > 0 {
			t.Errorf("%s: %+v", name, got.keys)
		}
	}
}

// A key counts for what it was given for, and a bare one for what it fits.
func TestTrustByUse(t *testing.T) {
	bare, _ := ParseKey(sampleKey)
	line, _ := ParseKey(sampleVerifier)
	both := bare.With(line)
	if got := both.publicKeys(); !slices.Equal(got, []string{sampleKey, sampleKey}) {
		t.Errorf("public keys %q", got)
	}
	if got := both.verifiers(); !slices.Equal(got, []string{sampleVerifier}) || !both.ForJournal() {
		t.Errorf("verifiers %q", got)
	}
	for _, k := range both.attestation().Keys {
		if k.Use != "attestation" || k.ID == "" {
			t.Errorf("%+v", k)
		}
	}
	if bare.ForJournal() || (Trust{}).ForJournal() {
		t.Error("a journal is to be checked without a verifier line")
	}
	attestation := Trust{keys: []palyra.Key{{Use: "attestation", PublicKey: sampleKey, Verifier: sampleVerifier}}}
	if attestation.ForJournal() {
		t.Errorf("a key for attestations may sign a journal: %q", attestation.verifiers())
	}
	journal := Trust{keys: []palyra.Key{{ID: "j", Use: "journal", PublicKey: sampleKey, Verifier: sampleVerifier}}}
	if got := journal.attestation().Keys[0]; got.Use != "journal" || !journal.ForJournal() {
		t.Errorf("a journal key became one for attestations: %+v", got)
	}
}

// Adding to a trust leaves the one it was made of as it was.
func TestTrustIsAValue(t *testing.T) {
	bare, _ := ParseKey(sampleKey)
	line, _ := ParseKey(sampleVerifier)
	base := bare.With(bare, bare).WithOperators("a", "b", "c")
	first, second := base.With(line.WithOperators("x")), base.With(bare.WithOperators("y"))
	if len(base.keys) != 3 || !slices.Equal(base.operators, []string{"a", "b", "c"}) {
		t.Errorf("the base changed: %+v", base)
	}
	if !first.ForJournal() || second.ForJournal() {
		t.Error("one trust has another's key")
	}
	if !slices.Equal(first.operators, []string{"a", "b", "c", "x"}) || !slices.Equal(second.attestation().OperatorKeys,
		[]string{"a", "b", "c", "y"}) {
		t.Errorf("operators %q and %q", first.operators, second.operators)
	}
}

// No text becomes a key that is not one.
func FuzzVerifierLine(f *testing.F) {
	f.Add(sampleVerifier)
	f.Add("a+b+c")
	f.Add("++")
	f.Fuzz(func(t *testing.T, s string) {
		k, ok := verifierLine(s)
		if !ok {
			return
		}
		if raw, err := base64.StdEncoding.DecodeString(k.PublicKey); err != nil || len(raw) != ed25519.PublicKeySize || k.Verifier != s {
			t.Fatalf("%q became %+v", s, k)
		}
	})
}
