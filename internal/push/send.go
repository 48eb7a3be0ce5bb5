package push

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/webpush"
)

// send tells browsers as questions come, until ctx ends.
func (p *Push) send(ctx context.Context) {
	for {
		late := p.round(ctx)
		var next <-chan time.Time
		if late > 0 {
			next = time.After(late)
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
			continue
		case <-p.bell:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.pace.settle):
		}
	}
}

// errand is a message that is due.
type errand struct {
	device string
	to     webpush.Subscription
	text   []byte
	newest int64
}

// round tells everybody for whom it is time, and returns when somebody else is due; 0: nobody is.
func (p *Push) round(ctx context.Context) time.Duration {
	p.tidy(ctx)
	reach, err := p.reach(ctx)
	if err != nil {
		p.Log.Warn("whom to tell of questions cannot be found out", "error", err)
		return p.pace.gap
	}
	due, late := p.due(reach)
	_, locked := p.signer(ctx)
	if locked != nil {
		due, late = nil, p.pace.gap
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, together)
	for _, e := range due {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			p.done(ctx, e, p.deliver(ctx, e))
		})
	}
	wg.Wait()
	p.report(locked)
	if len(due) > 0 && late == 0 {
		late = p.pace.gap
	}
	return late
}

// reach is what the people of those browsers reach that may still be told, by device.
func (p *Push) reach(ctx context.Context) (map[string][]string, error) {
	all, err := p.Registry.Devices(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, d := range all {
		if !d.Live() || !d.Browser() || d.Passkey != nil || !p.Now().Before(d.ExpiresAt) {
			continue
		}
		role, within, err := p.Registry.Cap(ctx, d.Principal)
		if palyra.CodeOf(err) == palyra.Denied {
			continue
		}
		if err != nil {
			return nil, err
		}
		const view = palyra.PermitApprovalsView
		if p.Registry.Permits(role, view, false) && p.Registry.Permits(d.Role, view, false) {
			out[d.ID] = within
		}
	}
	return out, nil
}

// due are the messages whose time it is. Browsers that may not be told any more are forgotten.
func (p *Push) due(reach map[string][]string) (due []errand, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	for id, b := range p.told {
		within, ok := reach[id]
		if !ok {
			delete(p.told, id)
			p.ended = append(p.ended, ending{id, b.to.Endpoint, ended})
			p.ring()
			continue
		}
		count, risk, newest := p.questions.waiting(within)
		if newest <= b.told {
			continue
		}
		if wait := b.next.Sub(now); wait > 0 {
			if late == 0 || wait < late {
				late = wait
			}
			continue
		}
		text, err := json.Marshal(notice{Waiting: count, Risk: risk})
		if err != nil { // a number and a word
			continue
		}
		due = append(due, errand{id, b.to, text, newest})
	}
	return due, late
}

// notice is what a message says. There is nothing in it to decide with.
type notice struct {
	Waiting int              `json:"waiting"`
	Risk    palyra.RiskLevel `json:"risk"`
}

// deliver sends one message, by a way that leads to its service alone.
func (p *Push) deliver(ctx context.Context, e errand) error {
	ctx, stop := context.WithTimeout(ctx, p.pace.wait)
	defer stop()
	key, err := p.signer(ctx)
	if err != nil {
		return err
	}
	u, err := e.to.Origin()
	if err != nil {
		return err
	}
	way, err := p.guard.Open(ctx, nil, palyra.Plan{Egress: []string{target(u)}})
	if err != nil {
		return err
	}
	defer func() { _, _ = way.Close() }()
	c := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return way.DialContext(ctx, network, target(u))
			},
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.roots}, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
			ForceAttemptHTTP2: true,
		},
	}
	defer c.CloseIdleConnections()
	return webpush.Send(ctx, c, key, e.to, webpush.Message{Text: e.text, Keep: p.Settings.Approvals.Wait(), Topic: "palyra"}, p.Now())
}

// done notes what became of a message.
func (p *Push) done(ctx context.Context, e errand, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.told[e.device]
	if b == nil || b.to.Endpoint != e.to.Endpoint || ctx.Err() != nil { // subscribed anew, ended, or the daemon ends
		return
	}
	refused := (*webpush.RefusedError)(nil)
	switch {
	case err == nil:
		b.Sent, b.fails, b.Problem, b.told = b.Sent+1, 0, "", e.newest
		b.next = p.Now().Add(p.pace.gap)
	case errors.As(err, &refused) && refused.Gone():
		p.Log.Info("a browser's subscription is no more: it is told nothing until it subscribes anew", "device", e.device, "service", b.Service)
		delete(p.told, e.device)
		p.ended = append(p.ended, ending{e.device, e.to.Endpoint, gone})
		p.ring()
	default:
		b.Failed, b.fails, b.Problem = b.Failed+1, b.fails+1, palyra.Clip(err.Error(), 200)
		wait := min(p.pace.gap<<min(b.fails-1, 16), p.pace.most)
		if refused != nil {
			wait = max(wait, refused.After)
		}
		b.next = p.Now().Add(wait)
		p.Log.Warn("a browser was not told of questions", "device", e.device, "service", b.Service, "error", b.Problem)
	}
}

// report says in the status which browser could not be told the last time, if any, or why nobody is.
func (p *Push) report(locked error) {
	var trouble error
	p.mu.Lock()
	if locked != nil && len(p.told) > 0 {
		trouble = unusable(locked)
	}
	for _, id := range slices.Sorted(maps.Keys(p.told)) {
		if b := p.told[id]; b.Problem != "" && trouble == nil {
			trouble = palyra.Errorf(palyra.Unavailable, palyra.ReasonNotFound, "the browser %s is not told of questions by %s: %s", id, b.Service,
				b.Problem).WithRemedy("see that this machine reaches the service; it is tried again. If it stays so, switch the notices of " +
				"that browser off and on at the console, under Devices")
			break
		}
	}
	p.mu.Unlock()
	p.Trouble(trouble)
}

// tidy removes the rows of those who are told no more.
func (p *Push) tidy(ctx context.Context) {
	p.mu.Lock()
	over := p.ended
	p.ended = nil
	p.mu.Unlock()
	for i, one := range over {
		line := palyra.NoticesChanged{Change: one.why, By: palyra.SystemDaemon}
		if err := p.remove(ctx, line, `device = ? AND endpoint = ?`, one.device, one.endpoint); err != nil {
			p.Log.Warn("a browser's subscription could not be removed; it is not used", "device", one.device, "error", err)
			p.mu.Lock()
			p.ended = append(slices.Clone(over[i:]), p.ended...)
			p.mu.Unlock()
			return
		}
	}
}
