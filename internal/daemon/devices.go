package daemon

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"palyra"
	"palyra/internal/ca"
	"palyra/internal/limit"
	"palyra/internal/pairing"
	"palyra/internal/rpc"

	devicesvc "palyra/internal/rpc/devices"
)

// devices is what other machines need of the daemon: an authority that knows them
// again, an office where they become known, and a door.
type devices struct {
	d         *Daemon
	authority *ca.Authority
	office    *pairing.Office
	tls       *tls.Config
	server    atomic.Pointer[rpc.Server]

	mu       sync.Mutex           // guards what follows
	waiting  map[palyra.ID]string // by pairing, the key of the machine that waits for the answer
	issued   map[palyra.ID]pairing.Issued
	offering map[string]int // keys that asked for the code that is shown

	door sync.Mutex // held while the door opens or closes
}

// openDevices opens the authority and the office. Nobody can come in before Run.
func (d *Daemon) openDevices(ctx context.Context) error {
	c := d.Config.Config
	d.limits = limit.New(limit.Config{
		Requests: c.Limits.RequestsPerSecond, Propose: c.Limits.ProposePerSecond, Decide: c.Limits.DecidePerSecond, Logins: c.Limits.LoginPerMinute, Now: now,
	})
	v := &devices{d: d, offering: map[string]int{}, waiting: map[palyra.ID]string{}, issued: map[palyra.ID]pairing.Issued{}}
	var err error
	v.authority, err = ca.Open(ctx, ca.Config{
		Keeper: ca.Files(c.Paths.Keys), Certs: filepath.Join(c.Paths.Keys, "authorities"), Days: int(c.Remote.CertificateDays), Now: now,
	})
	if err != nil {
		return err
	}
	v.tls = v.authority.Server(ca.ServerConfig{Device: v.live, PairProtocol: pairing.Protocol})
	v.office, err = pairing.New(pairing.Config{
		StateID: d.stateID, Authorities: v.authority.Certificates, Leaf: v.authority.ServerLeaf, Ask: v.ask, Addresses: v.addresses,
		Limit: limit.New(limit.Config{Logins: c.Limits.LoginPerMinute, Now: now}), // of its own: nobody locks browsers out by guessing PINs
		Record: func(ctx context.Context, events ...palyra.Event) error {
			_, err := d.journal.Record(ctx, events...)
			return err
		},
		NewID: newID, Now: now, Log: d.Log,
	})
	if err != nil {
		return err
	}
	v.office.OnChange(v.adjust)
	d.devices = v
	d.access.OnEnd(d.credentialEnded)
	return d.recordAuthority(ctx)
}

// live is asked in every handshake whether a certificate is one of a device that
// is still known. An older certificate of the same key holds until it expires.
func (v *devices) live(ctx context.Context, keyID string, leaf *x509.Certificate) error {
	dev, err := v.d.access.DeviceByKey(ctx, keyID)
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
func (v *devices) Offer(ctx context.Context, o devicesvc.Offer, emit func(palyra.Pairing) error) error {
	if v.d.Config.Config.Remote.Listen == "off" {
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
	return v.office.Offer(ctx, pairing.Offer(o), emit)
}

// offeredWith reports whether a code is shown that the key asked for.
func (v *devices) offeredWith(keyID string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.offering[keyID] > 0
}

// Renew gives a device its next certificate, for the key it has.
func (v *devices) Renew(ctx context.Context, dev palyra.Device) (palyra.Device, []byte, [][]byte, error) {
	pub, err := base64.StdEncoding.Strict().DecodeString(dev.PublicKey)
	if err != nil {
		return palyra.Device{}, nil, nil, err
	}
	leaf, err := v.authority.IssueDevice(ed25519.PublicKey(pub), dev.ID)
	if err != nil {
		return palyra.Device{}, nil, nil, err
	}
	dev, err = v.d.access.RenewDevice(ctx, dev.ID, leaf.Digest, leaf.Serial, leaf.NotAfter.UTC())
	return dev, leaf.DER, v.authority.Certificates(), err
}

// serve opens what the devices need, now and whenever that changes.
func (v *devices) serve(s *rpc.Server) {
	v.server.Store(s)
	v.adjust()
}

// adjust opens the door while a device is known or a code is shown, and closes it
// otherwise. That it cannot be opened is in the status and the log.
func (v *devices) adjust() {
	v.door.Lock()
	defer v.door.Unlock()
	s, listen := v.server.Load(), v.d.Config.Config.Remote.Listen
	if s == nil || listen == "off" {
		return
	}
	if !v.office.Open() && !v.any() {
		s.CloseRemote()
		return
	}
	_, err := s.OpenRemote(rpc.RemoteConfig{
		Listen: listen, TLS: v.tls, Name: v.named, Device: v.device, Seen: v.d.access.Seen, PairProtocol: pairing.Protocol, Pair: v.office.Serve,
	})
	if err != nil {
		v.d.Log.Error("devices cannot come in", "error", err)
	}
	v.d.trouble.set("remote", err)
}

// named reports whether a name is one of the daemon's own.
func (v *devices) named(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return v.authority.Serves(name)
}

// device returns the device behind a connection.
func (v *devices) device(ctx context.Context, s tls.ConnectionState) (palyra.Device, error) {
	peer, err := ca.PeerOf(s)
	if err != nil {
		return palyra.Device{}, err
	}
	return v.d.access.Device(ctx, peer.Device)
}

// any reports whether a live device is known. What cannot be found out is taken
// as yes: a door that stays open lets in nobody it should not.
func (v *devices) any() bool {
	all, err := v.d.access.Devices(context.Background())
	return err != nil || slices.ContainsFunc(all, palyra.Device.Live)
}

// addresses are where a device may find the daemon: those that the operator named,
// else every address of this machine, those that others can reach first.
func (v *devices) addresses() []string {
	if list := v.d.Config.Config.Remote.Advertise; len(list) > 0 {
		return list
	}
	s := v.server.Load()
	if s == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(s.RemoteAddress())
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
	slices.SortStableFunc(far, func(a, b string) int { return strings.Count(a, ":") - strings.Count(b, ":") }) // the old protocol first: it is shorter
	if list := slices.Concat(far, near); len(list) > maxAddresses {
		return list[:maxAddresses]
	}
	return slices.Concat(far, near)
}
