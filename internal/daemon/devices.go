package daemon

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/ca"
	"palyra/internal/identity"
	"palyra/internal/limit"
	"palyra/internal/pairing"
	"palyra/internal/rpc"
	"palyra/internal/tool/device"

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

	mu     sync.Mutex // guards issued
	issued map[palyra.ID]pairing.Issued

	door sync.Mutex // held while the door opens or closes
}

// openDevices opens the authority and the office. Nobody can come in before Run.
func (d *Daemon) openDevices(ctx context.Context) error {
	c := d.Config.Config
	d.limits = limit.New(limit.Config{
		Requests: c.Limits.RequestsPerSecond, Propose: c.Limits.ProposePerSecond, Decide: c.Limits.DecidePerSecond, Logins: c.Limits.LoginPerMinute, Now: now,
	})
	v := &devices{d: d, issued: map[palyra.ID]pairing.Issued{}}
	var err error
	v.authority, err = ca.Open(ctx, ca.Config{
		Keeper: ca.Files(c.Paths.Keys), Certs: filepath.Join(c.Paths.Keys, "authorities"), Days: int(c.Remote.CertificateDays), Now: now,
	})
	if err != nil {
		return err
	}
	v.tls = v.authority.Server(ca.ServerConfig{Device: v.live, PairProtocol: pairing.Protocol})
	v.office, err = pairing.New(pairing.Config{
		StateID: d.stateID, Authorities: v.authority.Certificates, Leaf: v.authority.ServerLeaf, Ask: v.ask, Addresses: v.addresses, Limit: d.limits,
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

// tool is the tool by which devices are paired.
func (v *devices) tool() device.Config {
	return device.Config{KeyID: identity.KeyID, Register: v.register}
}

// register makes a device known that a person said yes to. Its certificate waits
// for the office, which hands it over.
func (v *devices) register(ctx context.Context, call palyra.ID, p device.Pairing) (palyra.Device, error) {
	pub, err := base64.StdEncoding.Strict().DecodeString(p.PublicKey)
	if err != nil {
		return palyra.Device{}, err
	}
	id := access.DeviceID(ed25519.PublicKey(pub))
	leaf, err := v.authority.IssueDevice(ed25519.PublicKey(pub), id)
	if err != nil {
		return palyra.Device{}, err
	}
	dev, err := v.d.access.AddDevice(ctx, palyra.Device{
		ID: id, Name: p.Name, Principal: p.Principal, Role: p.Role, KeyID: p.KeyID, PublicKey: p.PublicKey, Certificate: leaf.Digest,
		Serial: leaf.Serial, ExpiresAt: leaf.NotAfter.UTC(), PairedAt: now().UTC(), PairedBy: p.By, Call: call, Address: p.Address,
	}, p.Pairing)
	if err != nil {
		return palyra.Device{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.issued[call] = pairing.Issued{Device: dev, Certificate: leaf.DER, Authorities: v.authority.Certificates()}
	return dev, nil
}

// ask puts a machine that proved the code to the gate, as a call of its own:
// judged, asked, answered, recorded and attested like any other.
func (v *devices) ask(ctx context.Context, c pairing.Candidate, asked func(palyra.ID)) (pairing.Issued, error) {
	if _, err := v.d.access.Device(ctx, c.Name); err == nil { // better now than after a person said yes
		return pairing.Issued{}, palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "a device is or was called %s", c.Name).
			WithRemedy("join again with another --name; that of a revoked device is not given again")
	}
	args, err := json.Marshal(device.Pairing{
		Pairing: c.Pairing, Name: c.Name, PublicKey: c.PublicKey, KeyID: c.KeyID, Print: c.Fingerprint, Address: c.Address,
		Principal: c.Principal, Role: c.Role, By: c.By,
	})
	if err != nil {
		return pairing.Issued{}, err
	}
	calls := v.d.path.calls
	var id atomic.Value
	out, err := calls.Call(ctx, palyra.Proposal{
		Principal: palyra.Principal("device:" + c.KeyID), Owner: c.Principal, PeerUID: -1, Door: palyra.DoorAPI,
		Tool: device.PairName, Arguments: args, Purpose: "pairing " + string(c.Pairing),
	}, palyra.Watch{Event: func(call *palyra.Call, e palyra.Event) {
		id.Store(call.ID)
		switch e := e.(type) {
		case palyra.ApprovalRequested:
			asked(e.Approval)
		case palyra.ApprovalJoined:
			asked(e.Approval)
		}
	}})
	call, known := id.Load().(palyra.ID)
	if known && ctx.Err() != nil {
		_ = calls.Cancel(context.WithoutCancel(ctx), call) // it may have ended: then the answer is there
	}
	if issued, ok := v.take(call); ok {
		return issued, nil
	}
	switch {
	case err != nil:
		return pairing.Issued{}, err
	case out.ReasonCode == palyra.ReasonApprovalDenied:
		return pairing.Issued{}, palyra.Errorf(palyra.Denied, palyra.ReasonPairingRefused, "the pairing was refused: %s", out.Reason)
	}
	return pairing.Issued{}, palyra.Errorf(palyra.Denied, out.ReasonCode, "%s", out.Reason).WithRemedy("%s", out.Remedy)
}

// take returns what a call issued, once.
func (v *devices) take(call palyra.ID) (pairing.Issued, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	issued, ok := v.issued[call]
	delete(v.issued, call)
	return issued, ok
}

// Offer implements the door's Office.
func (v *devices) Offer(ctx context.Context, o devicesvc.Offer, emit func(palyra.Pairing) error) error {
	if v.d.Config.Config.Remote.Listen == "off" {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "devices cannot come in: remote.listen is off").
			WithRemedy("set remote.listen, for example to :7443")
	}
	return v.office.Offer(ctx, pairing.Offer(o), emit)
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
