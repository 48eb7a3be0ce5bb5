package palyra

import (
	"time"

	"palyra/internal/canon"
)

const (
	intentDomain     = "intent/v1"
	intentBodyDomain = "intent-body/v1"
)

// IntentWindow is how far a signature's time may lie from the daemon's clock.
const IntentWindow = 2 * time.Minute

// Intent is what an operator signs: one method, one body, once, now, for one daemon. The plan digest stands on its
// own so that a decision names the plan it is about even to a reader who cannot decode the body.
type Intent struct {
	Audience   string `json:"audience"` // id of the daemon's state, so that no other daemon accepts it
	Method     string `json:"method"`   // palyra.v1.ApprovalsService/DecideApproval
	Body       Digest `json:"body"`     // canonical digest of the request's fields
	PlanDigest Digest `json:"plan_digest,omitempty"`
	Nonce      string `json:"nonce"` // 16 random bytes, base64url
	Time       string `json:"time"`  // RFC 3339 UTC
	KeyID      string `json:"key_id"`
}

// Signature is a signed intent as it is kept, for outsiders to check. Fields has the request as JSON, secrets redacted.
type Signature struct {
	Intent    Intent         `json:"intent"`
	Fields    map[string]any `json:"fields"`
	PublicKey string         `json:"public_key"` // base64: an Ed25519 key, or a passkey's in PKIX
	Sig       string         `json:"sig"`        // base64
	Assertion *Assertion     `json:"assertion,omitempty"`
}

// Assertion is what a passkey's signature is over, in base64: the challenge is the digest of the intent's bytes (WebAuthn).
type Assertion struct {
	AuthenticatorData string `json:"authenticator_data"`
	ClientData        string `json:"client_data_json"`
}

// Bytes returns what is signed.
func (i Intent) Bytes() ([]byte, error) {
	b, err := canon.Marshal(i)
	if err != nil {
		return nil, err
	}
	return append([]byte("palyra/"+intentDomain+"\x00"), b...), nil
}

// IntentBody returns the digest of a request's fields.
func IntentBody(fields map[string]any) (Digest, error) {
	d, err := canon.Digest(intentBodyDomain, fields)
	return Digest(d), err
}
