package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra"
)

// AddRequest is an upstream to be.
type AddRequest struct {
	Name       string
	Definition palyra.UpstreamDefinition
	Approve    bool // its tools, as they are found
	Replace    bool // the server of that name, which must be there; what was approved of it and is the same stays so
	By         palyra.Principal
	Signature  palyra.Signature
}

func exists(name string) *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "there is an MCP server called %s already", name).
		WithRemedy("choose another name, or 'palyra mcp remove %s' first", name)
}

// Add starts a server, looks at its tools and keeps both, or neither: one that
// cannot be started or spoken to is not added.
func (r *Registry) Add(ctx context.Context, q AddRequest) (palyra.Upstream, error) {
	if err := CheckName(q.Name); err != nil {
		return palyra.Upstream{}, err
	}
	def, err := Check(q.Definition)
	if err != nil {
		return palyra.Upstream{}, err
	}
	u := palyra.Upstream{Name: q.Name, UpstreamDefinition: def, AddedBy: q.By}
	if u.Digest, err = digest(u.Name, def); err != nil {
		return palyra.Upstream{}, err
	}
	if q.Replace {
		return r.replace(ctx, q, u)
	}
	if err := r.reserve(u.Name); err != nil {
		return palyra.Upstream{}, err
	}
	defer r.release(u.Name)
	s := newServer(r, u)
	give, err := s.take(ctx)
	if err != nil {
		return palyra.Upstream{}, err
	}
	defer give()
	if err := r.Launcher.Forget(u.Name); err != nil { // one of this name may have left something for it
		return palyra.Upstream{}, fmt.Errorf("upstream: add: %w", err)
	}
	if _, err := s.begin(ctx); err != nil {
		return palyra.Upstream{}, notAdded(err, def)
	}
	if err := s.keep(ctx, q, nil); err != nil {
		s.stop("not_added")
		return palyra.Upstream{}, fmt.Errorf("upstream: add: %w", err)
	}
	return s.view(), nil
}

// notAdded gives a failure a remedy that works: a server that was not added cannot be shown.
func notAdded(err error, d palyra.UpstreamDefinition) error {
	e := (*palyra.Error)(nil)
	if !errors.As(err, &e) || e.Reason != palyra.ReasonUpstreamFailed {
		return err
	}
	if d.Transport == palyra.TransportHTTP {
		return e.WithRemedy("see that an MCP server answers at this URL; nothing was added")
	}
	return e.WithRemedy("nothing was added. A server sees its workspace, what its profile mounts and the system, and nothing else of " +
		"your home; " +
		"run its command with 'palyra exec' to see all that it writes")
}

// keep makes a server that has been looked at durable, and its tools offered. What was approved of the tools of the one
// before, which it replaces, and is the same is approved.
func (s *server) keep(ctx context.Context, q AddRequest, was []palyra.UpstreamTool) error {
	s.mu.Lock()
	u := s.up
	s.mu.Unlock()
	u.AddedAt, u.Tools = s.r.Now().UTC(), slices.Clone(u.Tools)
	var seen, pins []palyra.UpstreamPin
	for i := range u.Tools {
		t := &u.Tools[i]
		text, err := textOf(*t)
		if err != nil {
			return err
		}
		seen = append(seen, palyra.UpstreamPin{Name: t.Name, Digest: t.Digest, Text: text})
		if same, readOnly := approved(was, t); t.State == palyra.UpstreamToolQuarantined && (q.Approve || same) {
			t.Pinned, t.ReadOnly = t.Digest, readOnly
			settle(t)
			pins = append(pins, palyra.UpstreamPin{Name: t.Name, Digest: t.Digest, Text: text, ReadOnly: readOnly})
		}
	}
	events := []palyra.Event{palyra.UpstreamAdded{
		Name: u.Name, Definition: u.UpstreamDefinition, Digest: u.Digest, Tools: notNil(seen), By: q.By, Signature: q.Signature,
	}}
	if len(pins) > 0 {
		events = append(events, palyra.UpstreamApproved{Name: u.Name, Tools: pins, By: q.By, Signature: q.Signature})
	}
	if err := s.r.insert(ctx, q, u, events...); err != nil {
		return err
	}
	s.mu.Lock()
	s.up = u
	s.mu.Unlock()
	s.r.mu.Lock()
	s.r.known[u.Name] = s
	s.r.mu.Unlock()
	return s.offer()
}

// notNil is never nil: JSON has an empty list for none.
func notNil[T any](list []T) []T { return append([]T{}, list...) }

// reserve keeps a name for one who adds.
func (r *Registry) reserve(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.known[name] != nil || r.adding[name]:
		return exists(name)
	case len(r.known)+len(r.adding) >= maxUpstreams:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "there are %d MCP servers, which is the most", maxUpstreams).
			WithRemedy("remove one first")
	}
	r.adding[name] = true
	return nil
}

func (r *Registry) release(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.adding, name)
}

// List returns the upstreams by name, without the texts of their tools.
func (r *Registry) List(context.Context) ([]palyra.Upstream, error) {
	out := []palyra.Upstream{}
	for _, s := range r.servers() {
		u := s.view()
		for i := range u.Tools {
			u.Tools[i].Description, u.Tools[i].InputSchema = "", nil
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b palyra.Upstream) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Get returns one with its tools. With refresh the server is asked again, and
// started where it does not run; its failing is then part of the answer.
func (r *Registry) Get(ctx context.Context, name string, refresh bool) (palyra.Upstream, error) {
	s, err := r.find(name)
	if err != nil {
		return palyra.Upstream{}, err
	}
	if refresh {
		s.stale()
		_, done, err := s.use(ctx, "")
		switch {
		case err == nil:
			done()
		case ctx.Err() != nil || palyra.AsError(err).Reason != palyra.ReasonUpstreamFailed:
			return palyra.Upstream{}, err
		}
	}
	return s.view(), nil
}

// Remove ends a server and forgets it. Its tools are gone when it returns.
func (r *Registry) Remove(ctx context.Context, name string, by palyra.Principal, sig palyra.Signature) error {
	s, err := r.find(name)
	if err != nil {
		return err
	}
	s.leave(true) // whoever waits for the server holds up nobody who ends it
	defer s.leave(false)
	give, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	if again, err := r.find(name); err != nil || again != s { // somebody was faster
		return errors.Join(err, palyra.Errorf(palyra.Conflict, palyra.ReasonNotFound, "the MCP server %s was removed meanwhile", name))
	}
	if err := r.drop(ctx, palyra.UpstreamRemoved{Name: name, By: by, Signature: sig}); err != nil {
		return fmt.Errorf("upstream: remove: %w", err)
	}
	s.mu.Lock()
	s.removed = true
	x := s.live
	s.mu.Unlock()
	r.mu.Lock()
	delete(r.known, name)
	r.adding[name] = true // the name is free when nothing of it is left
	r.mu.Unlock()
	defer r.release(name)
	err = s.offer()
	r.clear(name, x)
	return err
}

// leave ends the session of one that is to be removed, and keeps it ended.
func (s *server) leave(on bool) {
	s.mu.Lock()
	s.leaving = on
	s.mu.Unlock()
	if on {
		s.stop("removed")
	}
}

// clear removes the directory and rows of a server, once it is gone.
func (r *Registry) clear(name string, x *connection) {
	if x != nil {
		select {
		case <-x.dead:
		case <-time.After(stopGrace):
		}
	}
	if err := r.Launcher.Forget(name); err != nil { // the next one of the name tries again, and so does a restart
		r.Log.Warn("what an MCP server left behind cannot be removed", "upstream", name, "error", err)
	}
}

// Approve pins tools as they are, by the digests that somebody looked at. A digest that no tool has any more
// approves nothing, and neither do the others then. Names in pins are not looked at.
func (r *Registry) Approve(ctx context.Context, name string, pins []palyra.UpstreamPin, by palyra.Principal,
	sig palyra.Signature,
) (palyra.Upstream, error) {
	s, err := r.find(name)
	if err != nil {
		return palyra.Upstream{}, err
	}
	if len(pins) == 0 || len(pins) > maxTools {
		return palyra.Upstream{}, badDefinition("name the digests of 1 to %d tools", maxTools).WithRemedy("see 'palyra mcp show %s'", name)
	}
	give, err := s.take(ctx)
	if err != nil {
		return palyra.Upstream{}, err
	}
	defer give()
	s.mu.Lock()
	u := s.up
	s.mu.Unlock()
	u.Tools = slices.Clone(u.Tools)
	pins = slices.Clone(pins)
	for i := range pins {
		if err := approve(u, &pins[i]); err != nil {
			return palyra.Upstream{}, err
		}
	}
	e := palyra.UpstreamApproved{Name: name, Tools: pins, By: by, Signature: sig}
	if err := r.save(ctx, e.Kind(), u, e); err != nil {
		return palyra.Upstream{}, fmt.Errorf("upstream: approve: %w", err)
	}
	s.mu.Lock()
	s.up.Tools, s.changes = u.Tools, 0
	s.mu.Unlock()
	return s.view(), s.offer()
}

// approve pins the tool with the digest, and names it.
func approve(u palyra.Upstream, pin *palyra.UpstreamPin) error {
	for i := range u.Tools {
		t := &u.Tools[i]
		if t.Digest != pin.Digest || t.State == palyra.UpstreamToolGone {
			continue
		}
		if t.State == palyra.UpstreamToolRefused {
			return palyra.Errorf(palyra.Denied, palyra.ReasonQuarantined, "%s can never be offered: %s", t.Name, t.Why)
		}
		t.Pinned, t.ReadOnly, pin.Name = pin.Digest, pin.ReadOnly, t.Name
		settle(t)
		var err error
		pin.Text, err = textOf(*t)
		return err
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonStaleDigest, "no tool of %s has the digest %s now", u.Name,
		palyra.Clip(string(pin.Digest), 80)).
		WithRemedy("look at its tools again: 'palyra mcp show %s'", u.Name)
}
