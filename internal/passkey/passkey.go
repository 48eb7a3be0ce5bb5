// Package passkey checks what a passkey signed: an assertion of WebAuthn over the digest of a message, as it is kept with
// a decision. It needs nothing but the kept bytes, so the door, the daemon's records and a reader years later hold an
// assertion to the same rules.
//
// Words: the key is the credential's public half, base64 of its one encoding as PKIX; the origin is that of the page,
// with its port; the challenge is the SHA-256 of the message.
//
// Promises: a changed byte of the message, the assertion, the signature or the key is refused; so is an assertion
// without the person's presence and verification, one that was made in another page's frame, and one whose relying party
// is not the host of its origin. Which origin is the right one, and whose the key is, the caller knows.
package passkey

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"unicode/utf8"

	"palyra/internal/canon"
)

// The kinds of keys, by their names in COSE.
const (
	ES256 = "ES256"
	EdDSA = "EdDSA"
)

// Bounds of what is kept of an assertion.
const (
	MaxClientData = 2 << 10
	MaxSignature  = 80
	maxKey        = 128
	dataSize      = 37 // what an authenticator says where nobody asked it for extensions
)

// The flags of an authenticator.
const (
	present   = 1 << 0
	verified  = 1 << 2
	eligible  = 1 << 3
	backedUp  = 1 << 4
	countAt   = sha256.Size + 1
	knownBits = present | verified | eligible | backedUp
)

// ConsoleName is the host that the console is called by on the daemon's own machine: the one that needs no certificate.
const ConsoleName = "palyra.localhost"

// Key is a passkey's public key.
type Key struct {
	Algorithm string
	DER       []byte // its one encoding
	public    any
}

// ParseKey reads a key in its one spelling.
func ParseKey(text string) (Key, error) {
	if len(text) > maxKey*2 {
		return Key{}, bad("the key is too long")
	}
	der, err := canon.Base64(text, 0)
	if err != nil {
		return Key{}, bad("the key is not canonical base64")
	}
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return Key{}, bad("the key is not one in PKIX")
	}
	k := Key{DER: der, public: public}
	switch p := public.(type) {
	case *ecdsa.PublicKey:
		if p.Curve != elliptic.P256() {
			return Key{}, bad("the key is on another curve than P-256")
		}
		k.Algorithm = ES256
	case ed25519.PublicKey:
		k.Algorithm = EdDSA
	default:
		return Key{}, bad("the key is neither of ECDSA on P-256 nor of Ed25519")
	}
	if again, err := x509.MarshalPKIXPublicKey(public); err != nil || string(again) != string(der) {
		return Key{}, bad("the key is not in its one encoding")
	}
	return k, nil
}

// Public is the key as the standard library has it.
func (k Key) Public() any { return k.public }

// Text is the key as devices and signatures hold it.
func (k Key) Text() string { return base64.StdEncoding.EncodeToString(k.DER) }

// Challenge is what an authenticator is asked to sign in the place of a message, as browsers spell it.
func Challenge(message []byte) string {
	sum := sha256.Sum256(message)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Said is what an assertion says, besides that the message was signed.
type Said struct {
	Origin   string // of the page
	Host     string // of that, and the relying party
	Count    uint32 // of signatures; 0: the authenticator does not count
	Eligible bool   // the key may be on other machines
}

// Check checks that the key signed the message, by an assertion: the authenticator's data and the client's, in base64.
func (k Key) Check(message []byte, sig, authenticatorData, clientData string) (Said, error) {
	data, err := canon.Base64(authenticatorData, dataSize)
	if err != nil {
		return Said{}, bad("the authenticator's data are not %d bytes in canonical base64", dataSize)
	}
	client, err := canon.Base64(clientData, 0)
	if err != nil || len(client) > MaxClientData {
		return Said{}, bad("the client's data are too long, or not canonical base64")
	}
	raw, err := canon.Base64(sig, 0)
	if err != nil || len(raw) > MaxSignature {
		return Said{}, bad("the signature is too long, or not canonical base64")
	}
	said, err := clientSays(client, Challenge(message))
	if err != nil {
		return Said{}, err
	}
	if err := said.authenticator(data); err != nil {
		return Said{}, err
	}
	sum := sha256.Sum256(client)
	if !k.signed(append(data, sum[:]...), raw) {
		return Said{}, bad("the signature does not match")
	}
	return said, nil
}

// clientSays reads what the browser put together, and holds it to a challenge.
func clientSays(raw []byte, challenge string) (Said, error) {
	members := map[string]json.RawMessage{}
	if !utf8.Valid(raw) || json.Unmarshal(raw, &members) != nil {
		return Said{}, bad("the client's data are not a JSON object")
	}
	text := func(name string) (s string) {
		_ = json.Unmarshal(members[name], &s) // what is no text is none
		return s
	}
	said := Said{Origin: text("origin")}
	switch {
	case text("type") != "webauthn.get":
		return Said{}, bad("it is no assertion")
	case text("challenge") != challenge:
		return Said{}, bad("another message was signed")
	case members["crossOrigin"] != nil && string(members["crossOrigin"]) != "false" || members["topOrigin"] != nil:
		return Said{}, bad("it was made in a frame of another page")
	}
	var ok bool
	if said.Host, ok = HostOf(said.Origin); !ok {
		return Said{}, bad("its origin is not one that the console can have")
	}
	return said, nil
}

// HostOf is the host of an origin that a console can have: over HTTPS by any name, else by ConsoleName alone.
func HostOf(origin string) (string, bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Hostname() == "" || u.Scheme+"://"+u.Host != origin {
		return "", false
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != port {
			return "", false
		}
	}
	return u.Hostname(), u.Scheme == "https" || u.Scheme == "http" && u.Hostname() == ConsoleName
}

// authenticator reads what the authenticator says.
func (s *Said) authenticator(data []byte) error {
	host := sha256.Sum256([]byte(s.Host))
	flags := data[sha256.Size]
	switch {
	case string(data[:sha256.Size]) != string(host[:]):
		return bad("it is for another relying party than its origin")
	case flags&^knownBits != 0:
		return bad("the authenticator says what nobody asked it")
	case flags&present == 0 || flags&verified == 0:
		return bad("the authenticator did not verify that the person was there")
	case flags&backedUp != 0 && flags&eligible == 0:
		return bad("the authenticator contradicts itself about copies of the key")
	}
	s.Count, s.Eligible = binary.BigEndian.Uint32(data[countAt:]), flags&eligible != 0
	return nil
}

func (k Key) signed(message, sig []byte) bool {
	switch p := k.public.(type) {
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(message)
		return ecdsa.VerifyASN1(p, sum[:], sig)
	case ed25519.PublicKey:
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(p, message, sig)
	}
	return false
}

func bad(format string, args ...any) error { return fmt.Errorf("passkey: "+format, args...) }
