// Package ca is the daemon's own certificate authority: it says which machine is a device of this daemon, and lets
// a device know that it talks to the daemon it was paired with.
//
// Words: an authority is an Ed25519 key with a self-signed certificate that may sign leaves only (path length 0),
// and only for names below its own zone "<ca id>.palyra.internal"; the ca id is the beginning of the digest of its
// public key. A device leaf names "<device id>.<ca id>.palyra.internal" and is good for a client only; a server
// leaf names "daemon.<ca id>.palyra.internal" and is good for a server only. A rotation puts a new authority in the
// place of the current one, which is then retired: it signs nothing any more, but what it signed holds until it
// expires. A keeper keeps the secret state.
//
// Promises: everything secret is one value of the keeper, replaced whole, so a crash leaves the authority before a
// rotation or the one after it. The private key of a retired authority is gone with the rotation; what stays is one
// server leaf, for the devices that trust the old authority only. Connections are TLS
// 1.3 with a certificate on both sides and without resumption, so that every
// connection asks anew whether the device is still welcome.
//
// It does not know which devices there are (the caller's Device function says
// so), writes no journal, and opens no listener.
//
// Its words are those of docs/words.md.
package ca

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"sync"
	"time"

	"palyra"
)

const (
	// Use is what the authority's key is for, in palyra.Key.
	Use = palyra.KeyCA

	secretName  = "ca"
	defaultDays = 30
	mostDays    = 365
	// mostIssuers bounds how many authorities can be in service at once.
	mostIssuers = 8
)

// Config is what an authority needs.
type Config struct {
	KeyStore KeyStore
	Certs    string           // directory for copies of the public certificates; empty: none. Nothing is believed because it lies there
	Days     int              // how long a device's certificate holds; 0 is 30
	Now      func() time.Time // nil is time.Now
}

// Authority issues certificates and checks them. It is safe for concurrent use and has no goroutines of its own.
type Authority struct {
	cfg   Config
	point func(string) // tests crash here

	turn chan struct{} // held by the one rotation that may run
	// signing is held for reading by whoever signs with an authority's key, for
	// writing while a rotation takes that key away.
	signing sync.RWMutex

	opening sync.Mutex   // held by who asks a vault for the state that was not there at the start
	mu      sync.RWMutex // leaf lock of the two below
	st      *state       // without issuers: it is in a vault that does not open
	unsure  bool         // the keeper may hold another state than st: no device gets a certificate

	leafMu sync.Mutex
	leaf   *served // the current authority's server leaf
}

// Leaf is a device's certificate.
type Leaf struct {
	DER      []byte
	Serial   string // 32 hex digits
	Digest   palyra.Digest
	NotAfter time.Time
}

// Open reads the authority from its keeper. Where there is none it makes one;
// but not where public certificates show that there was one before, because
// every device would have to be paired again without anybody having said so. One whose keys are in a vault that does not
// open knows no device until it does: see Ready.
func Open(ctx context.Context, cfg Config) (*Authority, error) {
	if cfg.KeyStore == nil || cfg.Days < 0 || cfg.Days > mostDays {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig,
			"device certificates hold for 1 to %d days, and their authority needs a keeper", mostDays)
	}
	cfg.Days = cmp.Or(cfg.Days, defaultDays)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Authority{cfg: cfg, point: func(string) {}, turn: make(chan struct{}, 1), st: &state{}}
	st, err := a.ready(ctx)
	if err != nil && shut(err) { // everything else goes on, and this when somebody needs it
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	a.st = st
	return a, nil
}

// ready returns the state as it is to be served.
func (a *Authority) ready(ctx context.Context) (*state, error) {
	st, err := a.load(ctx)
	if palyra.CodeOf(err) == palyra.NotFound {
		st, err = a.begin(ctx)
	}
	if err != nil {
		return nil, err
	}
	if st.longest < a.cfg.Days { // before the first certificate that holds so long
		st = &state{issuers: st.issuers, longest: a.cfg.Days}
		if err := a.store(ctx, st); err != nil {
			return nil, err
		}
	}
	return st, a.publish(st)
}

// begin makes the first authority.
func (a *Authority) begin(ctx context.Context) (*state, error) {
	left, err := a.published()
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig,
			"the key of the device authority is missing, but %s shows that there was one", a.cfg.Certs).
			WithRemedy("restore the key from a backup; or remove that directory for a new authority, and pair every device again")
	}
	first, err := newIssuer(a.cfg.Now())
	if err != nil {
		return nil, err
	}
	st := &state{issuers: []*issuer{first}, longest: a.cfg.Days}
	return st, a.store(ctx, st)
}

func (a *Authority) load(ctx context.Context) (*state, error) {
	s, err := a.cfg.KeyStore.Load(ctx, secretName)
	if err != nil {
		return nil, fmt.Errorf("ca: load: %w", err)
	}
	defer s.Destroy()
	var st *state
	err = s.Use(func(raw []byte) error { st, err = decode(raw); return err })
	return st, err
}

func (a *Authority) store(ctx context.Context, st *state) error {
	s, err := st.encode()
	if err != nil {
		return err
	}
	defer s.Destroy()
	if err := a.cfg.KeyStore.Store(ctx, secretName, s); err != nil {
		return fmt.Errorf("ca: store: %w", err)
	}
	return nil
}

// ID returns the current authority's id; none while it is not Ready.
func (a *Authority) ID() string {
	if i := a.current(); i != nil {
		return i.id
	}
	return ""
}

// Key returns the current authority's public key; the zero Key while it is not Ready.
func (a *Authority) Key() palyra.Key {
	if i := a.current(); i != nil {
		return i.public()
	}
	return palyra.Key{}
}

// Certificates returns the certificates of the authorities in service, newest first: the current one, and those
// before it while one of their device certificates may still hold.
func (a *Authority) Certificates() [][]byte {
	var out [][]byte
	for _, i := range a.serving() {
		out = append(out, slices.Clone(i.cert.Raw))
	}
	return out
}

// Serves reports whether name is what devices call this daemon by.
func (a *Authority) Serves(name string) bool {
	return slices.ContainsFunc(a.serving(), func(i *issuer) bool { return i.serverName() == name })
}

// IssueDevice makes a device's certificate for the key that the device holds.
// It is always the current authority's; while a rotation runs it waits.
func (a *Authority) IssueDevice(pub ed25519.PublicKey, deviceID string) (Leaf, error) {
	if len(pub) != ed25519.PublicKeySize || !validDevice(deviceID) {
		return Leaf{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput,
			"a device has an Ed25519 key and an id like dev-<32 hex digits>")
	}
	if err := a.Ready(); err != nil {
		return Leaf{}, err
	}
	a.signing.RLock()
	defer a.signing.RUnlock()
	a.mu.RLock()
	st, unsure := a.st, a.unsure
	a.mu.RUnlock()
	if unsure {
		return Leaf{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal,
			"it is not known whether the last rotation of the device authority is kept, so no certificate is issued").
			WithRemedy("rotate again, or restart the daemon")
	}
	for _, i := range st.issuers {
		if i.cert.PublicKey.(ed25519.PublicKey).Equal(pub) {
			return Leaf{}, palyra.Errorf(palyra.Denied, palyra.ReasonBadCertificate, "that key is an authority's, not a device's")
		}
	}
	now := a.cfg.Now()
	cert, err := st.issuers[0].sign(deviceTemplate(deviceID, st.issuers[0].id), pub, now, time.Duration(a.cfg.Days)*24*time.Hour)
	if err != nil {
		return Leaf{}, err
	}
	return Leaf{DER: cert.Raw, Serial: SerialOf(cert), Digest: palyra.SumBytes(cert.Raw), NotAfter: cert.NotAfter}, nil
}

func (a *Authority) state() *state {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.st
}

// current is the authority that signs; nil while there is none.
func (a *Authority) current() *issuer {
	if st := a.state(); len(st.issuers) > 0 {
		return st.issuers[0]
	}
	return nil
}

// serving returns the authorities in service, newest first.
func (a *Authority) serving() []*issuer { return a.state().serving(a.cfg.Now()) }
