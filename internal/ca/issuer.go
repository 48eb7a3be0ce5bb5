package ca

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"time"

	"palyra"
)

const (
	zoneSuffix = ".palyra.internal"
	daemonName = "daemon."
	devicePart = "dev-"
	idDigits   = 16

	// backdate is how far a device's clock may be behind ours.
	backdate     = 10 * time.Minute
	issuerLife   = 10 * 365 * 24 * time.Hour
	maxCert      = 4096
	serialBytes  = 16
	deviceDigits = 32
)

// issuer is an authority: the current one has its key, a retired one the server leaf it made last.
type issuer struct {
	id   string
	cert *x509.Certificate
	from *Rotation // how it came to its place; nil for the first

	key *signer

	retired time.Time
	until   time.Time // nothing it signed holds longer
	last    *tls.Certificate
}

func newIssuer(now time.Time) (*issuer, error) {
	key, err := newSigner()
	if err != nil {
		return nil, err
	}
	id := idOf(key.pub)
	zone := id + zoneSuffix
	i := &issuer{id: id, key: key}
	i.cert = &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Palyra CA " + id},
		KeyUsage:              x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, IsCA: true, MaxPathLen: 0, MaxPathLenZero: true,
		// Who installs this certificate somewhere trusts it for our names only: no
		// address, and mail and links at most within the zone.
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         []string{zone},
		PermittedEmailAddresses:     []string{zone},
		PermittedURIDomains:         []string{zone},
		ExcludedIPRanges: []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
			{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
		},
	}
	i.cert, err = i.sign(i.cert, key.pub, now, issuerLife)
	return i, err
}

// public returns the authority's key as others may see it.
func (i *issuer) public() palyra.Key {
	pub, _ := i.cert.PublicKey.(ed25519.PublicKey)
	return palyra.Key{
		ID: i.id, Use: Use, PublicKey: base64.StdEncoding.EncodeToString(pub),
		CreatedAt: i.cert.NotBefore.Add(backdate).UTC(), RetiredAt: i.retired,
	}
}

func (i *issuer) zone() string       { return i.id + zoneSuffix }
func (i *issuer) serverName() string { return daemonName + i.zone() }

// sign makes a certificate for a key, good from a little ago for the given time
// but never longer than the authority itself.
func (i *issuer) sign(template *x509.Certificate, pub ed25519.PublicKey, now time.Time, life time.Duration) (*x509.Certificate, error) {
	if i.key == nil {
		return nil, fmt.Errorf("ca: sign: authority %s is retired", i.id)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now = now.UTC().Truncate(time.Second)
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, now.Add(-backdate), now.Add(life)
	if template.NotAfter.After(i.cert.NotAfter) && template != i.cert {
		template.NotAfter = i.cert.NotAfter
	}
	if !now.Before(template.NotAfter) {
		return nil, palyra.Errorf(palyra.Expired, palyra.ReasonBadCertificate, "the device authority %s expired on %s", i.id,
			i.cert.NotAfter.Format(time.DateOnly)).
			WithRemedy("check the clock; rotate the ca key")
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, pub, i.key)
	if err != nil {
		return nil, fmt.Errorf("ca: sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("ca: sign: %w", err)
	}
	return cert, nil
}

// server makes a server leaf with a key of its own.
func (i *issuer) server(now time.Time, life time.Duration) (*tls.Certificate, error) {
	key, err := newSigner()
	if err != nil {
		return nil, err
	}
	cert, err := i.sign(leafTemplate(i.serverName(), x509.ExtKeyUsageServerAuth), key.pub, now, life)
	if err != nil {
		return nil, err
	}
	return i.chain(cert, key), nil
}

// chain is what the server sends: also the authority, which a device that pairs does not have yet.
func (i *issuer) chain(leaf *x509.Certificate, key *signer) *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw, i.cert.Raw}, PrivateKey: key, Leaf: leaf}
}

func deviceTemplate(device, id string) *x509.Certificate {
	return leafTemplate(device+"."+id+zoneSuffix, x509.ExtKeyUsageClientAuth)
}

func leafTemplate(name string, usage x509.ExtKeyUsage) *x509.Certificate {
	label, _, _ := strings.Cut(name, ".")
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: label},
		DNSNames:              []string{name},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{usage},
		BasicConstraintsValid: true,
	}
}

// parseIssuer accepts nothing but a certificate as newIssuer makes it.
func parseIssuer(der []byte) (*issuer, error) {
	bad := refused("that is not the certificate of a device authority")
	if len(der) > maxCert {
		return nil, bad
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, bad
	}
	pub, ok := c.PublicKey.(ed25519.PublicKey)
	if !ok || c.SignatureAlgorithm != x509.PureEd25519 || !c.BasicConstraintsValid || !c.IsCA || c.MaxPathLen != 0 || !c.MaxPathLenZero {
		return nil, bad
	}
	i := &issuer{id: idOf(pub), cert: c}
	if c.KeyUsage != x509.KeyUsageCertSign || !c.PermittedDNSDomainsCritical || len(c.PermittedDNSDomains) != 1 ||
		c.PermittedDNSDomains[0] != i.zone() {
		return nil, bad
	}
	if c.CheckSignatureFrom(c) != nil {
		return nil, bad
	}
	return i, nil
}

// idOf is the beginning of the digest of a public key in its SPKI form.
func idOf(pub ed25519.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "" // no Ed25519 key fails to encode; no id fits nothing
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])[:idDigits]
}

func newSerial() (*big.Int, error) {
	b := make([]byte, serialBytes)
	for {
		if _, err := rand.Read(b); err != nil {
			return nil, fmt.Errorf("ca: serial: %w", err)
		}
		if n := new(big.Int).SetBytes(b); n.Sign() > 0 {
			return n, nil
		}
	}
}

// SerialOf returns a certificate's serial number as it stands in records: hex digits, at least 32.
func SerialOf(c *x509.Certificate) string { return fmt.Sprintf("%0*x", 2*serialBytes, c.SerialNumber) }

func validDevice(id string) bool {
	digits, ok := strings.CutPrefix(id, devicePart)
	return ok && len(digits) == deviceDigits && isHex(digits)
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// signer is a private key that does not print.
type signer struct {
	pub  ed25519.PublicKey
	seed palyra.Secret
}

func newSigner() (*signer, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return nil, fmt.Errorf("ca: key: %w", err)
	}
	return signerOf(seed), nil
}

// signerOf takes over a seed of the right length.
func signerOf(seed []byte) *signer {
	key := ed25519.NewKeyFromSeed(seed)
	defer clear(key)
	pub, _ := key.Public().(ed25519.PublicKey)
	return &signer{pub: pub, seed: palyra.NewSecret(seed)}
}

// Public implements crypto.Signer.
func (s *signer) Public() crypto.PublicKey { return s.pub }

// Sign implements crypto.Signer.
func (s *signer) Sign(_ io.Reader, msg []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts != nil && opts.HashFunc() != 0 {
		return nil, errors.New("ca: sign: the message itself is signed, not a digest")
	}
	var sig []byte
	err := s.seed.Use(func(seed []byte) error {
		if len(seed) != ed25519.SeedSize {
			return errors.New("ca: sign: the key is gone")
		}
		key := ed25519.NewKeyFromSeed(seed)
		defer clear(key)
		sig = ed25519.Sign(key, msg)
		return nil
	})
	return sig, err
}
