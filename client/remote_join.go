package client

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/identity"
	"palyra/internal/pairing"
)

// JoinRequest says with whom to pair, and as what.
type JoinRequest struct {
	Dir      string // where remotes are kept
	Name     string // of the daemon, here; empty: the host of its address
	Device   string // of this machine, there
	Address  string // host:port
	PIN      func() (palyra.Secret, error)
	Code     string // text of the QR code; then neither Address nor PIN is needed
	Progress func(state palyra.PairingState, text string)
	Prepared func(fingerprint string) // called with the fingerprint of this machine's key, which the other side shows
	// Wrong is called when a PIN was wrong, with the number of tries left. If it is nil the first
	// wrong PIN ends the pairing.
	Wrong func(err error, left int)
}

// joinTries is how many PINs a person may type for one key. The daemon counts by itself.
const joinTries = 3

const (
	joining  = ".joining-" // begins the name of an unfinished remote
	joinLock = ".lock"
)

// Join pairs this machine with a daemon elsewhere. The key is made here and stays here. When Join
// returns nil everything is on disk, and the daemon knows that; otherwise nothing is left behind.
// The remains of a crash are removed by the next Join; only one runs at a time.
func Join(ctx context.Context, q JoinRequest) (*Remote, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(q.Dir, 0o700); err != nil {
		return nil, unreadable(q.Dir, err)
	}
	if err := private(q.Dir, true); err != nil {
		return nil, err
	}
	lock, err := durable.Lock(filepath.Join(q.Dir, joinLock))
	if locked := (*durable.LockedError)(nil); errors.As(err, &locked) {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonPairingBusy, "this machine is being paired by process %d", locked.PID).
			WithRemedy("wait until it has ended, or end it").WithCause(err)
	}
	if err != nil {
		return nil, unreadable(q.Dir, err)
	}
	defer func() { _ = lock.Release() }()
	own := filepath.Join(q.Dir, q.Name)
	if _, err := os.Lstat(own); !errors.Is(err, fs.ErrNotExist) {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "a daemon called %s is known here already", q.Name).
			WithRemedy("give another name with --as; or, if it is no longer used, have the device revoked there and forget it here: palyra "+
				"device forget %s", q.Name)
	}
	sweep(q.Dir)
	making, err := os.MkdirTemp(q.Dir, joining)
	if err != nil {
		return nil, unreadable(q.Dir, err)
	}
	r, err := q.join(ctx, making, own)
	if err != nil {
		_ = os.RemoveAll(making) // nothing relies on it
		return nil, err
	}
	return r, nil
}

// sweep removes the remains of joins that were cut off. The caller holds the lock, so none of them is in use.
func sweep(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), joining) {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // the next one tries again
		}
	}
}

// check validates a request before anything is made for it, and fills in the name.
func (q *JoinRequest) check() error {
	address := q.Address
	if q.Code != "" {
		code, err := pairing.ParseCode(q.Code)
		if err != nil {
			return err
		}
		code.Token.Destroy()
		if address == "" {
			address = code.Addresses[0]
		}
	}
	if err := pairing.CheckAddress(address); err != nil {
		return err
	}
	if q.Name == "" {
		host, _, _ := net.SplitHostPort(address) // it was just checked
		q.Name = PlainName(host)
	}
	if err := pairing.CheckName(q.Name); err != nil {
		return err
	}
	return pairing.CheckName(q.Device)
}

// join makes the key, pairs, and puts everything in place.
func (q JoinRequest) join(ctx context.Context, making, own string) (*Remote, error) {
	dial := (&net.Dialer{Timeout: dialTime}).DialContext
	if q.Code == "" { // before anybody is asked for a PIN
		if err := pairing.Reach(ctx, dial, q.Address); err != nil {
			return nil, endOf(ctx, err)
		}
	}
	key, err := identity.Create(filepath.Join(making, remoteKey))
	if err != nil {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "no key could be made in %s", q.Dir).WithCause(err)
	}
	if pub, ok := key.Certificate().Public().(ed25519.PublicKey); ok && q.Prepared != nil {
		q.Prepared(pairing.Fingerprint(pub))
	}
	r := &Remote{Name: q.Name, dir: own, key: key}
	conf := pairing.JoinConfig{
		Address: q.Address, PIN: q.PIN, Code: q.Code, Name: q.Device, Key: key.Certificate(), Progress: q.Progress, Now: time.Now,
		Dial: dial,
		Keep: func(j pairing.Joined) error { return r.settle(j, making) },
	}
	for left := joinTries - 1; ; left-- {
		_, err := pairing.Join(ctx, conf)
		if err == nil {
			return r, nil
		}
		if ctx.Err() != nil || palyra.AsError(err).Reason != palyra.ReasonPairingWrongCode || q.Code != "" || q.Wrong == nil || left == 0 {
			return nil, endOf(ctx, err)
		}
		q.Wrong(err, left)
	}
}

// endOf is the error of a pairing that failed, or that its caller gave up.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	return palyra.AsError(err)
}

// settle stores the results of the pairing under the remote's name: from then on the remote exists, complete.
func (r *Remote) settle(j pairing.Joined, making string) error {
	r.Address, r.StateID, r.Device, r.Certificate, r.Authorities = j.Address, j.StateID, j.Device, j.Certificate, j.Authorities
	if err := r.keep(making); err != nil {
		return err
	}
	if err := os.Rename(making, r.dir); err != nil {
		return unreadable(r.dir, err)
	}
	if err := durable.SyncDir(filepath.Dir(r.dir)); err != nil {
		_ = os.RemoveAll(r.dir) // the daemon is told that the pairing was not kept, so nothing may stay
		return unreadable(r.dir, err)
	}
	return nil
}

// PlainName makes a name for a machine out of its host name or address.
func PlainName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '-'
	}, strings.ToLower(s))
	const odd, most = "-._", 40
	for s = strings.Trim(s, odd); strings.HasPrefix(s, "dev-"); { // the ids of devices begin like that
		s = strings.Trim(strings.TrimPrefix(s, "dev-"), odd)
	}
	if s = strings.Trim(s[:min(len(s), most)], odd); s == "" {
		return "device"
	}
	return s
}
