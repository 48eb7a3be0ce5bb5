// Package webauthn holds what authenticators answer to the rules of WebAuthn, by the library for that: a new passkey when
// one is registered, and each assertion before it counts. Package passkey holds assertions to the same rules without the
// library, as whoever reads the evidence later does; an answer counts when both are content.
//
// It keeps nothing, and knows neither people nor doors: who may register a passkey, at which console, and what one may
// sign, others decide.
//
// Its words are those of docs/words.md.
package webauthn

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/passkey"
)

// Bounds of a new passkey.
const (
	maxAttestation = 16 << 10
	maxCredential  = 256
)

// formats are the kinds of attestation that a browser gives that was asked for none.
var formats = []string{string(protocol.AttestationFormatNone), string(protocol.AttestationFormatPacked)}

// Register holds a new passkey to the challenge that it was to be made for and to the origin of the console, and returns
// it with its key.
func Register(n passkey.New, challenge []byte, origin string) (palyra.Passkey, passkey.Key, error) {
	host, ok := passkey.HostOf(origin)
	if !ok || len(challenge) == 0 {
		return palyra.Passkey{}, passkey.Key{}, refused("there is no console at %s", palyra.Clip(origin, 128))
	}
	if len(n.Credential) == 0 || len(n.Credential) > maxCredential || len(n.Attestation) > maxAttestation ||
		len(n.ClientData) > passkey.MaxClientData {
		return palyra.Passkey{}, passkey.Key{}, refused("a part of it is missing or too long")
	}
	id := base64.RawURLEncoding.EncodeToString(n.Credential)
	made, err := protocol.CredentialCreationResponse{
		PublicKeyCredential: protocol.PublicKeyCredential{
			Credential: protocol.Credential{ID: id, Type: string(protocol.PublicKeyCredentialType)}, RawID: n.Credential,
		},
		AttestationResponse: protocol.AuthenticatorAttestationResponse{
			AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: n.ClientData}, AttestationObject: n.Attestation,
		},
	}.Parse()
	if err != nil {
		return palyra.Passkey{}, passkey.Key{}, refused("it cannot be read").WithCause(err)
	}
	if !slices.Contains(formats, made.Response.AttestationObject.Format) {
		return palyra.Passkey{}, passkey.Key{}, refused("it came with an attestation that nobody asked for")
	}
	_, err = made.Verify(base64.RawURLEncoding.EncodeToString(challenge), host, []string{origin}, nil, nil,
		protocol.TopOriginExplicitVerificationMode, false, true, true, nil, Parameters(), protocol.AttestationPolicy{},
		protocol.SignaturePolicy{})
	if err != nil || made.Response.CollectedClientData.Origin != origin {
		return palyra.Passkey{}, passkey.Key{}, refused("it was not made here and now, by a person who was verified").WithCause(err)
	}
	data := made.Response.AttestationObject.AuthData
	key, err := keyOf(data.AttData.CredentialPublicKey)
	if err != nil {
		return palyra.Passkey{}, passkey.Key{}, err
	}
	return palyra.Passkey{
		Credential: id, Origin: origin, Eligible: data.Flags.HasBackupEligible(),
	}, key, nil
}

// Parameters are the kinds of keys that are taken, the usual first.
func Parameters() []protocol.CredentialParameter {
	return []protocol.CredentialParameter{
		{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgES256},
		{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgEdDSA},
	}
}

// keyOf turns a key as authenticators write it into the spelling in which it is kept.
func keyOf(cose []byte) (passkey.Key, error) {
	parsed, err := webauthncose.ParsePublicKey(cose)
	if err != nil {
		return passkey.Key{}, refused("its key cannot be read").WithCause(err)
	}
	var public any
	switch k := parsed.(type) {
	case webauthncose.EC2PublicKeyData:
		public, err = k.ToECDSA()
	case webauthncose.OKPPublicKeyData:
		public = ed25519.PublicKey(k.XCoord)
	default:
		return passkey.Key{}, refused("its key is of another kind")
	}
	if err != nil {
		return passkey.Key{}, refused("its key cannot be read").WithCause(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return passkey.Key{}, refused("its key is of another kind").WithCause(err)
	}
	k, err := passkey.ParseKey(base64.StdEncoding.EncodeToString(der))
	if err != nil {
		return passkey.Key{}, refused("its key is of another kind").WithCause(err)
	}
	return k, nil
}

// Check checks that a passkey signed a message, at its console.
func Check(p palyra.Passkey, key passkey.Key, message []byte, sig string, a palyra.Assertion) error {
	host, ok := passkey.HostOf(p.Origin)
	cose, err := coseOf(key)
	if !ok || err != nil {
		return refused("its record does not make sense").WithCause(err)
	}
	id, err := base64.RawURLEncoding.DecodeString(p.Credential)
	raw := make([][]byte, 3)
	for i, text := range []string{a.AuthenticatorData, a.ClientData, sig} {
		if err == nil {
			raw[i], err = canon.Base64(text, 0)
		}
	}
	if err != nil {
		return refused("it is not base64").WithCause(err)
	}
	said, err := protocol.CredentialAssertionResponse{
		PublicKeyCredential: protocol.PublicKeyCredential{
			Credential: protocol.Credential{ID: p.Credential, Type: string(protocol.PublicKeyCredentialType)}, RawID: id,
		},
		AssertionResponse: protocol.AuthenticatorAssertionResponse{
			AuthenticatorResponse: protocol.AuthenticatorResponse{ClientDataJSON: raw[1]}, AuthenticatorData: raw[0], Signature: raw[2],
		},
	}.Parse()
	if err != nil {
		return refused("its assertion cannot be read").WithCause(err)
	}
	err = said.Verify(passkey.Challenge(message), host, "", []string{p.Origin}, nil, nil, protocol.TopOriginExplicitVerificationMode, false,
		true, true, cose, protocol.SignaturePolicy{})
	if err != nil {
		return refused("its assertion does not hold").WithCause(err)
	}
	return nil
}

// coseOf is a key as authenticators write it.
func coseOf(k passkey.Key) ([]byte, error) {
	switch p := k.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil || p.Curve != elliptic.P256() {
			return nil, refused("its key is of another kind").WithCause(err)
		}
		half := (len(point) - 1) / 2
		return webauthncbor.Marshal(webauthncose.EC2PublicKeyData{
			PublicKeyData: webauthncose.PublicKeyData{KeyType: int64(webauthncose.EllipticKey), Algorithm: int64(webauthncose.AlgES256)},
			Curve:         int64(webauthncose.P256), XCoord: point[1 : 1+half], YCoord: point[1+half:],
		})
	case ed25519.PublicKey:
		return webauthncbor.Marshal(webauthncose.OKPPublicKeyData{
			PublicKeyData: webauthncose.PublicKeyData{KeyType: int64(webauthncose.OctetKey), Algorithm: int64(webauthncose.AlgEdDSA)},
			Curve:         int64(webauthncose.Ed25519), XCoord: p,
		})
	}
	return nil, refused("its key is of another kind")
}

func refused(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonBadSignature, "the passkey is not taken: "+format, args...).
		WithRemedy("try again on a page of the console, with an authenticator that verifies you and has keys of ES256 or EdDSA")
}
