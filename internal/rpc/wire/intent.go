package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"palyra"
	"palyra/internal/canon"
)

// IntentHeader carries an operator's signature:
//
//	Palyra-Intent: {"nonce":"…","time":"…","key_id":"…","sig":"…"}
//
// and, of a passkey, "authenticator_data" and "client_data_json".
//
// Method, audience, body and plan digest are not in it: the daemon takes them
// from itself and from the request it received, and the signature must fit.
const IntentHeader = "Palyra-Intent"

// maxIntent bounds the header; nonceBytes is the size of the nonce.
const (
	maxIntent  = 6 << 10
	nonceBytes = 16
	maxKeyID   = 128
	maxPart    = 2 << 10 // of an assertion
)

// Intent is the header's content.
type Intent struct {
	Nonce string `json:"nonce"` // 16 bytes, base64url without padding
	Time  string `json:"time"`  // RFC 3339 UTC
	KeyID string `json:"key_id"`
	Sig   string `json:"sig"` // base64

	// Of a passkey, in base64: what its signature is over.
	AuthenticatorData string `json:"authenticator_data,omitempty"`
	ClientData        string `json:"client_data_json,omitempty"`
}

// Header returns the header's value.
func (i Intent) Header() (string, error) {
	b, err := json.Marshal(i)
	return string(b), err
}

// ParseIntent reads the header strictly: one value, the four members, or the six, once each and nothing else, every part
// in its one spelling. It reports false when there is no such header.
func ParseIntent(h http.Header) (Intent, bool, error) {
	vals := h.Values(IntentHeader)
	if len(vals) == 0 {
		return Intent{}, false, nil
	}
	if len(vals) > 1 || len(vals[0]) > maxIntent {
		return Intent{}, true, badIntent("the header stands more than once or is too long")
	}
	i, err := parseIntent(vals[0])
	return i, true, err
}

func parseIntent(s string) (Intent, error) {
	if !json.Valid([]byte(s)) {
		return Intent{}, badIntent("it is not valid JSON")
	}
	got := map[string]string{}
	err := members([]byte(s), func(key string, val json.RawMessage) error {
		var text string
		if _, twice := got[key]; twice || json.Unmarshal(val, &text) != nil || isNull(val) {
			return badIntent("a member is repeated or not a string")
		}
		got[key] = text
		return nil
	})
	i := Intent{
		Nonce: got["nonce"], Time: got["time"], KeyID: got["key_id"], Sig: got["sig"],
		AuthenticatorData: got["authenticator_data"], ClientData: got["client_data_json"],
	}
	members := 4
	if i.assertion() != nil {
		members = 6
	}
	if err != nil || len(got) != members {
		return Intent{}, badIntent("it must have exactly nonce, time, key_id and sig, and of a passkey authenticator_data and client_data_json")
	}
	nonce, err := base64.RawURLEncoding.Strict().DecodeString(i.Nonce)
	if err != nil || len(nonce) != nonceBytes || strings.ContainsAny(i.Nonce, "\r\n") {
		return Intent{}, badIntent("the nonce is not 16 bytes in base64url")
	}
	if t, err := time.Parse(time.RFC3339Nano, i.Time); err != nil || palyra.Time(t) != i.Time {
		return Intent{}, badIntent("the time is not RFC 3339 in UTC")
	}
	if i.KeyID == "" || len(i.KeyID) > maxKeyID {
		return Intent{}, badIntent("the key id is missing or too long")
	}
	return i, i.checkSignature()
}

// assertion is that of a passkey; nil: the signature is no passkey's.
func (i Intent) assertion() *palyra.Assertion {
	if i.AuthenticatorData == "" || i.ClientData == "" {
		return nil
	}
	return &palyra.Assertion{AuthenticatorData: i.AuthenticatorData, ClientData: i.ClientData}
}

// checkSignature checks the sizes and spellings of what is signed with.
func (i Intent) checkSignature() error {
	if i.assertion() == nil {
		if _, err := canon.Base64(i.Sig, ed25519.SignatureSize); err != nil {
			return badIntent("the signature is not 64 bytes in base64")
		}
		return nil
	}
	for _, part := range []string{i.Sig, i.AuthenticatorData, i.ClientData} {
		if b, err := canon.Base64(part, 0); err != nil || len(b) > maxPart || len(b) == 0 {
			return badIntent("the assertion of the passkey is too long, or not base64")
		}
	}
	return nil
}

func badIntent(why string) error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonBadSignature, "the %s header is malformed: %s", IntentHeader, why).
		WithRemedy("sign with the palyra client")
}

// Bind returns what a signature for the request must be about: at the client
// with a fresh nonce and time, at the daemon with those of the header.
func Bind(audience string, a Access, m proto.Message, i Intent) (palyra.Signature, error) {
	fields, err := Fields(m)
	if err != nil {
		return palyra.Signature{}, err
	}
	body, err := palyra.IntentBody(fields)
	if err != nil {
		return palyra.Signature{}, err
	}
	return palyra.Signature{
		Intent: palyra.Intent{
			Audience: audience, Method: a.Method, Body: body, PlanDigest: palyra.Digest(PlanDigest(m)),
			Nonce: i.Nonce, Time: i.Time, KeyID: i.KeyID,
		},
		Fields:    fields,
		Sig:       i.Sig,
		Assertion: i.assertion(),
	}, nil
}
