package lend

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"time"
)

// lifetime is how long the certificates of a run hold; background processes live for days.
const lifetime = 31 * 24 * time.Hour

// authority vouches for the bound hosts to the programs of one run: it can for no other host, and its key ends with the run.
type authority struct {
	root *x509.Certificate
	key  *ecdsa.PrivateKey
	text []byte // PEM
	from time.Time

	mu     sync.Mutex // guards leaves; a leaf lock
	leaves map[string]*tls.Certificate
}

// newAuthority makes an authority for hosts, which are names or addresses.
func newAuthority(hosts []string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("lend: authority: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Palyra, for one run"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign, PermittedDNSDomainsCritical: true,
	}
	for _, h := range hosts {
		if a, err := netip.ParseAddr(h); err == nil {
			t.PermittedIPRanges = append(t.PermittedIPRanges, &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())})
		} else {
			t.PermittedDNSDomains = append(t.PermittedDNSDomains, h)
		}
	}
	if len(t.PermittedDNSDomains) == 0 { // nor one of names
		t.PermittedDNSDomains = []string{"none.invalid"}
	}
	if len(t.PermittedIPRanges) == 0 { // no word of addresses would permit all of them
		t.ExcludedIPRanges = []*net.IPNet{{IP: make(net.IP, 4), Mask: net.CIDRMask(0, 32)}, {IP: make(net.IP, 16), Mask: net.CIDRMask(0, 128)}}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("lend: authority: %w", err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("lend: authority: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &authority{root: root, key: key, text: text, from: t.NotBefore, leaves: map[string]*tls.Certificate{}}, nil
}

func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // it never fails
	return n
}

// certificate returns that of a host.
func (a *authority) certificate(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[host]; c != nil {
		return c, nil
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Palyra"}, NotBefore: a.from, NotAfter: a.from.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		t.IPAddresses = []net.IP{ip.AsSlice()}
	} else {
		t.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.root, a.key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("lend: certificate: %w", err)
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.root.Raw}, PrivateKey: a.key}
	a.leaves[host] = c
	return c, nil
}
