// Package pairing makes another machine a device of this daemon: a person shows a
// code here and types or scans it there.
//
// Words: an offer is a code that is shown, a PIN and a QR text for the same thing;
// the Office holds at most one. A try is a device's attempt to prove that it knows
// the code; a candidate is a device that did. Join is the device's side.
//
// The path: the device connects by TLS with a certificate it made for its own key, proves the code (CPace for the
// PIN, an HMAC with the scanned token, both bound to this very connection and to both certificates), and learns
// whom to trust from now on. Only then a person is asked, through the gate; the certificate is issued behind that;
// the device stores everything and says so.
//
// Promises: whoever sits in the middle or sees the bytes gets one guess at a PIN for each try that the daemon
// counts, and at most Tries for each code; nothing recorded can be replayed, since every proof covers the
// connection; a code ends by success, by too many tries, by time or by withdrawal, whichever comes first.
// Everything that comes in has a limit in size, number and time.
//
// It keeps nothing: the registry, the authority, the gate and the device's store are the caller's.
//
// Its words are those of docs/words.md.
package pairing

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"time"

	"palyra"
)

const (
	// Protocol is the application protocol of a pairing connection.
	Protocol = "palyra-pair/1"
	// Life is how long a code is good.
	Life = 120 * time.Second
	// Tries is how often a code may be tried.
	Tries = 5

	patience    = 10 * time.Second // for each message
	askMost     = time.Hour        // for the person's answer, whatever the gate says
	connections = 8                // at once
	refusals    = 32               // being told that there are too many, at once
)

// Candidate is a device that proved the code, as a person is asked about it.
type Candidate struct {
	Pairing     palyra.ID
	Name        string // as the device says
	KeyID       string
	PublicKey   string // base64: an Ed25519 key, or a passkey's in PKIX
	Address     string
	Fingerprint string // of the key, for people
	Principal   palyra.Principal
	Role        palyra.Role
	By          palyra.Principal
	Browser     bool // it comes by the console, and gets no certificate
	Passkey     *palyra.Passkey
}

// Issued is what a device gets in the end.
type Issued struct {
	Device      palyra.Device
	Certificate []byte   // DER
	Authorities [][]byte // DER, the newest first
}

// Limiter slows those down who try again and again. Its Try is asked before each
// connection is served; done says what came of it.
type Limiter interface {
	Try(address string) (done func(ok bool), after time.Duration, ok bool)
}

// Config wires an Office. All fields are needed.
type Config struct {
	StateID     string
	Authorities func() [][]byte // DER, the newest first
	// Leaf returns the certificate, DER, that a client asking for serverName is shown. It is bound into every proof.
	Leaf func(serverName string) ([]byte, error)
	// Ask walks the gate and calls asked when a person is asked. An error is a
	// no; when ctx ends it must return, and what it returns then still counts.
	Ask       func(ctx context.Context, c Candidate, asked func(approval palyra.ApprovalID)) (Issued, error)
	Record    func(ctx context.Context, events ...palyra.Event) error
	Addresses func() []string // host:port, where a device may come; asked while the Office is open
	Limit     Limiter
	NewID     func() palyra.ID
	Now       func() time.Time
	Log       *slog.Logger
}

// Office offers codes and serves the devices that come with them.
type Office struct {
	c        Config
	life     time.Duration
	patience time.Duration
	slots    chan struct{}
	turned   chan struct{}

	mu        sync.Mutex // guards what follows; nothing is called while it is held
	current   *offer
	shown     bool // current is recorded and may be tried
	last      palyra.PairingState
	listeners []func()
	failures  map[palyra.Reason]*failure
}

// New makes an Office without an offer.
func New(c Config) (*Office, error) {
	if c.StateID == "" || c.Authorities == nil || c.Leaf == nil || c.Ask == nil || c.Record == nil ||
		c.Addresses == nil || c.Limit == nil || c.NewID == nil || c.Now == nil || c.Log == nil {
		return nil, palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "pairing: new: the configuration is incomplete")
	}
	return &Office{
		c: c, life: Life, patience: patience, slots: make(chan struct{}, connections), turned: make(chan struct{}, refusals),
		failures: map[palyra.Reason]*failure{},
	}, nil
}

// Open reports whether another machine may need to reach the Office: a code is shown for one, or
// the device that used it is being decided about.
func (o *Office) Open() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current != nil && o.shown && !o.current.what.Browser
}

// OnChange has f called, outside any lock, whenever Open may have changed.
func (o *Office) OnChange(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listeners = append(o.listeners, f)
}

func (o *Office) changed() {
	o.mu.Lock()
	fs := append([]func(){}, o.listeners...)
	o.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// live returns the offer that a machine, or a browser, may try, or why there is none.
func (o *Office) live(browser bool) (*offer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current != nil && o.shown && o.current.what.Browser == browser {
		return o.current, nil
	}
	if o.last == palyra.PairingLocked {
		return nil, problem(palyra.ReasonPairingLocked)
	}
	return nil, problem(palyra.ReasonPairingExpired)
}

// KeyID names a public key as signatures do.
func KeyID(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	return "op-" + hex.EncodeToString(sum[:16])
}

// deviceID names a device by its key.
func deviceID(pub ed25519.PublicKey) string { return "dev-" + strings.TrimPrefix(KeyID(pub), "op-") }

// publicText is a public key as devices and signatures hold it.
func publicText(pub ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(pub) }

// Fingerprint is a key for people to compare: 128 bits in groups of four.
func Fingerprint(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	text := strings.ToUpper(hex.EncodeToString(sum[:16]))
	var groups []string
	for ; text != ""; text = text[4:] {
		groups = append(groups, text[:4])
	}
	return strings.Join(groups, " ")
}

// MaxName is the longest name of a device, in bytes.
const MaxName = 64

// CheckName returns an error unless name may be a device's: small letters, digits
// and ._- of ASCII, beginning with a letter or digit, as the registry takes them.
// It is shown to the person who
// decides, so nothing in it may look like something else, nor like a device's id.
func CheckName(name string) error {
	odd := func(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune("._-", r) || r >= 'A' && r <= 'Z' }
	if name == "" || len(name) > MaxName || strings.ContainsFunc(name, odd) || !alphanumeric(rune(name[0])) ||
		strings.HasPrefix(name, "dev-") {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput,
			"a device's name is 1 to %d small letters, digits, dots, dashes and underscores", MaxName).
			WithRemedy("choose a name such as laptop-2")
	}
	return nil
}

func alphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
