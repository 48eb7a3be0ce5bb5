package pairing

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"palyra"
)

// Signer is a device's Ed25519 key: Public returns an ed25519.PublicKey.
type Signer interface{ crypto.Signer }

// JoinConfig is a device's side of a pairing. Code, or Address and PIN, says where to go; with Code nobody is asked
// for a PIN, and Address may name a way that the code does not know.
type JoinConfig struct {
	Address string // host:port
	PIN     func() (palyra.Secret, error)
	Code    string // what the QR code holds
	Name    string // of the device
	Key     Signer
	// Dial opens a connection; this package dials nobody by itself.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Keep stores the result durably. It is called before the daemon is told that it is stored.
	Keep     func(Joined) error
	Progress func(state palyra.PairingState, text string) // may be nil
	Now      func() time.Time
}

// Joined is what a device has to keep.
type Joined struct {
	StateID     string // of the daemon
	Device      palyra.Device
	Certificate []byte   // DER
	Authorities [][]byte // DER, the newest first
	Address     string   // where the daemon was reached
}

// join is one run of Join.
type join struct {
	JoinConfig
	public  ed25519.PublicKey
	own     tls.Certificate
	code    Code          // with Code
	pin     palyra.Secret // without
	address string
	conn    *tls.Conn
	w       wire
	binding binding
}

// Join pairs this machine with a daemon. It returns when the device is paired and
// everything is stored, or with an error that says why not. It tries a code once.
func Join(ctx context.Context, c JoinConfig) (Joined, error) {
	j := &join{JoinConfig: c}
	if err := j.prepare(); err != nil {
		return Joined{}, err
	}
	defer j.pin.Destroy()
	defer j.code.Token.Destroy()
	if err := j.connect(ctx); err != nil {
		return Joined{}, err
	}
	defer func() { _ = j.conn.Close() }() // everything was said, or nothing more can be
	stop := context.AfterFunc(ctx, func() { _ = j.conn.Close() })
	defer stop()
	joined, err := j.speak()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return Joined{}, broken(cause)
	}
	return joined, err
}

func (j *join) prepare() error {
	public, ok := ed25519.PublicKey(nil), false
	if j.Key != nil {
		public, ok = j.Key.Public().(ed25519.PublicKey)
	}
	if !ok || j.Keep == nil || j.Dial == nil || j.Now == nil || j.Code == "" && j.PIN == nil {
		return palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "pairing: join: the configuration is incomplete")
	}
	if err := CheckName(j.Name); err != nil {
		return err
	}
	var err error
	if j.Code != "" {
		if j.code, err = ParseCode(j.Code); err != nil {
			return err
		}
	}
	if j.Address != "" || j.Code == "" {
		if err := CheckAddress(j.Address); err != nil {
			return err
		}
		j.code.Addresses = []string{j.Address}
	}
	if j.own, err = ownCertificate(j.Key, j.Now()); err != nil {
		return err
	}
	j.public = public
	if j.Code != "" {
		return nil
	}
	typed, err := j.PIN()
	if err != nil {
		return err
	}
	defer typed.Destroy()
	j.pin, err = cleanPIN(typed)
	return err
}

func (j *join) progress(s palyra.PairingState, text string) {
	if j.Progress != nil {
		j.Progress(s, text)
	}
}

// connect goes to the first address that answers and looks at who is there. With
// a scanned code nothing is sent to anyone but the one it names.
func (j *join) connect(ctx context.Context) error {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, SessionTicketsDisabled: true,
		// There is nobody to verify against yet: the code decides, in look or in
		// the exchange, and it covers the certificate that is shown.
		InsecureSkipVerify:   true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &j.own, nil },
		Time:                 j.Now,
	}
	if j.Code != "" {
		config.ServerName = nameUnder(j.code.Pin, serverLabel)
	}
	err := errors.New("pairing: no address")
	for _, a := range j.code.Addresses {
		j.progress(palyra.PairingTrying, "connecting to "+a)
		var conn net.Conn
		if conn, err = j.dial(ctx, a); err != nil {
			continue
		}
		j.conn, j.address = tls.Client(conn, config), a
		if err = j.shake(ctx); err != nil {
			_ = conn.Close()
			if palyra.AsError(err).Reason == palyra.ReasonPairingImpostor {
				return err
			}
			continue
		}
		return nil
	}
	return noDaemonError(err)
}

func noDaemonError(err error) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonPairingBroken, "no daemon that pairs answers there").
		WithRemedy("check the address, and that 'palyra device pair' is still showing its code").WithCause(err)
}

func (j *join) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return j.Dial(ctx, "tcp", address)
}

func (j *join) shake(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if err := j.conn.HandshakeContext(ctx); err != nil {
		return broken(err)
	}
	j.w = wire{conn: j.conn, patience: patience}
	state := j.conn.ConnectionState()
	if j.Code != "" {
		if err := pinned(state.PeerCertificates, j.code.Pin, j.Now()); err != nil {
			return problem(palyra.ReasonPairingImpostor).WithCause(err)
		}
	}
	b, err := bind(state, state.PeerCertificates[0].Raw, j.own.Certificate[0])
	if err != nil {
		return broken(err)
	}
	j.binding = b
	return nil
}

func (j *join) speak() (Joined, error) {
	s, m, err := j.prove()
	if err != nil {
		return Joined{}, err
	}
	if err := j.trust(s, m); err != nil {
		j.w.refuseNoWait(err)
		return Joined{}, err
	}
	j.progress(palyra.PairingProven, "the code is right; now it is decided there. This device's key is "+Fingerprint(j.public))
	issued, err := j.w.receive(askMost+Life, typeIssued)
	if err != nil {
		return Joined{}, err
	}
	joined, err := j.accept(s, issued)
	if err == nil {
		joined.StateID, joined.Address = m.StateID, j.address
		j.progress(palyra.PairingIssued, "the certificate is here")
		err = j.Keep(joined)
	}
	if err != nil {
		j.w.refuseNoWait(broken(err))
		return Joined{}, err
	}
	// From here on both sides have everything. If the daemon does not hear it, it
	// says so to the person there; the device is paired all the same.
	if j.w.send(message{Type: typeAck}) == nil {
		_, _ = j.w.receive(patience, typeDone)
	}
	j.progress(palyra.PairingDone, "paired as "+joined.Device.Name)
	return joined, nil
}
