package client

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/ca"
	"palyra/internal/durable"
	"palyra/internal/identity"
	"palyra/internal/pairing"
)

// Remote is a daemon on another machine that this one is paired with. It is kept
// in a directory of its own: who the daemon is, this device's key and its
// certificate.
type Remote struct {
	Name        string        `json:"name"` // here
	Address     string        `json:"address"`
	StateID     string        `json:"state_id"` // of the daemon
	Device      palyra.Device `json:"device"`   // what this machine is there
	Certificate []byte        `json:"certificate"`
	Authorities [][]byte      `json:"authorities"`

	dir string
	key *identity.Signer

	mu sync.Mutex // guards the certificate and the authorities once the remote is used
}

// The files of a remote. The record is written last: without it there is none.
const (
	remoteFile = "remote.json"
	remoteKey  = "device.key"
	remoteCert = "device.crt" // a copy for people and their tools

	maxRemoteFile = 256 << 10
)

// Remotes lists the daemons that this machine is paired with. One that cannot be
// read is an error of its own, and the others are listed.
func Remotes(dir string) ([]*Remote, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("client: remotes: %w", err)
	}
	var all []*Remote
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // one that is being made, or was not finished
		}
		r, err := LoadRemote(dir, e.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(errs...)
}

// LoadRemote opens one by its name.
func LoadRemote(dir, name string) (*Remote, error) {
	if err := pairing.CheckName(name); err != nil {
		return nil, noRemote(name)
	}
	own := filepath.Join(dir, name)
	raw, err := readPrivate(filepath.Join(own, remoteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noRemote(name)
	}
	if err != nil {
		return nil, err
	}
	r := &Remote{}
	if err := json.Unmarshal(raw, r); err != nil || r.Name != name || r.StateID == "" || pairing.CheckAddress(r.Address) != nil {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "%s is damaged", filepath.Join(own, remoteFile)).
			WithRemedy("remove the directory and pair again: palyra device join")
	}
	r.dir = own
	if r.key, err = identity.Load(filepath.Join(own, remoteKey), nil); err != nil {
		return nil, err
	}
	return r, nil
}

func noRemote(name string) error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "this machine is not paired with a daemon called %q", palyra.Clip(name, 64)).
		WithRemedy("see 'palyra device remotes'; pair with 'palyra device join'")
}

// readPrivate reads a file that nobody else may write.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > maxRemoteFile {
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s is not a small file of yours alone", path).
			WithRemedy("chmod 600 %s, after making sure that nobody changed it", path)
	}
	return os.ReadFile(path)
}

// Signer is the device's key: what is decided here is signed with it.
func (r *Remote) Signer() Signer { return r.key }

// Separation says how far the key is out of an agent's reach there.
func (r *Remote) Separation() palyra.Separation { return palyra.SeparationDevice }

// Expires is when the certificate ends, and due when it should be renewed.
func (r *Remote) Expires() (ends, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ends = r.Device.ExpiresAt
	begun := r.Device.PairedAt
	if life := ends.Sub(begun); life > maxCertificate || life <= 0 {
		begun = ends.Add(-maxCertificate)
	}
	return ends, ends.Add(-ends.Sub(begun) / 3)
}

const maxCertificate = 30 * 24 * time.Hour

// config is how a connection proves who is at either end, and the name of the
// daemon there.
func (r *Remote) config() (*tls.Config, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ca.Client(ca.ClientConfig{Certificate: r.Certificate, Key: r.key.Certificate(), Authorities: r.Authorities})
}

// dial connects to the daemon and returns when both ends have shown who they are.
func (r *Remote) dial(ctx context.Context) (net.Conn, error) {
	conf, _, err := r.config()
	if err != nil {
		return nil, err
	}
	raw, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", r.Address)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, palyra.Errorf(palyra.Unavailable, ReasonNoDaemon, "no daemon answers at %s", r.Address).
			WithRemedy("see whether it runs there and can be reached; 'palyra device remotes' shows what is known here").WithCause(err)
	}
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, ca.Explain(err)
	}
	return conn, nil
}

const dialTime = 10 * time.Second

// host is the daemon's name in requests.
func (r *Remote) host() string {
	_, name, err := r.config()
	if err != nil {
		return "daemon.palyra.internal" // dialling says what is wrong
	}
	return name
}

// keep stores what belongs to the remote, whole or not at all.
func (r *Remote) keep(dir string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("client: remote: %w", err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate})
	if err := durable.WriteFile(filepath.Join(dir, remoteCert), cert, 0o600); err != nil {
		return fmt.Errorf("client: remote: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, remoteFile), append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("client: remote: %w", err)
	}
	return nil
}

// JoinRequest says with whom to pair, and as what.
type JoinRequest struct {
	Dir      string // where remotes are kept
	Name     string // of the daemon, here; empty: the host of its address
	Device   string // of this machine, there
	Address  string // host:port
	PIN      func() (palyra.Secret, error)
	Code     string // what the QR code says; then neither Address nor PIN is needed
	Progress func(state palyra.PairingState, text string)
	Prepared func(fingerprint string) // told the fingerprint of this machine's key, which the other side shows
}

// Join pairs this machine with a daemon elsewhere. The key is made here and stays
// here. When it returns nil everything is on disk, and the daemon knows that.
func Join(ctx context.Context, q JoinRequest) (*Remote, error) {
	if err := pairing.CheckName(q.Name); err != nil {
		return nil, err
	}
	own := filepath.Join(q.Dir, q.Name)
	if _, err := os.Lstat(own); err == nil {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "a daemon called %s is known here already", q.Name).
			WithRemedy("give another name with --as, or remove %s", own)
	}
	if err := os.MkdirAll(q.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("client: join: %w", err)
	}
	making, err := os.MkdirTemp(q.Dir, ".joining-")
	if err != nil {
		return nil, fmt.Errorf("client: join: %w", err)
	}
	r, err := join(ctx, q, making, own)
	if err != nil {
		_ = os.RemoveAll(making) // nothing relies on it
		return nil, err
	}
	return r, nil
}

func join(ctx context.Context, q JoinRequest, making, own string) (*Remote, error) {
	key, err := identity.Create(filepath.Join(making, remoteKey))
	if err != nil {
		return nil, err
	}
	if pub, ok := key.Certificate().Public().(ed25519.PublicKey); ok && q.Prepared != nil {
		q.Prepared(pairing.Fingerprint(pub))
	}
	r := &Remote{Name: q.Name, dir: own, key: key}
	_, err = pairing.Join(ctx, pairing.JoinConfig{
		Address: q.Address, PIN: q.PIN, Code: q.Code, Name: q.Device, Key: key.Certificate(), Progress: q.Progress, Now: time.Now,
		Dial: (&net.Dialer{Timeout: dialTime}).DialContext,
		Keep: func(j pairing.Joined) error {
			r.Address, r.StateID, r.Device, r.Certificate, r.Authorities = j.Address, j.StateID, j.Device, j.Certificate, j.Authorities
			if err := r.keep(making); err != nil {
				return err
			}
			if err := os.Rename(making, own); err != nil {
				return fmt.Errorf("client: join: %w", err)
			}
			return durable.SyncDir(q.Dir)
		},
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Renew has the daemon make this device's next certificate, and stores it.
func (c *Client) Renew(ctx context.Context) (palyra.Device, error) {
	r := c.cfg.Remote
	if r == nil {
		return palyra.Device{}, palyra.Errorf(palyra.Invalid, palyra.ReasonDeviceRequired, "only a device renews its certificate").
			WithRemedy("name the daemon: palyra device renew NAME")
	}
	res, err := c.devices.RenewDevice(ctx, &v1.RenewDeviceRequest{})
	d, err := word[palyra.Device](res.GetDevice(), err)
	if err != nil {
		return palyra.Device{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := *r.copy()
	r.Device, r.Certificate, r.Authorities = d, res.GetCertificate(), res.GetAuthorities()
	if _, _, err := ca.Client(ca.ClientConfig{Certificate: r.Certificate, Key: r.key.Certificate(), Authorities: r.Authorities}); err != nil {
		r.Device, r.Certificate, r.Authorities = old.Device, old.Certificate, old.Authorities
		return palyra.Device{}, err // what cannot be used is not kept
	}
	return d, r.keep(r.dir)
}

// copy is what of r is stored.
func (r *Remote) copy() *Remote {
	return &Remote{Device: r.Device, Certificate: r.Certificate, Authorities: r.Authorities}
}
