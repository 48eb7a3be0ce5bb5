// Package push tells browsers that are closed that a question waits, by the push services that the browsers' makers run. It is
// off until an operator names a contact (console.push), since it speaks to strangers' servers.
//
// A message says how many questions wait and how risky the worst of them is, encrypted for the browser; the service learns that
// there is one, when, and for whom. Nothing can be decided with it. A subscription belongs to a paired browser and ends with
// that. Endpoints come from outside: they lead to the services that the settings name, by the guard, and nowhere else. A service
// that is slow or dead slows no question: messages are sent beside, few of them however many questions come.
package push

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"palyra"
	"palyra/internal/approval"
	"palyra/internal/ca"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/store"
	"palyra/internal/webpush"
)

// Desk tells of questions.
type Desk interface {
	Watch(ctx context.Context, f palyra.ApprovalFilter, tell func(approval.Change) error) error
}

// Registry knows devices and what their people may.
type Registry interface {
	Devices(ctx context.Context) ([]palyra.Device, error)
	Cap(ctx context.Context, p palyra.Principal) (palyra.Role, []string, error)
	Permits(role palyra.Role, permission palyra.Permission, signed bool) bool
	OnEnd(f func(credentialID string))
}

// Config wires a Push.
type Config struct {
	Settings config.Config
	DB       *store.DB
	Keys     ca.KeyStore
	Append   func(tx *store.Tx, e palyra.Event) (palyra.Position, error) // to the journal
	Desk     Desk
	Registry Registry
	Trouble  func(error) // told that browsers could not be told, or with nil that they were
	Now      func() time.Time
	Log      *slog.Logger
}

// Push tells browsers.
type Push struct {
	Config
	guard *egress.Guard // the way to the services; nil: it is off
	pace  pace
	roots *x509.CertPool // that services are verified by; nil: the system's
	bell  chan struct{}  // something is to be looked at

	opening sync.Mutex   // held while the key is looked for
	key     *webpush.Key // nil: it was not had yet

	mu        sync.Mutex // guards what follows; a leaf lock
	told      map[string]*browser
	ended     []ending
	questions questions
}

// ending is a subscription whose row is to go, and why. What its device subscribed since stays.
type ending struct{ device, endpoint, why string }

// Why a browser is told no more, as lines say it.
const (
	unsubscribed = "unsubscribed" // it signed that
	replaced     = "replaced"     // another browser has its endpoint now
	gone         = "gone"         // the service says so
	ended        = "ended"        // its device or its person is no more, or may no longer look
)

// pace is how quickly one browser is told.
type pace struct {
	settle time.Duration // from a question to the message: what comes at once is told at once
	gap    time.Duration // between two messages, and after the first failure
	most   time.Duration // after many failures
	wait   time.Duration // for a service
}

const (
	maxBrowsers = 64
	together    = 4 // services asked at a time
)

// New returns a Push with the subscriptions that were kept.
func New(ctx context.Context, c Config) (*Push, error) {
	p := &Push{
		Config: c, pace: pace{settle: 2 * time.Second, gap: 30 * time.Second, most: time.Hour, wait: 10 * time.Second},
		bell: make(chan struct{}, 1), told: map[string]*browser{},
	}
	p.questions.open = map[palyra.ApprovalID]question{}
	if c.Settings.Console.Push == "off" {
		return p, nil
	}
	ranges, err := c.Settings.Egress.Prefixes()
	if err != nil {
		return nil, fmt.Errorf("push: new: %w", err)
	}
	out := c.Settings.Egress
	p.guard, err = egress.New(egress.Config{
		Mode: egress.Strict, PrivateRanges: ranges, Resolver: out.Resolver, Upstream: out.Upstream, Now: c.Now, Log: c.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("push: new: %w", err)
	}
	switch _, err := p.signer(ctx); {
	case palyra.CodeOf(err) == palyra.NotFound:
		err = p.makeKey(ctx)
		if err != nil {
			return nil, unusable(err)
		}
	case err != nil && !shut(err):
		return nil, unusable(err)
	}
	c.Registry.OnEnd(p.credentialEnded)
	return p, p.load(ctx)
}

// disabled reports whether no browser is to be told.
func (p *Push) disabled() bool { return p.guard == nil }

// signer is the key by which services know the daemon. In a vault that is locked it is found once that was opened.
func (p *Push) signer(ctx context.Context) (*webpush.Key, error) {
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.key != nil {
		return p.key, nil
	}
	raw, err := p.Keys.Load(ctx, string(palyra.KeyPush))
	if err != nil {
		return nil, fmt.Errorf("push: key: %w", err)
	}
	defer raw.Destroy()
	err = raw.Use(func(b []byte) (err error) {
		p.key, err = webpush.ParseKey(b, p.Settings.Console.Push)
		return err
	})
	return p.key, err
}

// makeKey makes the key at the first time.
func (p *Push) makeKey(ctx context.Context) error {
	raw, err := webpush.NewKey()
	if err != nil {
		return err
	}
	key := palyra.NewSecret(raw)
	defer key.Destroy()
	if err := p.Keys.Store(ctx, string(palyra.KeyPush), key); err != nil {
		return err
	}
	_, err = p.signer(ctx)
	return err
}

// shut reports whether an error is a vault's that does not open.
func shut(err error) bool {
	reason := palyra.AsError(err).Reason
	return reason == palyra.ReasonVaultLocked || reason == palyra.ReasonVaultDamaged
}

// unusable says why the key for push services cannot be used, and what to do.
func unusable(err error) error {
	if shut(err) {
		e := palyra.AsError(err)
		return palyra.Errorf(e.Code, e.Reason, "the key for push services is in the vault, which does not open: %s", e.Text).
			WithRemedy("%s", e.Remedy).WithCause(err)
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "the key for push services (push.key) cannot be used: %v",
		err).
		WithRemedy("make it the daemon's own file of mode 0600, or remove it: a new one is made, and each browser subscribes anew")
}

// Run tells browsers until ctx ends.
func (p *Push) Run(ctx context.Context) error {
	if p.disabled() {
		<-ctx.Done()
		return nil
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.send(ctx) })
	for {
		err := p.Desk.Watch(ctx, palyra.ApprovalFilter{}, p.heard)
		if ctx.Err() != nil {
			return nil
		}
		p.Log.Warn("questions cannot be followed, to tell browsers of them", "error", err)
		p.questions.begin(&p.mu)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.pace.gap):
		}
	}
}

func (p *Push) ring() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

// Feature adds to what the status shows.
func (p *Push) Feature(all map[string]string) map[string]string {
	if p.disabled() {
		return all
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var sent, failed int64
	for _, b := range p.told {
		sent, failed = sent+b.Sent, failed+b.Failed
	}
	all["push"] = fmt.Sprintf("%d browsers are told when they are closed; %d messages sent, %d failed", len(p.told), sent, failed)
	return all
}
