package pairing

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"palyra"
	"palyra/internal/pairing/cpace"
)

// prove shows that the person here knows the code, and returns the daemon's answer.
func (j *join) prove() (s sharedKey, m message, err error) {
	if j.Code != "" {
		return j.proveToken()
	}
	x, err := j.binding.exchange(j.pin)
	if err != nil {
		return s, m, broken(err)
	}
	if err := j.w.send(message{Type: typeHello, Method: methodPIN, Name: j.Name, Share: x.Message()}); err != nil {
		return s, m, j.preferPeerError(err)
	}
	if m, err = j.w.receive(patience, typeShare); err != nil {
		return s, m, err
	}
	if s, err = j.binding.pinSession(x, m.Share, cpace.Initiator, j.Name); err != nil {
		// No daemon of ours sends such a share.
		return s, m, problem(palyra.ReasonPairingImpostor).WithCause(err)
	}
	if err := j.w.send(message{Type: typeConfirm, Tag: s.confirm()}); err != nil {
		return s, m, j.preferPeerError(err)
	}
	m, err = j.w.receive(patience, typeWelcome)
	return s, m, err
}

func (j *join) proveToken() (s sharedKey, m message, err error) {
	proof, err := j.binding.qrProof(j.code.Token)
	if err != nil {
		return s, m, broken(err)
	}
	if s, err = j.binding.qrSession(j.code.Token); err != nil {
		return s, m, broken(err)
	}
	if err := j.w.send(message{Type: typeHello, Method: methodQR, Name: j.Name, Tag: proof}); err != nil {
		return s, m, j.preferPeerError(err)
	}
	m, err = j.w.receive(patience, typeWelcome)
	return s, m, err
}

// preferPeerError returns the other side's last message rather than the fact that it hung up.
func (j *join) preferPeerError(err error) error {
	if _, said := j.w.receive(time.Second); palyra.AsError(said).Reason != palyra.ReasonPairingBroken {
		return said
	}
	return err
}

// trust checks that the daemon knows the code too, and that the authorities it
// names stand behind the very connection that proved it.
func (j *join) trust(s sharedKey, m message) error {
	impostor := problem(palyra.ReasonPairingImpostor)
	if !s.welcomed(m) {
		return impostor
	}
	if m.StateID == "" || len(m.StateID) > 128 {
		return broken(errFrame)
	}
	authorities, err := parseAuthorities(m.Authorities)
	if err != nil {
		return broken(err)
	}
	leaf := j.conn.ConnectionState().PeerCertificates[0]
	if err := issuedBy(leaf, authorities, use{serverLabel, x509.ExtKeyUsageServerAuth, j.Now()}); err != nil {
		return impostor.WithCause(err)
	}
	isPinned := func(c *x509.Certificate) bool { return pinOf(c) == j.code.Pin }
	if j.Code != "" && !slices.ContainsFunc(authorities, isPinned) {
		return impostor
	}
	return nil
}

// accept checks that the certificate is for this device's key and by one of the authorities beside it. They may be
// newer than those of the welcome: the tag says that they come from the same daemon.
func (j *join) accept(s sharedKey, m message) (Joined, error) {
	if !s.issued(m) {
		return Joined{}, problem(palyra.ReasonPairingImpostor)
	}
	var d palyra.Device
	if err := json.Unmarshal(m.Device, &d); err != nil {
		return Joined{}, broken(err)
	}
	authorities, err := parseAuthorities(m.Authorities)
	if err != nil {
		return Joined{}, broken(err)
	}
	leaf, err := x509.ParseCertificate(m.Certificate)
	if err != nil {
		return Joined{}, broken(err)
	}
	key, _ := leaf.PublicKey.(ed25519.PublicKey)
	switch {
	case !j.public.Equal(key) || d.KeyID != KeyID(j.public) || d.PublicKey != publicText(j.public):
		return Joined{}, broken(errors.New("pairing: the certificate is for another key"))
	case d.Name != j.Name || d.ID != deviceID(j.public): // both are shown and kept here
		return Joined{}, broken(errors.New("pairing: the device is not called what it was to be"))
	case d.Certificate != palyra.SumBytes(m.Certificate):
		return Joined{}, broken(errors.New("pairing: the certificate is not the one that the daemon recorded"))
	}
	if err := issuedBy(leaf, authorities, use{d.ID, x509.ExtKeyUsageClientAuth, j.Now()}); err != nil {
		return Joined{}, broken(err)
	}
	return Joined{Device: d, Certificate: m.Certificate, Authorities: m.Authorities}, nil
}
