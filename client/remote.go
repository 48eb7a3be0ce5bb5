package client

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/identity"
	"palyra/internal/pairing"
)

// Remote is a daemon on another machine that this one is paired with. It is kept in a directory of
// its own: who the daemon is, this device's key and its certificate. Renewal changes the exported
// fields, so a concurrent reader takes a Copy.
type Remote struct {
	Name        string        `json:"name"` // of the daemon on this machine
	Address     string        `json:"address"`
	StateID     string        `json:"state_id"` // of the daemon
	Device      palyra.Device `json:"device"`   // this machine, as the daemon knows it
	Certificate []byte        `json:"certificate"`
	Authorities [][]byte      `json:"authorities"`

	dir string
	key *identity.Signer

	mu sync.Mutex // guards the device, the certificate and the authorities once the remote is used
}

// The files of a remote. The record is written last: without it the remote does not exist.
const (
	remoteFile = "remote.json"
	remoteKey  = "device.key"
	remoteCert = "device.crt" // a copy for people and their tools

	maxRemoteFile = 256 << 10
)

// Remotes lists the daemons that this machine is paired with. One that cannot be read does not hide
// the others, which are returned beside the error.
func Remotes(dir string) ([]*Remote, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(dir, err)
	}
	var all []*Remote
	var bad []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // unfinished, or still being made
		}
		r, err := LoadRemote(dir, e.Name())
		if err != nil {
			bad = append(bad, err)
			continue
		}
		all = append(all, r)
	}
	return all, worst(bad)
}

// worst returns the first of several errors and names the others.
func worst(list []error) error {
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	e := palyra.AsError(list[0])
	return palyra.Errorf(e.Code, e.Reason, "%s (and %d more)", e.Text, len(list)-1).WithRemedy("%s", e.Remedy).WithCause(errors.Join(list...))
}

// LoadRemote opens a remote by its name. It refuses files that another user could have read or put there.
func LoadRemote(dir, name string) (*Remote, error) {
	if err := pairing.CheckName(name); err != nil {
		return nil, noRemote(name)
	}
	own := filepath.Join(dir, name)
	if err := private(own, true); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noRemote(name)
		}
		return nil, err
	}
	raw, err := readPrivate(filepath.Join(own, remoteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damagedRemote(own, "its record is missing")
	}
	if err != nil {
		return nil, err
	}
	r := &Remote{dir: own}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, damagedRemote(own, "its record is not JSON").WithCause(err)
	}
	if r.Name != name || r.StateID == "" || len(r.Authorities) == 0 || pairing.CheckAddress(r.Address) != nil {
		return nil, damagedRemote(own, "its record is not whole")
	}
	if err := r.loadKey(); err != nil {
		return nil, err
	}
	return r, nil
}

// loadKey opens the device's key, which must be that of the certificate. It does not check that the certificate is
// still valid: the connection does, and a remote whose certificate has ended can still be loaded.
func (r *Remote) loadKey() error {
	path := filepath.Join(r.dir, remoteKey)
	if err := private(path, false); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return damagedRemote(r.dir, "its key is missing")
		}
		return err
	}
	key, err := identity.Load(path, nil)
	if err != nil {
		return damagedRemote(r.dir, "its key cannot be used").WithCause(err)
	}
	leaf, err := x509.ParseCertificate(r.Certificate)
	if err != nil {
		return damagedRemote(r.dir, "its certificate does not parse").WithCause(err)
	}
	pub, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok || base64.StdEncoding.EncodeToString(pub) != key.Public() || r.Device.KeyID != key.KeyID() ||
		key.Separation() != palyra.SeparationNone {
		return damagedRemote(r.dir, "its key is not that of its certificate")
	}
	r.key = key
	return nil
}

func noRemote(name string) *palyra.Error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "this machine is not paired with a daemon called %q", palyra.Clip(name, 64)).
		WithRemedy("see 'palyra device remotes'; pair with 'palyra device join'")
}

func damagedRemote(own, why string) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "the stored pairing with the daemon %s is damaged: %s", filepath.Base(own), why).
		WithRemedy("have the device revoked there, forget it here (palyra device forget %s) and pair again: palyra device join",
			filepath.Base(own))
}

func unreadable(path string, err error) *palyra.Error {
	text := err.Error()
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		text = p.Err.Error()
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "%s cannot be used: %s", path, text).WithCause(err)
}

// private refuses a path that another user could have read or changed, and one of the wrong kind.
// fs.ErrNotExist stays visible in the error.
func private(path string, dir bool) error {
	err := durable.CheckPrivate(path)
	if unsafe := (*durable.UnsafeError)(nil); errors.As(err, &unsafe) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s: %s", unsafe.Path, unsafe.Why).
			WithRemedy("%s, after making sure that nobody read or changed it", unsafe.Fix).WithCause(err)
	}
	if err != nil {
		return unreadable(path, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return unreadable(path, err)
	}
	if info.IsDir() != dir {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "%s does not hold a pairing with a daemon", path).WithRemedy("remove it")
	}
	return nil
}

// readPrivate reads a small file of a private directory.
func readPrivate(path string) ([]byte, error) {
	if err := private(path, false); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxRemoteFile+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(raw) > maxRemoteFile {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "%s is larger than %d bytes", path, maxRemoteFile).
			WithRemedy("remove its directory and pair again: palyra device join")
	}
	return raw, nil
}

// Signer returns the device's key, which signs the decisions made here.
func (r *Remote) Signer() Signer { return r.key }

// Separation says how far the key is out of an agent's reach there.
func (r *Remote) Separation() palyra.Separation { return palyra.SeparationDevice }

// Copy returns the present state of the remote, to read only; it cannot connect.
func (r *Remote) Copy() *Remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Remote{
		Name: r.Name, Address: r.Address, StateID: r.StateID, Device: r.Device, Certificate: r.Certificate,
		Authorities: r.Authorities,
	}
}

// Expires returns when the certificate ends, and when it is due for renewal: after two thirds of
// its life. Both come from the certificate itself, whatever the record says.
func (r *Remote) Expires() (ends, due time.Time) {
	r.mu.Lock()
	der := r.Certificate
	r.mu.Unlock()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return time.Time{}, time.Time{} // an unreadable certificate counts as ended
	}
	return leaf.NotAfter, leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 3)
}

// keep stores the files of the remote, the record last.
func (r *Remote) keep(dir string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return unreadable(dir, err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate})
	for _, f := range []struct {
		name string
		data []byte
	}{{remoteCert, cert}, {remoteFile, append(raw, '\n')}} {
		if err := durable.WriteFile(filepath.Join(dir, f.name), f.data, 0o600); err != nil {
			return palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "%s could not be written in %s", f.name, dir).
				WithRemedy("see whether the disk is full or the directory can be written").WithCause(err)
		}
	}
	return nil
}
