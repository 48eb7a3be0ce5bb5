package access

import (
	"encoding/json"

	"palyra"
	"palyra/internal/passkey"
	"palyra/internal/store"
)

// encodePasskey is what a device's row has of a passkey; empty: it is none.
func encodePasskey(p *palyra.Passkey) (string, error) {
	if p == nil {
		return "", nil
	}
	b, err := json.Marshal(p)
	return string(b), err
}

func decodePasskey(kept string) (*palyra.Passkey, error) {
	if kept == "" {
		return nil, nil
	}
	p := &palyra.Passkey{}
	return p, json.Unmarshal([]byte(kept), p)
}

// verifyAssertion checks what a passkey signed: as whoever reads the evidence will, at the console where it was made, and
// by the rules of WebAuthn.
func (r *Registry) verifyAssertion(op palyra.Operator, msg []byte, sig palyra.Signature) (passkey.Said, error) {
	key, err := passkey.ParseKey(op.PublicKey)
	if err != nil {
		return passkey.Said{}, err
	}
	said, err := key.Check(msg, sig.Sig, sig.Assertion.AuthenticatorData, sig.Assertion.ClientData)
	switch {
	case err != nil:
		return passkey.Said{}, palyra.Errorf(palyra.Denied, palyra.ReasonBadSignature, "the passkey did not sign this: %v", err).
			WithRemedy("answer again, in the browser and at the page where the passkey was registered").WithCause(err)
	case said.Origin != op.Passkey.Origin:
		return passkey.Said{}, palyra.Errorf(palyra.Denied, palyra.ReasonBadSignature, "the passkey was used at %s, and belongs to %s",
			palyra.Clip(said.Origin, 128), op.Passkey.Origin).
			WithRemedy("answer at %s, or register a passkey where you are", op.Passkey.Origin)
	case said.Eligible != op.Passkey.Eligible:
		return passkey.Said{}, palyra.Errorf(palyra.Denied, palyra.ReasonBadSignature,
			"the authenticator says otherwise about copies of the passkey than when it was registered").
			WithRemedy("revoke it, and register it again: palyra device revoke")
	case r.Passkey == nil:
		return passkey.Said{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "this daemon takes no passkeys")
	}
	return said, r.Passkey(*op.Passkey, key, msg, sig.Sig, *sig.Assertion)
}

// counts holds the authenticator's own count of signatures against the last one: it only grows, but where the
// authenticator does not count, which it never does then. A count that was seen is that of a copy.
func counts(tx *store.Tx, op palyra.Operator, said passkey.Said) error {
	n, err := tx.Exec(`UPDATE access_devices SET sign_count = ? WHERE key_id = ? AND (sign_count < ? OR sign_count = 0 AND ? = 0)`,
		int64(said.Count), op.KeyID, int64(said.Count), int64(said.Count))
	if err == nil && n == 0 {
		err = palyra.Errorf(palyra.Denied, palyra.ReasonPasskeyCopied,
			"the authenticator's count of signatures went back: there is a copy of the passkey").
			WithRemedy("if you know of no copy, revoke it: palyra device revoke; then register another")
	}
	return err
}
