package keyring

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"palyra"
	"palyra/internal/canon"
)

const (
	trustVersion  = 1
	maxTrustBytes = 4 << 20
)

// TrustKey is a public key and the signature of the key before it.
type TrustKey struct {
	palyra.Key
	SignedBy string `json:"signed_by,omitempty"` // empty for the first key of a use
	Sig      string `json:"sig,omitempty"`       // over the hand-over, see docs/formats.md

	recorded bool // stands in the table
}

// Trust is the content of a trust file: every key of a daemon, oldest first.
type Trust struct {
	Version int        `json:"palyra_keys"`
	Keys    []TrustKey `json:"keys"`
}

// Of returns the keys of one use.
func (t Trust) Of(use palyra.KeyUse) []palyra.Key {
	var keys []palyra.Key
	for _, k := range t.Keys {
		if k.Use == use {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// Export returns the trust file.
func (r *Ring) Export() ([]byte, error) {
	r.mu.Lock()
	t := Trust{Version: trustVersion, Keys: slices.Clone(r.history)}
	r.mu.Unlock()
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("keyring: export: %w", err)
	}
	return append(b, '\n'), nil
}

// ParseTrust reads a trust file and checks it within itself: each key is what its id and verifier line say, and
// each but the first of its use is signed by the one before. Whether to trust the first is the reader's choice.
func ParseTrust(raw []byte) (Trust, error) {
	if len(raw) > maxTrustBytes {
		return Trust{}, badTrust("it is larger than %d bytes", maxTrustBytes)
	}
	if _, err := canon.Parse(raw); err != nil { // repeated keys, invalid text
		return Trust{}, badTrust("it is not strict JSON")
	}
	var t Trust
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return Trust{}, badTrust("it does not have the right fields")
	}
	if t.Version != trustVersion {
		return Trust{}, badTrust("its version is %d, not %d", t.Version, trustVersion)
	}
	last := map[palyra.KeyUse]TrustKey{}
	for _, k := range t.Keys {
		if err := checkLink(last[k.Use], k); err != nil {
			return Trust{}, err
		}
		last[k.Use] = k
	}
	return t, nil
}

func checkLink(before, k TrustKey) error {
	pub, err := decodeKey(k.PublicKey)
	switch {
	case err != nil:
		return badTrust("key %q has no proper public key", k.ID)
	case !slices.Contains(Uses(), k.Use):
		return badTrust("key %q has the unknown use %q", k.ID, k.Use)
	case k.ID != KeyID(pub):
		return badTrust("key %q is not what its id says", k.ID)
	case !validName(verifierName(k.Verifier)) || k.Verifier != verifierLine(verifierName(k.Verifier), pub):
		return badTrust("the verifier line of key %q is not its own", k.ID)
	case k.SignedBy != before.ID:
		return badTrust("key %q does not follow key %q", k.ID, before.ID)
	case before.ID == "" && k.Sig == "":
		return nil
	case before.ID != "" && before.RetiredAt.IsZero():
		return badTrust("key %q was followed while in use", before.ID)
	}
	old, err := decodeKey(before.PublicKey)
	if err != nil {
		return badTrust("key %q is signed, but follows no key", k.ID)
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(k.Sig)
	if err != nil {
		return badTrust("the signature of key %q is not base64", k.ID)
	}
	msg, err := rotationMessage(before.ID, k.Key)
	if err != nil {
		return err
	}
	if !ed25519.Verify(old, msg, sig) {
		return badTrust("key %q is not signed by key %q", k.ID, before.ID)
	}
	return nil
}

func decodeKey(text string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err == nil && (len(b) != ed25519.PublicKeySize || base64.StdEncoding.EncodeToString(b) != text) {
		err = fmt.Errorf("keyring: not a public key")
	}
	return b, err
}

func badTrust(format string, args ...any) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonVerifyFailed, "the trust file is not valid: %s", fmt.Sprintf(format, args...)).
		WithRemedy("fetch it again with 'palyra keys export'")
}
