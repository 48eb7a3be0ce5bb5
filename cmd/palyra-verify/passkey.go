package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"unicode/utf8"
)

// consoleName is the one host whose pages count over plain HTTP: browsers find it on their own machine.
const consoleName = "palyra.localhost"

// signed checks that an approver's key signed a message: that of a passkey by its assertion (WebAuthn), any other the
// message itself.
func signed(s object, pub, message []byte) {
	if s["assertion"] != nil {
		assertion(s, pub, message)
		return
	}
	must(len(pub) == ed25519.PublicKeySize && ed25519.Verify(pub, message, unbase64(str(s, "sig"))), "an approver's signature does not match")
}

// assertion checks what a passkey signed: what its authenticator says of itself, and the digest of what the browser put
// together, in which the challenge is the digest of the message.
func assertion(s object, pub, message []byte) {
	a := s["assertion"].(object)
	data, client := unbase64(str(a, "authenticator_data")), unbase64(str(a, "client_data_json"))
	must(len(client) <= 2048 && len(data) == sha256.Size+5, "an assertion has not the size that one has")
	said := map[string]json.RawMessage{}
	must(utf8.Valid(client) && json.Unmarshal(client, &said) == nil, "what a browser put together is not a JSON object")
	challenge := sha256.Sum256(message)
	must(member(said["type"]) == "webauthn.get" && member(said["challenge"]) == base64.RawURLEncoding.EncodeToString(challenge[:]),
		"a passkey signed something else")
	must((said["crossOrigin"] == nil || string(said["crossOrigin"]) == "false") && said["topOrigin"] == nil,
		"a passkey was used in a frame of another page")
	host := sha256.Sum256([]byte(hostOf(member(said["origin"]))))
	flags := data[sha256.Size]
	must(bytes.Equal(data[:sha256.Size], host[:]), "a passkey was used for another site than the page's")
	// present, verified, and whether copies may be and are elsewhere; nothing else was asked for
	must(flags&0b101 == 0b101 && flags&^0b11101 == 0 && (flags&0b10000 == 0 || flags&0b1000 != 0),
		"an authenticator did not verify that the person was there, or says what nobody asked")
	sum := sha256.Sum256(client)
	must(verifies(pub, append(data, sum[:]...), unbase64(str(s, "sig"))), "a passkey's signature does not match")
}

// verifies checks a signature by a key in PKIX, in its one encoding: ES256 on P-256, or Ed25519.
func verifies(der, message, sig []byte) bool {
	public, err := x509.ParsePKIXPublicKey(der)
	must(err == nil, "a passkey's key cannot be read")
	again, err := x509.MarshalPKIXPublicKey(public)
	must(err == nil && bytes.Equal(again, der) && len(sig) <= 80, "a passkey's key is not in its one encoding")
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(message)
		return k.Curve == elliptic.P256() && ecdsa.VerifyASN1(k, sum[:], sig)
	case ed25519.PublicKey:
		return len(sig) == ed25519.SignatureSize && ed25519.Verify(k, message, sig)
	}
	return false
}

// hostOf is the host of an origin at which answers are given: over HTTPS any, else the console's own.
func hostOf(origin string) string {
	u, err := url.Parse(origin)
	must(err == nil && u.Hostname() != "" && u.Scheme+"://"+u.Host == origin, "a passkey's origin is none")
	if u.Port() != "" {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		must(err == nil && strconv.FormatUint(n, 10) == u.Port(), "a passkey's origin is none")
	}
	must(u.Scheme == "https" || u.Scheme == "http" && u.Hostname() == consoleName, "a passkey was used at a page that is not the console's")
	return u.Hostname()
}

// member is a JSON value as text; what is none is empty.
func member(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// approverKey reads an approver's key: that of an operator or a device, or a passkey's.
func approverKey(text string) (ed25519.PublicKey, error) {
	if pub, err := publicKey(text); err == nil {
		return pub, nil
	}
	der, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		_, err = x509.ParsePKIXPublicKey(der)
	}
	if err != nil {
		return nil, fmt.Errorf("%.60q is neither a base64 Ed25519 public key nor that of a passkey", text)
	}
	return der, nil
}
