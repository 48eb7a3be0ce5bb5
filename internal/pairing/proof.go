package pairing

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"

	"palyra"
	"palyra/internal/pairing/cpace"
)

const (
	exporterLabel = "EXPORTER-palyra-pair-v1"
	pinContext    = "palyra/pair/v1"
	qrContext     = "palyra/pair-qr/v1"

	labelDevice  = "device confirms"
	labelWelcome = "daemon welcomes"
	labelIssued  = "daemon issues"
)

// binding is what makes a proof good for one connection between two machines.
type binding struct {
	exporter []byte // of the TLS connection; the session id
	server   [sha256.Size]byte
	device   [sha256.Size]byte // of the certificates, DER
}

// bind reads the binding off a finished handshake. The leaves are the server's and the device's certificate.
func bind(state tls.ConnectionState, server, device []byte) (binding, error) {
	if state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != Protocol || state.DidResume {
		return binding{}, errors.New("pairing: not a fresh TLS 1.3 connection for pairing")
	}
	exporter, err := state.ExportKeyingMaterial(exporterLabel, nil, sha256.Size)
	if err != nil {
		return binding{}, fmt.Errorf("pairing: bind: %w", err)
	}
	return binding{exporter: exporter, server: sha256.Sum256(server), device: sha256.Sum256(device)}, nil
}

// ci is the channel identifier of the key exchange.
func (b binding) ci() []byte { return cpace.LV([]byte(pinContext), b.server[:], b.device[:]) }

// exchange starts the key exchange for a PIN.
func (b binding) exchange(pin palyra.Secret) (x *cpace.Exchange, err error) {
	err = pin.Use(func(p []byte) error {
		x, err = cpace.New(p, b.ci(), b.exporter)
		return err
	})
	return x, err
}

// pinSession finishes the exchange. The device's name is covered, so that it is the one the person reads.
func (b binding) pinSession(x *cpace.Exchange, peer []byte, role cpace.Side, name string) (sharedKey, error) {
	isk, err := x.Finish(peer, role, []byte(name), nil)
	if err != nil {
		return sharedKey{}, err
	}
	defer clear(isk)
	return b.session(isk, pinContext)
}

// qrSession derives the keys behind a token.
func (b binding) qrSession(token palyra.Secret) (s sharedKey, err error) {
	err = token.Use(func(t []byte) error {
		if len(t) != tokenSize { // a token that was destroyed is empty: anyone knows that key
			return errors.New("pairing: no token")
		}
		s, err = b.session(t, qrContext)
		return err
	})
	return s, err
}

// qrProof is what the device shows for the token.
func (b binding) qrProof(token palyra.Secret) (proof []byte, err error) {
	err = token.Use(func(t []byte) error {
		if len(t) != tokenSize {
			return errors.New("pairing: no token")
		}
		m := hmac.New(sha256.New, t)
		for _, p := range [][]byte{[]byte(qrContext), b.exporter, b.server[:], b.device[:]} {
			m.Write(p)
		}
		proof = m.Sum(nil)
		return nil
	})
	return proof, err
}

func (b binding) session(secret []byte, context string) (sharedKey, error) {
	info := string(cpace.LV([]byte(context), b.server[:], b.device[:]))
	key, err := hkdf.Key(sha256.New, secret, b.exporter, info, sha256.Size)
	if err != nil {
		return sharedKey{}, fmt.Errorf("pairing: session: %w", err)
	}
	return sharedKey{key: key}, nil
}

// sharedKey is what both sides share once both know the code.
type sharedKey struct{ key []byte }

// tag authenticates parts under a label. The labels differ by direction and step,
// so that no tag is good anywhere else.
func (s sharedKey) tag(label string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, s.key)
	m.Write(cpace.LV(append([][]byte{[]byte(label)}, parts...)...))
	return m.Sum(nil)
}

// check compares in constant time. A session without a key agrees to nothing.
func (s sharedKey) check(tag []byte, label string, parts ...[]byte) bool {
	return len(s.key) == sha256.Size && hmac.Equal(tag, s.tag(label, parts...))
}

func (s sharedKey) confirm() []byte { return s.tag(labelDevice) }

func (s sharedKey) welcome(stateID string, authorities [][]byte) message {
	return message{
		Type: typeWelcome, StateID: stateID, Authorities: authorities,
		Tag: s.tag(labelWelcome, []byte(stateID), cpace.LV(authorities...)),
	}
}

func (s sharedKey) welcomed(m message) bool {
	return s.check(m.Tag, labelWelcome, []byte(m.StateID), cpace.LV(m.Authorities...))
}

func (s sharedKey) issue(device, certificate []byte, authorities [][]byte) message {
	return message{
		Type: typeIssued, Device: device, Certificate: certificate, Authorities: authorities,
		Tag: s.tag(labelIssued, device, certificate, cpace.LV(authorities...)),
	}
}

func (s sharedKey) issued(m message) bool {
	return s.check(m.Tag, labelIssued, m.Device, m.Certificate, cpace.LV(m.Authorities...))
}

// deviceKey returns the key of a device's own certificate.
func deviceKey(state tls.ConnectionState) (ed25519.PublicKey, []byte, error) {
	if len(state.PeerCertificates) != 1 {
		return nil, nil, errors.New("pairing: the device must send one certificate")
	}
	leaf := state.PeerCertificates[0]
	pub, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, nil, errors.New("pairing: the device's key is not Ed25519")
	}
	if err := leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature); err != nil {
		return nil, nil, fmt.Errorf("pairing: the device's certificate is not its own: %w", err)
	}
	return pub, leaf.Raw, nil
}
