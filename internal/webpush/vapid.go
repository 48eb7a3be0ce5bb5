package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

const (
	tokenLife = 2 * time.Hour // of the 24 that RFC 8292 allows
	kept      = "PRIVATE KEY" // in PEM
)

// Key is by what push services know a sender.
type Key struct {
	private *ecdsa.PrivateKey
	contact string
}

// NewKey makes a key, and returns it as it is kept: PKCS#8 in PEM.
func NewKey() ([]byte, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("webpush: make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, errors.New("webpush: a key cannot be encoded")
	}
	defer clear(der)
	return pem.EncodeToMemory(&pem.Block{Type: kept, Bytes: der}), nil
}

// ParseKey reads a key as it is kept. The contact is whom a service writes to about it: a mailto: or https: address.
func ParseKey(text []byte, contact string) (*Key, error) {
	bad := errors.New("it is not a private key of P-256, PKCS#8 in PEM") // the parser's own error may quote it
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kept {
		return nil, bad
	}
	defer clear(block.Bytes)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	k, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok || k.Curve != elliptic.P256() {
		return nil, bad
	}
	return &Key{k, contact}, nil
}

// Public is the key as browsers are told: a point, uncompressed.
func (k *Key) Public() []byte {
	p, err := k.private.PublicKey.ECDH()
	if err != nil {
		return nil // of another curve, which ParseKey does not take
	}
	return p.Bytes()
}

// Authorization is the header that says to a push service who sends, for a while.
func (k *Key) Authorization(audience string, now time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{"aud": audience, "exp": now.Add(tokenLife).Unix(), "sub": k.contact})
	if err != nil {
		return "", fmt.Errorf("webpush: sign: %w", err)
	}
	raw := base64.RawURLEncoding
	text := raw.EncodeToString([]byte(`{"typ":"JWT","alg":"ES256"}`)) + "." + raw.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, k.private, sum[:])
	if err != nil {
		return "", fmt.Errorf("webpush: sign: %w", err)
	}
	sig := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return "vapid t=" + text + "." + raw.EncodeToString(sig) + ", k=" + raw.EncodeToString(k.Public()), nil
}
