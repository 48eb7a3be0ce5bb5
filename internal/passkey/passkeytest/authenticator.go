// Package passkeytest is an authenticator and a browser in one, for tests: it makes passkeys and assertions byte by byte,
// without the library that checks them, and spoils them on request.
package passkeytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/url"

	"palyra"
	"palyra/internal/passkey"
)

// Flags of an authenticator: the person was present and verified.
const (
	Present  = 1
	Verified = 4
	Eligible = 8
	BackedUp = 16
	attested = 64
)

// Authenticator has one passkey.
type Authenticator struct {
	private crypto.Signer
	id      []byte
}

// ES256 makes one with a key on P-256, from a seed.
func ES256(seed string) *Authenticator {
	sum := sha256.Sum256([]byte(seed))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), sum[:])
	if err != nil {
		panic(err)
	}
	return &Authenticator{private: key, id: sum[:16]}
}

// EdDSA makes one with an Ed25519 key, from a seed.
func EdDSA(seed string) *Authenticator {
	sum := sha256.Sum256([]byte(seed))
	return &Authenticator{private: ed25519.NewKeyFromSeed(sum[:]), id: sum[:16]}
}

// Credential is the id of its passkey.
func (a *Authenticator) Credential() []byte { return a.id }

// DER is the public key in PKIX.
func (a *Authenticator) DER() []byte {
	der, err := x509.MarshalPKIXPublicKey(a.private.Public())
	if err != nil {
		panic(err)
	}
	return der
}

// Public is the same in base64.
func (a *Authenticator) Public() string { return base64.StdEncoding.EncodeToString(a.DER()) }

// KeyID names the key as signatures do.
func (a *Authenticator) KeyID() string {
	sum := sha256.Sum256(a.DER())
	return fmt.Sprintf("op-%x", sum[:16])
}

// Ask is what the authenticator and the browser are asked for. The zero values are the usual ones.
type Ask struct {
	Origin    string
	Challenge []byte
	Host      string                                // of the relying party; empty: that of the origin
	Flags     byte                                  // 0: present and verified
	Count     uint32                                // of signatures so far
	Client    func(challenge, origin string) string // what the browser puts together, instead of the usual
	Format    string                                // of the attestation; empty: none
	Key       []byte                                // in COSE, instead of its own
}

func (q Ask) client(kind string) []byte {
	challenge := base64.RawURLEncoding.EncodeToString(q.Challenge)
	if q.Client != nil {
		return []byte(q.Client(challenge, q.Origin))
	}
	return fmt.Appendf(nil, `{"type":%q,"challenge":%q,"origin":%q,"crossOrigin":false}`, kind, challenge, q.Origin)
}

// data is what the authenticator says.
func (q Ask) data(more byte) []byte {
	host := q.Host
	if u, err := url.Parse(q.Origin); host == "" && err == nil {
		host = u.Hostname()
	}
	flags := q.Flags
	if flags == 0 {
		flags = Present | Verified
	}
	sum := sha256.Sum256([]byte(host))
	return binary.BigEndian.AppendUint32(append(sum[:], flags|more), q.Count)
}

// Make makes the passkey known.
func (a *Authenticator) Make(q Ask) passkey.New {
	key := q.Key
	if key == nil {
		key = a.cose()
	}
	data := append(q.data(attested), make([]byte, 16)...)
	data = append(binary.BigEndian.AppendUint16(data, uint16(len(a.id))), a.id...)
	data = append(data, key...)
	format := q.Format
	if format == "" {
		format = "none"
	}
	object := append([]byte{0xa3}, cborText("fmt")...)
	object = append(object, cborText(format)...)
	object = append(object, cborText("attStmt")...)
	object = append(object, 0xa0)
	object = append(object, cborText("authData")...)
	object = append(object, cborBytes(data)...)
	return passkey.New{Credential: a.id, Attestation: object, ClientData: q.client("webauthn.create")}
}

// cose is the public key as authenticators write it.
func (a *Authenticator) cose() []byte {
	switch p := a.private.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			panic(err)
		}
		out := append([]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21}, cborBytes(point[1:33])...)
		return append(append(out, 0x22), cborBytes(point[33:])...)
	case ed25519.PublicKey:
		return append([]byte{0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21}, cborBytes(p)...)
	}
	panic("no such key")
}

func cborText(s string) []byte { return append([]byte{0x60 + byte(len(s))}, s...) } // shorter than 24

func cborBytes(b []byte) []byte {
	if len(b) < 256 {
		return append([]byte{0x58, byte(len(b))}, b...)
	}
	return append(binary.BigEndian.AppendUint16([]byte{0x59}, uint16(len(b))), b...)
}

// Assert signs, and returns the signature and the assertion in base64.
func (a *Authenticator) Assert(q Ask) (sig string, out palyra.Assertion) {
	data, client := q.data(0), q.client("webauthn.get")
	sum := sha256.Sum256(client)
	message, opts := append(data[:len(data):len(data)], sum[:]...), crypto.SignerOpts(crypto.Hash(0))
	if _, ok := a.private.(*ecdsa.PrivateKey); ok {
		digest := sha256.Sum256(message)
		message, opts = digest[:], crypto.SHA256
	}
	raw, err := a.private.Sign(nil, message, opts)
	if err != nil {
		panic(err)
	}
	text := base64.StdEncoding.EncodeToString
	return text(raw), palyra.Assertion{AuthenticatorData: text(data), ClientData: text(client)}
}

// Sign signs an intent, whose digest is the challenge.
func (a *Authenticator) Sign(i palyra.Intent, q Ask) (sig string, out palyra.Assertion) {
	msg, err := i.Bytes()
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(msg)
	if q.Challenge == nil {
		q.Challenge = sum[:]
	}
	return a.Assert(q)
}
