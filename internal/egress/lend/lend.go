// Package lend puts the values of lent secrets into requests on their way out of a room.
//
// Words: a loan is a secret that was lent to one run. The run's programs have a placeholder; its value goes in here, in
// the one place of a request that the binding names, at the one host, and nowhere else. To do that the TLS of bound
// hosts is opened by an authority that only this run trusts, and that can vouch for no other host. The server is
// verified as any client would.
//
// Promises: a program never gets a value, also not where a server sends it back: it is masked in heads and bodies. A
// placeholder in any other place stays one, and is told. A value that does not fit its place refuses the request. What
// programs signed with placeholder keys of AWS is signed again with the true ones (package sigv4), which go into nothing.
//
// What it does not do: what is inside of other encodings (compressed by a server that was asked not to) is refused, not
// searched; HTTP only.
package lend

import (
	"bytes"
	"crypto/subtle"
	"crypto/x509"
	"net"
	"slices"
	"sync"
	"time"

	"palyra/internal/egress/sigv4"
	"palyra/secrets"
)

// Desk has what was lent to one run.
type Desk struct {
	loans []secrets.Loan
	keys  []awsKey // their parts are among the loans
	vouch *authority
	roots *x509.CertPool // of servers; nil: the system's

	bundle  string        // path of the room's authorities
	places  chan struct{} // one for each request on its way
	reading chan struct{} // one for each body that is read to be signed

	veiled sync.Once
	masks  masks // of Direct
}

// New returns the desk of a run. It takes the loans over.
func New(loans []secrets.Loan, now time.Time) (*Desk, error) {
	var hosts []string
	for _, l := range loans {
		for _, at := range l.Hosts {
			host, _, err := net.SplitHostPort(at)
			if err != nil {
				return nil, err
			}
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	vouch, err := newAuthority(slices.Compact(hosts), now)
	if err != nil {
		return nil, err
	}
	d := &Desk{vouch: vouch, places: make(chan struct{}, maxAtOnce), reading: sigv4.Room()}
	return d, d.take(loans)
}

// Trust replaces the authorities that servers are verified by.
func (d *Desk) Trust(roots *x509.CertPool) { d.roots = roots }

// Certificate is that of the run's authority, as PEM.
func (d *Desk) Certificate() []byte { return bytes.Clone(d.vouch.text) }

// Opens reports whether a secret is bound to a host, "host:port".
func (d *Desk) Opens(at string) bool { return d != nil && len(d.at(at)) > 0 }

// at returns the loans for a host.
func (d *Desk) at(at string) (here []secrets.Loan) {
	for _, l := range d.loans {
		if slices.Contains(l.Hosts, at) {
			here = append(here, l)
		}
	}
	return here
}

// Stand returns the placeholder of a value; a placeholder stands for itself. A short value has none here: all that it can
// be would be tried out.
func (d *Desk) Stand(value []byte) (placeholder string, ok bool) {
	if d == nil {
		return "", false
	}
	for _, l := range d.loans {
		if string(value) == l.Placeholder {
			return l.Placeholder, true
		}
		_ = l.Value.Use(func(b []byte) error {
			ok = len(b) >= secrets.MinMasked && subtle.ConstantTimeCompare(b, value) == 1
			return nil
		})
		if ok {
			return l.Placeholder, true
		}
	}
	return "", false
}

// Close forgets the values.
func (d *Desk) Close() {
	if d != nil {
		d.masks.clear()
		for _, l := range d.loans {
			l.Value.Destroy()
		}
	}
}

// Use is what became of the placeholders in a request: by the names of their bindings.
type Use struct{ Used, Stray []string }

func (u *Use) used(name string)  { u.Used = with(u.Used, name) }
func (u *Use) stray(name string) { u.Stray = with(u.Stray, name) }

func with(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}
