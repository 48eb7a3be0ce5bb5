// Package enrol decides who becomes known to the daemon: the first owner, people and tokens bound to workspaces that are
// registered, and other machines, by the daemon's authority and a person's yes. It stands on the registry of access,
// which keeps them, and knows no door: that of devices is opened and closed through three functions.
package enrol

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/ca"
	"palyra/internal/config"
	"palyra/internal/limit"
	"palyra/internal/pairing"
)

// Calls are the calls through the gate.
type Calls interface {
	// Call walks a proposal through the gate and returns its outcome.
	Call(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error)
	// Cancel ends a call.
	Cancel(ctx context.Context, id palyra.CallID) error
}

// Remote is the listener for devices. All three may be called at any time.
type Remote struct {
	Open    func() error
	Close   func()
	Address func() string // empty while it is closed
}

// Config says what devices stand on.
type Config struct {
	Settings config.Config
	StateID  string
	Keys     *ca.Movable // where the authority's keys are; nil: in files
	Access   *access.Registry
	Record   func(ctx context.Context, events ...palyra.Event) error
	Trouble  func(error) // told that the door cannot be opened, or with nil that it is open
	NewID    func() palyra.ID
	Now      func() time.Time
	Log      *slog.Logger
}

// Devices is what other machines need of the daemon: an authority that knows them
// again, an office where they become known, and a door.
type Devices struct {
	Config
	Authority *ca.Authority
	Office    *pairing.Office
	TLS       *tls.Config
	Calls     Calls // set before Serve

	door       atomic.Pointer[Remote]
	challenges challenges

	mu       sync.Mutex           // guards what follows
	waiting  map[palyra.ID]string // by pairing, the key of the machine that waits for the answer
	issued   map[palyra.CallID]pairing.Issued
	offering map[string]int // keys that asked for the code that is shown

	adjusting sync.Mutex // held while the door opens or closes
}

// New opens the authority and the office. Nobody can come in before Serve.
func New(ctx context.Context, c Config) (v *Devices, err error) {
	v = &Devices{
		Config: c, offering: map[string]int{}, waiting: map[palyra.ID]string{}, issued: map[palyra.CallID]pairing.Issued{},
		challenges: newChallenges(),
	}
	keys := c.Settings.Paths.Keys
	if v.Keys == nil {
		v.Keys = ca.NewMovable(keys, nil)
	}
	v.Authority, err = ca.Open(ctx, ca.Config{
		KeyStore: v.Keys, Certs: filepath.Join(keys, "authorities"), Days: int(c.Settings.Remote.CertificateDays), Now: c.Now,
	})
	if err != nil {
		return nil, err
	}
	v.TLS = v.Authority.Server(ca.ServerConfig{Device: v.live, PairProtocol: pairing.Protocol})
	v.Office, err = pairing.New(pairing.Config{
		StateID: c.StateID, Authorities: v.Authority.Certificates, Leaf: v.Authority.ServerLeaf, Ask: v.Ask, Addresses: v.addresses,
		// of its own: nobody locks browsers out by guessing PINs
		Limit:  limit.New(limit.Config{Logins: c.Settings.Limits.LoginPerMinute, Now: c.Now}),
		Record: c.Record, NewID: c.NewID, Now: c.Now, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	v.Office.OnChange(v.Adjust)
	return v, nil
}

// live is asked in every handshake whether a certificate is one of a device that
// is still known. An older certificate of the same key holds until it expires.
func (v *Devices) live(ctx context.Context, keyID string, leaf *x509.Certificate) error {
	dev, err := v.Access.DeviceByKey(ctx, keyID)
	switch {
	case err != nil:
		return err
	case !dev.Live():
		return palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRevoked, "the device was revoked").WithRemedy("pair it again under a new name")
	case !slices.Contains(leaf.DNSNames, dev.ID+"."+strings.SplitN(leaf.DNSNames[0], ".", 2)[1]):
		return palyra.Errorf(palyra.Denied, palyra.ReasonBadCertificate, "the certificate is another device's")
	}
	return nil
}

// Offer implements the door's Office.
func (v *Devices) Offer(ctx context.Context, o palyra.PairingOffer, emit func(palyra.Pairing) error) error {
	if v.Settings.Remote.Listen == "off" && !o.Browser {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "devices cannot come in: remote.listen is off").
			WithRemedy("set remote.listen, for example to :7443")
	}
	key := o.Signature.Intent.KeyID
	v.mu.Lock()
	v.offering[key]++
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.offering[key]--; v.offering[key] <= 0 {
			delete(v.offering, key)
		}
	}()
	return v.Office.Offer(ctx, o, emit)
}

// Browse implements the door's Office.
func (v *Devices) Browse(ctx context.Context, b palyra.BrowserKey, emit func(palyra.Pairing) error) error {
	return v.Office.Browse(ctx, b, emit)
}

// OfferedWith reports whether a code is shown that the key asked for.
func (v *Devices) OfferedWith(keyID string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.offering[keyID] > 0
}

// Renew gives a device its next certificate, for the key it has.
func (v *Devices) Renew(ctx context.Context, dev palyra.Device) (palyra.Device, []byte, [][]byte, error) {
	pub, err := base64.StdEncoding.Strict().DecodeString(dev.PublicKey)
	if err != nil {
		return palyra.Device{}, nil, nil, err
	}
	leaf, err := v.Authority.IssueDevice(ed25519.PublicKey(pub), dev.ID)
	if err != nil {
		return palyra.Device{}, nil, nil, err
	}
	dev, err = v.Access.RenewDevice(ctx, dev.ID, leaf.Digest, leaf.Serial, leaf.NotAfter.UTC())
	return dev, leaf.DER, v.Authority.Certificates(), err
}

// Serve opens the door as the devices need it, now and whenever that changes.
func (v *Devices) Serve(d Remote) {
	v.door.Store(&d)
	v.Adjust()
}

// Adjust opens the door while a device is known or a code is shown, and closes it
// otherwise. That it cannot be opened is in the status and the log.
func (v *Devices) Adjust() {
	v.adjusting.Lock()
	defer v.adjusting.Unlock()
	door := v.door.Load()
	if door == nil || v.Settings.Remote.Listen == "off" {
		return
	}
	if !v.Office.Open() && !v.hasDevice() {
		door.Close()
		return
	}
	err := door.Open()
	if err != nil {
		v.Log.Error("devices cannot come in", "error", err)
	}
	v.Trouble(err)
}

// Named reports whether a name is one of the daemon's own.
func (v *Devices) Named(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return v.Authority.Serves(name)
}

// Device returns the device behind a connection.
func (v *Devices) Device(ctx context.Context, s tls.ConnectionState) (palyra.Device, error) {
	peer, err := ca.PeerOf(s)
	if err != nil {
		return palyra.Device{}, err
	}
	return v.Access.Device(ctx, peer.Device)
}

// hasDevice reports whether a live device is known that comes in by the door. What cannot be found out is taken
// as yes: a door that stays open lets in nobody it should not.
func (v *Devices) hasDevice() bool {
	all, err := v.Access.Devices(context.Background())
	return err != nil || slices.ContainsFunc(all, func(d palyra.Device) bool { return d.Live() && !d.Browser() })
}

// addresses are where a device may find the daemon: those that the operator named,
// else every address of this machine, those that others can reach first.
func (v *Devices) addresses() []string {
	if list := v.Settings.Remote.Advertise; len(list) > 0 {
		return list
	}
	door := v.door.Load()
	if door == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(door.Address())
	if err != nil {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return []string{net.JoinHostPort(host, port)}
	}
	return localAddresses(port)
}

// maxAddresses bounds what a code has to hold.
const maxAddresses = 4

func localAddresses(port string) []string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var far, near []string
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || n.IP.IsLinkLocalUnicast(): // its zone means nothing to anybody else
		case n.IP.IsLoopback():
			near = append(near, net.JoinHostPort(n.IP.String(), port))
		default:
			far = append(far, net.JoinHostPort(n.IP.String(), port))
		}
	}
	// the old protocol first: it is shorter
	slices.SortStableFunc(far, func(a, b string) int { return strings.Count(a, ":") - strings.Count(b, ":") })
	if list := slices.Concat(far, near); len(list) > maxAddresses {
		return list[:maxAddresses]
	}
	return slices.Concat(far, near)
}
