//go:build linux

package client_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/access"
	"palyra/internal/ca"
	"palyra/internal/identity"
	"palyra/internal/pairing"
	"palyra/internal/rpc"
	"palyra/internal/rpc/devices"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"

	rpcaccess "palyra/internal/rpc/access"
)

// far is a daemon on another machine, as far as a client can tell: a real
// authority, a real pairing office, a real registry and the real door for devices;
// behind them parts that pretend.
type far struct {
	t       *testing.T
	home    string
	address string
	parts   *rpctest.Parts
	reg     *access.Registry
	signer  *identity.Signer // the owner's
	ca      *ca.Authority
	office  *pairing.Office
	server  *rpc.Server
	stop    func()

	ahead atomic.Int64                                                 // of the authority's clock
	say   func(pairing.Candidate) error                                // the person's answer; nil: yes
	next  func(palyra.Device) (palyra.Device, []byte, [][]byte, error) // what a renewal gives; nil: what it should
	ids   atomic.Int64
}

func newFar(t *testing.T) *far {
	t.Helper()
	f := &far{t: t, home: t.TempDir()}
	must(t, os.Chmod(f.home, 0o700))
	var err error
	f.signer, err = identity.Create(filepath.Join(f.home, "operator.key"))
	must(t, err)
	engine, err := sqlite.Open(filepath.Join(f.home, "state.db"))
	must(t, err)
	db, err := store.Open(t.Context(), engine, access.Schema())
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	f.reg, err = access.New(access.Config{DB: db, Journal: nowhere{}, StateID: rpctest.StateID, Now: time.Now})
	must(t, err)
	_, err = f.reg.AddFirstOwner(t.Context(), palyra.Operator{Principal: "user:alice", PublicKey: f.signer.Public()}, int64(os.Geteuid()))
	must(t, err)
	f.ca, err = ca.Open(t.Context(), ca.Config{KeyStore: ca.Files(filepath.Join(f.home, "keys")), Now: f.now})
	must(t, err)
	f.office, err = pairing.New(pairing.Config{
		StateID: rpctest.StateID, Authorities: f.ca.Certificates, Leaf: f.ca.ServerLeaf, Ask: f.ask,
		Addresses: func() []string { return []string{f.address} },
		Record:    func(context.Context, ...palyra.Event) error { return nil }, Limit: free{}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		NewID: func() palyra.ID { return palyra.ID("P" + strconv.FormatInt(f.ids.Add(1), 10)) },
	})
	must(t, err)
	f.serve()
	return f
}

type free struct{}

func (free) Try(string) (func(bool), time.Duration, bool) { return func(bool) {}, 0, true }

func (f *far) now() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }

// serve opens the door until the test ends.
func (f *far) serve() {
	f.t.Helper()
	must(f.t, os.MkdirAll(filepath.Join(f.home, "run"), 0o700))
	f.parts = &rpctest.Parts{Registry: rpcaccess.Registry{Keys: f.reg, People: f.reg, Tokens: f.reg, Roles: f.reg}}
	services := f.parts.Services()
	for i, s := range services {
		if _, ok := s.(*devices.Service); ok {
			services[i] = devices.New(offers{f.office}, f.reg, f, nil, nil)
		}
	}
	var err error
	f.server, err = rpc.New(rpc.Config{
		AgentSocket: filepath.Join(f.home, "run", "agent.sock"), OperatorSocket: filepath.Join(f.home, "run", "operator.sock"),
		StateID: rpctest.StateID, Access: f.reg, Agents: f.reg, Roles: f.reg, Journal: nowhere{}, Services: services,
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	must(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.server.Run(ctx) }()
	listen := "127.0.0.1:0"
	if f.address != "" {
		listen = f.address // again, at the same place
	}
	f.address, err = f.server.OpenRemote(rpc.RemoteConfig{
		Listen: listen, TLS: f.ca.Server(ca.ServerConfig{Device: f.live, PairProtocol: pairing.Protocol}),
		Name: func(string) bool { return true },
		Device: func(ctx context.Context, s tls.ConnectionState) (palyra.Device, error) {
			peer, err := ca.PeerOf(s)
			if err != nil {
				return palyra.Device{}, err
			}
			return f.reg.Device(ctx, peer.Device)
		},
		PairProtocol: pairing.Protocol, Pair: f.office.Serve,
	})
	must(f.t, err)
	f.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	f.t.Cleanup(f.stop)
}

func (f *far) live(ctx context.Context, keyID string, _ *x509.Certificate) error {
	d, err := f.reg.DeviceByKey(ctx, keyID)
	if err == nil && !d.Live() {
		err = palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRevoked, "the device was revoked")
	}
	return err
}

// offers is the office as the service knows it.
type offers struct{ *pairing.Office }

func (o offers) Offer(ctx context.Context, x palyra.PairingOffer, emit func(palyra.Pairing) error) error {
	return o.Office.Offer(ctx, x, emit)
}

// ask is the gate and the registry behind a yes.
func (f *far) ask(ctx context.Context, c pairing.Candidate, asked func(palyra.ApprovalID)) (pairing.Issued, error) {
	asked("A1")
	if f.say != nil {
		if err := f.say(c); err != nil {
			return pairing.Issued{}, err
		}
	}
	pub, err := base64.StdEncoding.DecodeString(c.PublicKey)
	if err != nil {
		return pairing.Issued{}, err
	}
	id := access.DeviceID(ed25519.PublicKey(pub))
	leaf, err := f.ca.IssueDevice(ed25519.PublicKey(pub), id)
	if err != nil {
		return pairing.Issued{}, err
	}
	d, err := f.reg.AddDevice(ctx, palyra.Device{
		ID: id, Name: c.Name, Principal: c.Principal, Role: c.Role, KeyID: c.KeyID, PublicKey: c.PublicKey, Certificate: leaf.Digest,
		Serial:    leaf.Serial,
		ExpiresAt: leaf.NotAfter.UTC(), PairedAt: time.Now().UTC(), PairedBy: c.By, Call: "C1", Address: c.Address,
	}, c.Pairing)
	return pairing.Issued{Device: d, Certificate: leaf.DER, Authorities: f.ca.Certificates()}, err
}

// Renew implements devices.Renewer.
func (f *far) Renew(ctx context.Context, d palyra.Device) (palyra.Device, []byte, [][]byte, error) {
	if f.next != nil {
		return f.next(d)
	}
	pub, err := base64.StdEncoding.DecodeString(d.PublicKey)
	if err != nil {
		return d, nil, nil, err
	}
	leaf, err := f.ca.IssueDevice(ed25519.PublicKey(pub), d.ID)
	if err != nil {
		return d, nil, nil, err
	}
	d, err = f.reg.RenewDevice(ctx, d.ID, leaf.Digest, leaf.Serial, leaf.NotAfter.UTC())
	return d, leaf.DER, f.ca.Certificates(), err
}

// offered shows a code until the test ends, and returns it.
func (f *far) offered() palyra.Pairing {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	first, done := make(chan palyra.Pairing, 1), make(chan struct{})
	go func() {
		defer close(done)
		_ = f.office.Offer(ctx, palyra.PairingOffer{Principal: "user:alice", Role: palyra.RoleOwner, By: "user:alice"},
			func(p palyra.Pairing) error {
				select {
				case first <- p:
				default: // it was read already, or never will be
				}
				return nil
			})
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
	select {
	case p := <-first:
		return p
	case <-done:
		f.t.Fatal("no code is shown")
		return palyra.Pairing{}
	}
}

func pin(text string) func() (palyra.Secret, error) {
	return func() (palyra.Secret, error) { return palyra.NewSecret([]byte(text)), nil }
}

// join pairs this machine with f.
func (f *far) join(dir string) *client.Remote {
	f.t.Helper()
	r, err := client.Join(f.t.Context(), client.JoinRequest{
		Dir: dir, Name: "work", Device: "laptop", Address: f.address,
		PIN: pin(f.offered().PIN),
	})
	must(f.t, err)
	return r
}

func (f *far) open(c client.Config) *client.Client {
	f.t.Helper()
	cl, err := client.Open(c)
	must(f.t, err)
	f.t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// revoke ends every device there is, as the owner.
func (f *far) revoke(r *client.Remote) {
	f.t.Helper()
	c := f.open(client.Config{Home: f.home, Door: client.OperatorDoor, Signer: f.signer})
	_, err := c.RevokeDevice(f.t.Context(), r.Device.ID)
	must(f.t, err)
}

// named fails unless err is ours, with a reason and something to do about it.
func named(t *testing.T, err error, want palyra.Reason) {
	t.Helper()
	e, ok := err.(*palyra.Error)
	if !ok || e.Reason != want || e.Text == "" {
		t.Errorf("got %#v (%v), want reason %s", err, err, want)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestJoinAndUse(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	var print string
	var states []palyra.PairingState
	r, err := client.Join(t.Context(), client.JoinRequest{
		Dir: dir, Device: "laptop", Code: f.offered().Code, Prepared: func(s string) { print = s },
		Progress: func(s palyra.PairingState, _ string) { states = append(states, s) },
	})
	must(t, err)
	if r.Name != "127.0.0.1" || r.StateID != rpctest.StateID || r.Address != f.address || r.Device.Name != "laptop" || len(print) != 39 {
		t.Errorf("%+v %q", r, print)
	}
	if len(states) == 0 || states[len(states)-1] != palyra.PairingDone {
		t.Errorf("%v", states)
	}
	entries, err := os.ReadDir(filepath.Join(dir, r.Name))
	must(t, err)
	if len(entries) != 3 {
		t.Errorf("%v", entries)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v %v", e.Name(), info.Mode(), err)
		}
	}
	again, err := client.LoadRemote(dir, r.Name)
	must(t, err)
	same(t, "loaded", nil, again.Copy().Device, r.Copy().Device)
	c, ctx := f.open(client.Config{Remote: again, Door: client.OperatorDoor, Signer: again.Signer()}), t.Context()
	must(t, c.Health(ctx))
	me, err := c.WhoAmI(ctx)
	if err != nil || me.Principal != "user:alice" || me.Credential != rpc.ByDevice {
		t.Errorf("%+v %v", me, err)
	}
	// What is signed is signed by the device, and counts here.
	if _, err := c.AddUser(ctx, palyra.User{Principal: "user:bob", Role: palyra.RoleViewer}); err != nil {
		t.Error(err)
	}
	if who := f.parts.Who(); again.Separation() != palyra.SeparationDevice || who.Device.ID != "" && who.Device.ID != r.Device.ID {
		t.Errorf("%+v", who)
	}
}

func TestRemoteDoors(t *testing.T) {
	f := newFar(t)
	r, ctx := f.join(filepath.Join(t.TempDir(), "remotes")), t.Context()
	agent, err := f.open(client.Config{Remote: r}).WhoAmI(ctx)
	if err != nil || agent.Principal != "agent:device.laptop" || agent.Role != palyra.RoleAgent {
		t.Errorf("%+v %v", agent, err)
	}
	// Streams in both directions work too.
	o, err := f.open(client.Config{Remote: r}).Call(ctx, client.CallRequest{Tool: "palyra.echo", Arguments: []byte(`{}`), Workspace: "/w"},
		nil)
	if err != nil || o.Outcome != palyra.OutcomeFinished {
		t.Errorf("%+v %v", o, err)
	}
	owner := f.open(client.Config{Remote: r, Door: client.OperatorDoor, Signer: r.Signer()})
	_, token, err := owner.AddAgent(ctx, "ci", "")
	must(t, err)
	for _, door := range []client.Door{client.AgentDoor, client.OperatorDoor} {
		me, err := f.open(client.Config{Remote: r, Door: door, AgentToken: token, Signer: r.Signer()}).WhoAmI(ctx)
		if err != nil || me.Principal != "agent:ci" || me.Credential != rpc.ByToken {
			t.Errorf("door %d: %+v %v", door, me, err)
		}
	}
	// Without a signer nothing that changes anything is even sent.
	f.parts.Seen()
	named(t, f.open(client.Config{Remote: r, Door: client.OperatorDoor}).RemoveUser(ctx, "user:bob"), palyra.ReasonSignatureRequired)
	if seen := f.parts.Seen(); len(seen) != 0 {
		t.Errorf("%v", seen)
	}
	// A token that the device holds does not stop the device from renewing.
	held := f.open(client.Config{Remote: r, AgentToken: token})
	if _, err := held.Renew(ctx); err != nil {
		t.Error(err)
	}
	named(t, errOf(f.open(client.Config{Home: f.home, Door: client.OperatorDoor}).Renew(ctx)), palyra.ReasonDeviceRequired)
}
