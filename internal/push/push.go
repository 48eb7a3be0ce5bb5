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
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"palyra"
	"palyra/internal/approval"
	"palyra/internal/config"
	"palyra/internal/durable"
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
	key   *webpush.Key  // nil: it is off
	guard *egress.Guard // the way to the services
	pace  pace
	roots *x509.CertPool // that services are verified by; nil: the system's
	bell  chan struct{}  // something is to be looked at

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
	maxKeyFile  = 4 << 10
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
	if p.key, err = key(filepath.Join(c.Settings.Paths.Keys, "push.key"), c.Settings.Console.Push); err != nil {
		return nil, err
	}
	c.Registry.OnEnd(p.credentialEnded)
	return p, p.load(ctx)
}

// key reads the key by which services know the daemon, and makes it at the first time.
func key(file, contact string) (*webpush.Key, error) {
	raw, err := config.ReadPrivate(file, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		if raw, err = webpush.NewKey(); err == nil {
			err = durable.WriteFile(file, raw, 0o600)
		}
	}
	defer clear(raw)
	if err == nil {
		var k *webpush.Key
		if k, err = webpush.ParseKey(raw, contact); err == nil {
			return k, nil
		}
	}
	return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "the key for push services in %s cannot be used: %v", file, err).
		WithRemedy("make it the daemon's own file of mode 0600, or remove it: a new one is made, and each browser subscribes anew")
}

// Run tells browsers until ctx ends.
func (p *Push) Run(ctx context.Context) error {
	if p.key == nil {
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
	if p.key == nil {
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
