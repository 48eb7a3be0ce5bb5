package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/posture"
)

// postureKey signs as a daemon does.
type postureKey ed25519.PrivateKey

func (k postureKey) public() ed25519.PublicKey {
	return ed25519.PrivateKey(k).Public().(ed25519.PublicKey)
}
func (k postureKey) KeyID() string { return keyID(k.public()) }
func (k postureKey) Sign(msg []byte) ([]byte, error) {
	return ed25519.Sign(ed25519.PrivateKey(k), msg), nil
}

func newPostureKey(seed byte) postureKey {
	return postureKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
}

func signedPosture(t *testing.T, held bool) palyra.SignedPosture {
	t.Helper()
	s, err := posture.Sign(newPostureKey(1), palyra.Posture{
		StateID: "01STATE", At: "2026-11-15T10:00:00Z", Facts: map[string]string{"kernel": "6.18 <&>"}, Tiers: []palyra.TierPosture{
			{
				Tier: palyra.TierB, Available: true, Mechanisms: []string{"seccomp"},
				Limits: map[string]palyra.Hold{"memory": "cgroup"}, Probes: []palyra.Probe{{Name: "secret", Held: held, Detail: "refused"}},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A posture is checked like any other evidence, as an envelope and as commands
// show it.
func TestPosture(t *testing.T) {
	dir := t.TempDir()
	key := base64.StdEncoding.EncodeToString(newPostureKey(1).public())
	other := base64.StdEncoding.EncodeToString(newPostureKey(2).public())
	for name, c := range map[string]struct {
		raw   []byte
		key   string
		code  int
		wants []string
	}{
		"envelope": {text(t, signedPosture(t, true).Envelope), key, 0, []string{
			"OK\n", `kind                 "posture"`,
			`state_id             "01STATE"`, `held                 "true"`, "only the daemon there can say",
			string(signedPosture(t, true).Digest),
		}},
		"shown":       {text(t, signedPosture(t, true)), key, 0, []string{"OK\n", `"posture"`}},
		"not held":    {text(t, signedPosture(t, false).Envelope), key, 0, []string{`held                 "false"`, "NOT everything held"}},
		"another key": {text(t, signedPosture(t, true).Envelope), other, 1, []string{"BAD: the signing key is not a trusted one"}},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(file, c.raw, 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		if code := run([]string{"--key", c.key, file}, nil, &out, &errs); code != c.code {
			t.Errorf("%s: %d %s%s", name, code, &out, &errs)
		}
		for _, want := range c.wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, &out)
			}
		}
	}
}

// Any change is found, in the envelope and beside it.
func TestEveryByteOfAPostureCounts(t *testing.T) {
	keys := []ed25519.PublicKey{newPostureKey(1).public()}
	for _, raw := range [][]byte{text(t, signedPosture(t, true).Envelope), text(t, signedPosture(t, true))} {
		if _, err := verifyPosture(raw, keys); err != nil {
			t.Fatal(err)
		}
		for i := range raw {
			forged := bytes.Clone(raw)
			forged[i] ^= 1
			if _, err := verifyPosture(forged, keys); err == nil {
				t.Errorf("byte %d of %s", i, raw)
			} else if err != nil && strings.Contains(err.Error(), "runtime error") {
				t.Errorf("byte %d: refused by accident: %v", i, err)
			}
		}
	}
	s := signedPosture(t, true)
	s.Posture.Tiers[0].Probes[0].Held = false
	if _, err := verifyPosture(text(t, s), keys); err == nil {
		t.Error("what is shown is not what was signed")
	}
	for _, bad := range []string{"", "{", "[]", "null", `{"envelope":null}`, `{"envelope":{},"posture":{}}`, `{"payload":"!"}`} {
		if _, err := verifyPosture([]byte(bad), keys); err == nil {
			t.Errorf("%q was accepted", bad)
		}
		if isPosture([]byte(bad)) {
			t.Errorf("%q is no posture", bad)
		}
	}
}

// A posture is no attestation of a call, nor the other way round.
func TestAPostureIsNoAttestation(t *testing.T) {
	if _, err := verify(text(t, signedPosture(t, true).Envelope), []ed25519.PublicKey{newPostureKey(1).public()}, nil); err == nil {
		t.Error("a posture was taken for an attestation")
	}
}
