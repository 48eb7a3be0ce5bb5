package ca

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"palyra"
)

const (
	// Protocol is the ALPN name of what devices speak with their certificate.
	Protocol = "h2"

	serverLife = 7 * 24 * time.Hour
)

// ServerConfig says who may come in.
type ServerConfig struct {
	// Device reports, with nil, that a live device has this key and was given this certificate. Nobody has proved to
	// hold the key yet when it is asked: it must change nothing. Without it no device comes in.
	Device func(ctx context.Context, keyID string, leaf *x509.Certificate) error
	// PairProtocol is the ALPN name under which a machine that is no device yet
	// may come with a certificate that it made itself; empty: none.
	PairProtocol string
}

// served is a server leaf and when the next one is made.
type served struct {
	id    string
	cert  *tls.Certificate
	renew time.Time
}

// Server returns the configuration of a listener. The protocol that the client
// offers decides what it must show; the name it asks for decides which authority
// answers, so that a device that knows an older one only can come and renew.
func (a *Authority) Server(cfg ServerConfig) *tls.Config {
	base := a.base()
	base.NextProtos = []string{Protocol}
	if cfg.PairProtocol != "" {
		base.NextProtos = append(base.NextProtos, cfg.PairProtocol)
	}
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return a.answer(hello, cfg) }
	// The configuration of the answer stands for this one; should it ever not, nobody comes in.
	base.VerifyConnection = func(tls.ConnectionState) error { return refused("the connection chose no protocol") }
	return base
}

// base has what holds for every connection.
func (a *Authority) base() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, Time: a.cfg.Now,
		ClientAuth: tls.RequireAnyClientCert, // what is in it is our check, by the configuration's VerifyConnection
	}
}

func (a *Authority) answer(hello *tls.ClientHelloInfo, cfg ServerConfig) (*tls.Config, error) {
	if !slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
		return nil, refused("the client does not speak TLS 1.3")
	}
	device := slices.Contains(hello.SupportedProtos, Protocol)
	pair := cfg.PairProtocol != "" && slices.Contains(hello.SupportedProtos, cfg.PairProtocol)
	if device == pair {
		return nil, refused("the client must offer one protocol of ours (ALPN), not none and not several")
	}
	cert, err := a.serverCert(hello.ServerName, pair)
	if err != nil {
		return nil, err
	}
	conf, ctx := a.base(), hello.Context()
	conf.Certificates = []tls.Certificate{*cert}
	if pair {
		conf.NextProtos, conf.VerifyConnection = []string{cfg.PairProtocol}, checkNewcomer
		return conf, nil
	}
	conf.NextProtos = []string{Protocol}
	conf.VerifyConnection = func(s tls.ConnectionState) error { return a.checkDevice(ctx, s, cfg.Device) }
	return conf, nil
}

// ServerLeaf returns the certificate, in DER, with which a connection that asked for name is answered: the state's
// ServerName of a connection of ours. A newcomer that names nobody gets the current authority's.
func (a *Authority) ServerLeaf(name string) ([]byte, error) {
	cert, err := a.serverCert(name, true)
	if err != nil {
		return nil, err
	}
	return slices.Clone(cert.Leaf.Raw), nil
}

// serverCert finds the leaf for a name. A newcomer does not know our name yet.
func (a *Authority) serverCert(name string, newcomer bool) (*tls.Certificate, error) {
	if err := a.Ready(); err != nil {
		return nil, err
	}
	name = strings.ToLower(name)
	for range mostIssuers { // a rotation may come between; more than one hardly
		serving := a.serving()
		n := slices.IndexFunc(serving, func(i *issuer) bool { return i.serverName() == name })
		switch {
		case n > 0:
			return serving[n].last, nil
		case n < 0 && !newcomer:
			return nil, refused("the client asks for a daemon or an authority that is not served here").
				WithRemedy("pair the device again")
		}
		if cert, err := a.fresh(serving[0].id); cert != nil || err != nil {
			return cert, err
		}
	}
	return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal, "the device authority is just being replaced").WithRemedy("try again")
}

// fresh returns the current authority's server leaf, made anew when a third of
// its life is left or the clock was set back; nil when the authority is not the current one any more.
func (a *Authority) fresh(id string) (*tls.Certificate, error) {
	a.leafMu.Lock()
	defer a.leafMu.Unlock()
	now := a.cfg.Now()
	if l := a.leaf; l != nil && l.id == id && now.Before(l.renew) && now.After(l.cert.Leaf.NotBefore) {
		return l.cert, nil
	}
	a.signing.RLock()
	defer a.signing.RUnlock()
	i := a.current()
	if i.id != id {
		return nil, nil
	}
	cert, err := i.server(now, serverLife)
	if err != nil {
		return nil, err
	}
	life := cert.Leaf.NotAfter.Sub(now)
	a.leaf = &served{id: id, cert: cert, renew: now.Add(life * 2 / 3)}
	return cert, nil
}
