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
)

// IntentHeader carries an operator's signature:
//
//	Palyra-Intent: {"nonce":"…","time":"…","key_id":"…","sig":"…"}
//
// Method, audience, body and plan digest are not in it: the daemon takes them
// from itself and from the request it received, and the signature must fit.
const IntentHeader = "Palyra-Intent"

// maxIntent bounds the header; nonceBytes is the size of the nonce.
const (
	maxIntent  = 1024
	nonceBytes = 16
	maxKeyID   = 128
)

// Intent is the header's content.
type Intent struct {
	Nonce string `json:"nonce"` // 16 bytes, base64url without padding
	Time  string `json:"time"`  // RFC 3339 UTC
	KeyID string `json:"key_id"`
	Sig   string `json:"sig"` // base64 Ed25519
}

// Header returns the header's value.
func (i Intent) Header() (string, error) {
	b, err := json.Marshal(i)
	return string(b), err
}

// ParseIntent reads the header strictly: one value, the four members once each and nothing else, every part in its
// one spelling. It reports false when there is no such header.
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
	if err != nil || len(got) != 4 {
		return Intent{}, badIntent("it must have exactly nonce, time, key_id and sig")
	}
	i := Intent{Nonce: got["nonce"], Time: got["time"], KeyID: got["key_id"], Sig: got["sig"]}
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
	sig, err := base64.StdEncoding.Strict().DecodeString(i.Sig)
	if err != nil || len(sig) != ed25519.SignatureSize || strings.ContainsAny(i.Sig, "\r\n") {
		return Intent{}, badIntent("the signature is not 64 bytes in base64")
	}
	return i, nil
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
		Fields: fields,
		Sig:    i.Sig,
	}, nil
}
