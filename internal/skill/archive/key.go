package archive

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"

	"palyra"
	"palyra/internal/canon"
)

// KeyID names a publisher's key.
func KeyID(pub ed25519.PublicKey) string {
	const hexStart, hexLen = len("sha256:"), 32
	return "pub-" + string(palyra.SumBytes(pub)[hexStart:hexStart+hexLen])
}

// NewKey makes a publisher's key, as the text of a key file.
func NewKey() (ed25519.PrivateKey, []byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func badKey(text string) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s", text).
		WithRemedy("a key is Ed25519: 'palyra skills sign' makes one, and 'openssl genpkey -algorithm ed25519' does")
}

// ParseKey reads a key file: PKCS #8 in PEM.
func ParseKey(raw []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, badKey("that is not a private key in PEM")
	}
	defer clear(block.Bytes)
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := any.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, badKey("that is not a private key of Ed25519")
	}
	return key, nil
}

// ParsePublic reads a public key: the 32 bytes in base64, or PEM.
func ParsePublic(text string) (ed25519.PublicKey, error) {
	text = strings.TrimSpace(text)
	if block, _ := pem.Decode([]byte(text)); block != nil && block.Type == "PUBLIC KEY" {
		any, err := x509.ParsePKIXPublicKey(block.Bytes)
		if key, ok := any.(ed25519.PublicKey); err == nil && ok {
			return key, nil
		}
		return nil, badKey("that is not a public key of Ed25519")
	}
	key, err := canon.Base64(text, ed25519.PublicKeySize)
	if err != nil {
		return nil, badKey("that is not a public key: 32 bytes in base64, or PEM")
	}
	return key, nil
}

// PublicText is a public key as people pass it on.
func PublicText(pub ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(pub) }
