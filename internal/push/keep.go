package push

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/rpc/wire"
	"palyra/internal/store"
	"palyra/internal/webpush"
)

//go:embed schema
var schemas embed.FS

// Schema returns the package's tables.
func Schema() store.Schema { return store.SchemaOf("push", schemas) }

// browser is one that is told, with what is not shown, and when it is told next.
type browser struct {
	wire.NoticeSubscription
	to    webpush.Subscription
	told  int64     // the newest question that it was told of
	next  time.Time // not before
	fails int
}

// Notices implements the door's Notices.
func (p *Push) Notices(ctx context.Context) (wire.Notices, error) {
	if p.disabled() {
		e := errOff()
		return wire.Notices{Off: e.Text + "; " + e.Remedy}, nil
	}
	key, err := p.signer(ctx)
	if err != nil {
		e := palyra.AsError(unusable(err))
		return wire.Notices{Off: e.Text + "; " + e.Remedy}, nil
	}
	n := wire.Notices{PublicKey: key.Public()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.told)) {
		n.Subscriptions = append(n.Subscriptions, p.told[id].NoticeSubscription)
	}
	return n, nil
}

func errOff() *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "browsers that are closed are not told: console.push is off").
		WithRemedy("have the operator set console.push to a contact for push services, like mailto:you@your.domain")
}

// SubscribeNotices implements the door's Notices. What the browser subscribed before is over.
func (p *Push) SubscribeNotices(ctx context.Context, d palyra.Device, sig palyra.Signature, endpoint string, key, auth []byte) error {
	to := webpush.Subscription{Endpoint: endpoint, Key: key, Auth: auth}
	switch {
	case p.disabled():
		return errOff()
	case !d.Browser() || d.Passkey != nil || !d.Live():
		return palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRequired, "only a paired browser is told").
			WithRemedy("pair this browser: palyra console pair")
	}
	if err := to.Check(); err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the subscription is not a browser's: %v", err)
	}
	at, err := p.service(to)
	if err != nil {
		return err
	}
	if p.full(d.ID) {
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "%d browsers are told already", maxBrowsers).
			WithRemedy("have one of them told no more, or revoke it: palyra device list")
	}
	b := &browser{NoticeSubscription: wire.NoticeSubscription{Device: d.ID, Service: at, Since: p.Now().UTC()}, to: to}
	if err := p.keep(ctx, b, d.Principal, sig); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, old := range p.told {
		if old.to.Endpoint == to.Endpoint {
			delete(p.told, id)
		}
	}
	b.told, p.told[d.ID] = p.questions.last, b
	p.Log.Info("a browser is told of questions by its push service", "device", d.ID, "service", at)
	return nil
}

// full reports whether there is no room for one more browser.
func (p *Push) full(device string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told[device] == nil && len(p.told) >= maxBrowsers
}

// keep makes a subscription durable, with its line. An endpoint is one browser's, and a browser has one.
func (p *Push) keep(ctx context.Context, b *browser, by palyra.Principal, sig palyra.Signature) error {
	err := p.DB.Write(ctx, "push.subscribed", func(tx *store.Tx) error {
		err := p.drop(tx, palyra.NoticesChanged{Change: replaced, By: by}, `device <> ? AND endpoint = ?`, b.Device, b.to.Endpoint)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO push_subscriptions (device, endpoint, public_key, auth, since) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (device) DO UPDATE SET endpoint = excluded.endpoint, public_key = excluded.public_key, auth = excluded.auth,
			since = excluded.since`, b.Device, b.to.Endpoint, b.to.Key, b.to.Auth, b.Since.UnixNano())
		if err != nil {
			return err
		}
		_, err = p.Append(tx, palyra.NoticesChanged{
			Change: "subscribed", Device: b.Device, Service: b.Service, By: by, Signature: &sig,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("push: subscribe: %w", err)
	}
	return nil
}

// UnsubscribeNotices implements the door's Notices.
func (p *Push) UnsubscribeNotices(ctx context.Context, d palyra.Device, sig palyra.Signature) error {
	p.mu.Lock()
	delete(p.told, d.ID)
	p.mu.Unlock()
	p.ring() // what was wrong with it is wrong no more
	return p.remove(ctx, palyra.NoticesChanged{Change: unsubscribed, By: d.Principal, Signature: &sig}, `device = ?`, d.ID)
}

// remove drops rows, if there are any.
func (p *Push) remove(ctx context.Context, line palyra.NoticesChanged, which string, args ...any) error {
	err := p.DB.Write(ctx, "push.unsubscribed", func(tx *store.Tx) error { return p.drop(tx, line, which, args...) })
	if err != nil {
		return fmt.Errorf("push: unsubscribe: %w", err)
	}
	return nil
}

// drop removes rows, each with its line.
func (p *Push) drop(tx *store.Tx, line palyra.NoticesChanged, which string, args ...any) error {
	var lines []palyra.NoticesChanged
	err := tx.Each(`SELECT device, endpoint FROM push_subscriptions WHERE `+which, args, func(scan func(...any) error) error {
		var to webpush.Subscription
		if err := scan(&line.Device, &to.Endpoint); err != nil {
			return err
		}
		line.Service = ""
		if u, err := to.Origin(); err == nil {
			line.Service = hostOf(u)
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil || len(lines) == 0 {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM push_subscriptions WHERE `+which, args...); err != nil {
		return err
	}
	for _, l := range lines {
		if _, err := p.Append(tx, l); err != nil {
			return err
		}
	}
	return nil
}

// hostOf is the host of a service, with its port where that is not the usual one.
func hostOf(u *url.URL) string { return strings.TrimSuffix(u.Host, ":443") }

// load reads what was kept. What does not lead to a service any more is not used.
func (p *Push) load(ctx context.Context) error {
	err := p.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT device, endpoint, public_key, auth, since FROM push_subscriptions`, nil, func(scan func(...any) error) error {
			b, since := &browser{}, int64(0)
			if err := scan(&b.Device, &b.to.Endpoint, &b.to.Key, &b.to.Auth, &since); err != nil {
				return err
			}
			at, err := p.service(b.to)
			if err == nil && b.to.Check() == nil {
				b.Service, b.Since = at, time.Unix(0, since).UTC()
				p.told[b.Device] = b
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("push: load: %w", err)
	}
	return nil
}

// credentialEnded forgets the browser of a device that ended, at once.
func (p *Push) credentialEnded(id string) {
	device, ok := strings.CutPrefix(id, "device:")
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.told[device]; ok && b != nil {
		delete(p.told, device)
		p.ended = append(p.ended, ending{device, b.to.Endpoint, ended})
	}
	p.ring() // also where a person reaches less
}

// service is the host of a subscription, if the settings name it.
func (p *Push) service(to webpush.Subscription) (string, error) {
	u, err := to.Origin()
	if err != nil {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the subscription is not a browser's: %v", err)
	}
	if !slices.ContainsFunc(p.Settings.Console.PushServices, func(s string) bool { return named(s, u) }) {
		return "", palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is not a push service that the settings name",
			palyra.Clip(u.Host, 128)).
			WithRemedy("if it is the service of your browser's maker, add it to console.push_services")
	}
	return hostOf(u), nil
}

// target is where a service is dialled.
func target(u *url.URL) string { return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")) }

// named reports whether an entry of the settings, host or *.suffix with a port or without, names a service.
func named(entry string, u *url.URL) bool {
	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		host, port = entry, "443"
	}
	if port != cmp.Or(u.Port(), "443") {
		return false
	}
	suffix, wild := strings.CutPrefix(host, "*")
	wild = wild && net.ParseIP(u.Hostname()) == nil // an address is named whole, or not at all
	return host == u.Hostname() || wild && strings.HasSuffix(u.Hostname(), suffix) && len(u.Hostname()) > len(suffix)
}
