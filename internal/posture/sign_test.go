package posture

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"palyra"
)

// key signs as the keyring does.
type key struct{ ed25519.PrivateKey }

func keyOf(seed byte) key {
	return key{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}
}

func (k key) public() ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func (k key) KeyID() string {
	h := sha256.Sum256(k.public())
	return hex.EncodeToString(h[:8])
}

func (k key) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(k.PrivateKey, msg), nil }

func sample() palyra.Posture {
	return palyra.Posture{
		StateID: "01STATE", At: "2026-11-15T10:00:00Z", Facts: map[string]string{"kernel": "6.18", "boot_id": "b", "a<b": "&"},
		Tiers: []palyra.TierPosture{
			{
				Tier: palyra.TierB, Available: true, Mode: "strict", Mechanisms: []string{"seccomp"},
				Limits: map[string]palyra.Hold{"memory": "cgroup"},
				Probes: []palyra.Probe{{Name: "secret", Held: true, Detail: "refused: EACCES"}}, Notes: []string{},
			},
			{
				Tier: palyra.TierC, Reason: palyra.ReasonTierUnavailable, Text: "no bwrap", Remedy: "apt install bubblewrap",
				Mechanisms: []string{}, Limits: map[string]palyra.Hold{}, Probes: []palyra.Probe{}, Notes: []string{},
			},
		},
	}
}

func signed(t testing.TB, p palyra.Posture) (palyra.SignedPosture, []byte) {
	t.Helper()
	s, err := Sign(keyOf(1), p)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(s.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	return s, raw
}

func TestSignAndVerify(t *testing.T) {
	s, raw := signed(t, sample())
	digest, err := sample().Digest()
	if err != nil || s.Digest != digest || !digest.Valid() {
		t.Errorf("%s %s %v", s.Digest, digest, err)
	}
	for _, keys := range [][]ed25519.PublicKey{{keyOf(1).public()}, {keyOf(2).public(), nil, keyOf(1).public()}} {
		got, err := Verify(raw, keys...)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s, got); d != "" {
			t.Error(d)
		}
	}
	var spaced bytes.Buffer
	if err := json.Indent(&spaced, raw, "", "\t"); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(spaced.Bytes(), keyOf(1).public()); err != nil {
		t.Errorf("white space: %v", err)
	}
	for _, keys := range [][]ed25519.PublicKey{nil, {keyOf(2).public()}, {nil}} {
		if _, err := Verify(raw, keys...); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed || palyra.AsError(err).Remedy == "" {
			t.Errorf("%v", err)
		}
	}
	if _, err := Sign(nil, sample()); err == nil {
		t.Error("no key signed")
	}
}

// The envelope is one that others can check as well.
func TestEnvelopeIsDSSE(t *testing.T) {
	s, _ := signed(t, sample())
	payload, err := base64.StdEncoding.DecodeString(s.Envelope.Payload)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := base64.StdEncoding.DecodeString(s.Envelope.Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	if !ed25519.Verify(keyOf(1).public(), dsse.PAE(s.Envelope.PayloadType, payload), sig) {
		t.Error("another implementation does not accept the signature")
	}
	var st struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
	}
	if err := json.Unmarshal(payload, &st); err != nil {
		t.Fatal(err)
	}
	if st.Type != "https://in-toto.io/Statement/v1" || st.PredicateType != "https://palyra.dev/attestation/posture/v1" ||
		st.Subject[0].Name != "palyra:posture:01STATE" || "sha256:"+st.Subject[0].Digest["sha256"] != string(s.Digest) {
		t.Errorf("%+v", st)
	}
}

// TestEveryByteCounts: no byte of an envelope can be another.
func TestEveryByteCounts(t *testing.T) {
	_, raw := signed(t, sample())
	for i := range raw {
		for _, bit := range []byte{1, 2, 32, 128} {
			changed := bytes.Clone(raw)
			changed[i] ^= bit
			if _, err := Verify(changed, keyOf(1).public()); err == nil {
				t.Fatalf("byte %d (%q) may be %q", i, raw[i], changed[i])
			}
		}
	}
}

// TestResigned: what another tool signs with the right key is not a posture
// unless it is written as one.
func TestResigned(t *testing.T) {
	s, raw := signed(t, sample())
	payload, _ := base64.StdEncoding.DecodeString(s.Envelope.Payload)
	sign := func(kind string, payload []byte) []byte {
		sig, _ := keyOf(1).Sign(preAuth(kind, payload))
		b, _ := json.Marshal(palyra.Envelope{
			PayloadType: kind, Payload: base64.StdEncoding.EncodeToString(payload),
			Signatures: []palyra.EnvelopeSignature{{KeyID: keyOf(1).KeyID(), Sig: base64.StdEncoding.EncodeToString(sig)}},
		})
		return b
	}
	if _, err := Verify(sign(palyra.PayloadType, payload), keyOf(1).public()); err != nil {
		t.Fatal(err)
	}
	swap := func(old, new string) []byte {
		t.Helper()
		if !bytes.Contains(payload, []byte(old)) {
			t.Fatalf("no %s", old)
		}
		return bytes.Replace(payload, []byte(old), []byte(new), 1)
	}
	for name, text := range map[string][]byte{
		"another payload type": sign("application/json", payload),
		"another predicate":    sign(palyra.PayloadType, swap("/posture/v1", "/tool-call/v1")),
		"another statement":    sign(palyra.PayloadType, swap("Statement/v1", "Statement/v2")),
		"another subject":      sign(palyra.PayloadType, swap("palyra:posture:01STATE", "palyra:posture:01OTHER")),
		"another result":       sign(palyra.PayloadType, swap(`"held":true`, `"held":false`)),
		"an unknown member":    sign(palyra.PayloadType, swap(`"_type"`, `"x":1,"_type"`)),
		"a member twice":       sign(palyra.PayloadType, swap(`"predicateType"`, `"_type":"https://in-toto.io/Statement/v1","predicateType"`)),
		"white space inside":   sign(palyra.PayloadType, append(payload, ' ')),
		"no predicate":         sign(palyra.PayloadType, []byte(`{}`)),
		"no signature":         bytes.Replace(raw, []byte(`"signatures":[`), []byte(`"signatures":[],"x":[`), 1),
		"nothing":              nil,
		"null":                 []byte("null"),
		"not UTF-8":            append(bytes.Clone(raw), 0xff),
		"large":                bytes.Repeat([]byte(" "), MaxInput+1),
	} {
		if _, err := Verify(text, keyOf(1).public()); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzVerify: what Verify accepts is, but for white space, what was signed.
func FuzzVerify(f *testing.F) {
	_, raw := signed(f, sample())
	f.Add(raw)
	f.Add([]byte(`{"payloadType":"","payload":"","signatures":[]}`))
	f.Add([]byte(strings.ToUpper(string(raw))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := Verify(b, keyOf(1).public()); err != nil {
			return
		}
		var text bytes.Buffer
		if err := json.Compact(&text, b); err != nil || !bytes.Equal(text.Bytes(), raw) {
			t.Errorf("accepted %q", b)
		}
	})
}

type broken struct{ key }

func (broken) Sign([]byte) ([]byte, error) { return nil, errors.New("no") }

func TestSignFails(t *testing.T) {
	if _, err := Sign(broken{keyOf(1)}, sample()); err == nil {
		t.Error("a key that fails signed")
	}
	bad := sample()
	bad.StateID = "\xff"
	if _, err := Sign(keyOf(1), bad); err == nil {
		t.Error("text that has no digest was signed")
	}
}
