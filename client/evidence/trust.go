package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"

	"palyra"
	"palyra/internal/attest"
	"palyra/internal/keyring"
)

// Trust holds the keys that a reader believes. The zero value believes no key.
type Trust struct {
	keys      []palyra.Key // a bare key has no use and serves for any
	operators []string
}

// ParseTrust reads a trust file and checks that its keys hand over to each other. It also takes a
// text that ParseKey takes, with white space around it.
func ParseTrust(raw []byte) (Trust, error) {
	if t, ok := ParseKey(strings.TrimSpace(string(raw))); ok {
		return t, nil
	}
	file, err := keyring.ParseTrust(raw)
	if err != nil {
		return Trust{}, err
	}
	var t Trust
	for _, k := range file.Keys {
		t.keys = append(t.keys, k.Key)
	}
	return t, nil
}

// ParseKey reads one key: an Ed25519 public key in base64, or the verifier line of a signed note.
// It reports whether text is one of them.
func ParseKey(text string) (Trust, bool) {
	if _, err := attest.KeyOf(text); err == nil {
		return Trust{keys: []palyra.Key{{PublicKey: text}}}, true
	}
	if key, ok := verifierLine(text); ok {
		return Trust{keys: []palyra.Key{key}}, true
	}
	return Trust{}, false
}

// verifierLine reads a signed-note verifier line: name, hash and key, joined by plus signs. The key
// itself may contain more of them.
func verifierLine(s string) (palyra.Key, bool) {
	const ed25519Note = 1
	parts := strings.SplitN(s, "+", 3)
	if len(parts) != 3 {
		return palyra.Key{}, false
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(parts[2])
	if err != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != ed25519Note {
		return palyra.Key{}, false
	}
	return palyra.Key{PublicKey: base64.StdEncoding.EncodeToString(raw[1:]), Verifier: s}, true
}

// With adds the keys of others.
func (t Trust) With(others ...Trust) Trust {
	for _, o := range others {
		t.keys = append(t.keys[:len(t.keys):len(t.keys)], o.keys...)
		t = t.WithOperators(o.operators...)
	}
	return t
}

// WithOperators adds the operators' keys (base64) that are believed. Without any, an attestation's
// votes are checked with the keys that they bring along, and the report says so.
func (t Trust) WithOperators(keys ...string) Trust {
	t.operators = append(t.operators[:len(t.operators):len(t.operators)], keys...)
	return t
}

// ForJournal reports whether the keys can check a journal or a proof. Bare public keys cannot,
// because they lack the name that signed notes go by, nor can keys of another use.
func (t Trust) ForJournal() bool { return len(t.verifiers()) > 0 }

// verifiers returns the keys that may have signed a journal, as signed notes name them, without
// those for attestations.
func (t Trust) verifiers() []string {
	var lines []string
	for _, k := range t.keys {
		if k.Verifier != "" && (k.Use == "" || k.Use == palyra.KeyJournal) {
			lines = append(lines, k.Verifier)
		}
	}
	return lines
}

// attestation returns the keys that may have signed an attestation: those of a trust file with that
// use, and bare ones, which have no use.
func (t Trust) attestation() attest.Trust {
	out := attest.Trust{OperatorKeys: t.operators}
	for _, k := range t.keys {
		if k.Use == "" {
			if bare, err := attest.KeyOf(k.PublicKey); err == nil {
				k = bare
			}
		}
		out.Keys = append(out.Keys, k)
	}
	return out
}

// publicKeys returns all the keys in base64.
func (t Trust) publicKeys() []string {
	var out []string
	for _, k := range t.keys {
		out = append(out, k.PublicKey)
	}
	return out
}
