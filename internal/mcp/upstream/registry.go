package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"palyra"
)

// AddRequest is an upstream to be.
type AddRequest struct {
	Name       string
	Definition palyra.UpstreamDefinition
	Approve    bool // its tools, as they are found
	By         palyra.Principal
	Signature  palyra.Signature
}

func exists(name string) *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "there is an upstream called %s already", name).
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
	if _, err := s.begin(ctx); err != nil {
		return palyra.Upstream{}, err
	}
	if err := s.keep(ctx, q); err != nil {
		s.stop("not_added")
		return palyra.Upstream{}, fmt.Errorf("upstream: add: %w", err)
	}
	return s.view(), nil
}

// keep makes a server that has been looked at durable, and its tools offered.
func (s *server) keep(ctx context.Context, q AddRequest) error {
	s.mu.Lock()
	u := s.up
	s.mu.Unlock()
	u.AddedAt, u.Tools = s.r.Now().UTC(), slices.Clone(u.Tools)
	var seen, pins []palyra.UpstreamPin
	for i := range u.Tools {
		t := &u.Tools[i]
		seen = append(seen, palyra.UpstreamPin{Name: t.Name, Digest: t.Digest})
		if q.Approve && t.State == palyra.UpstreamToolQuarantined {
			t.Pinned = t.Digest
			settle(t)
			pins = append(pins, palyra.UpstreamPin{Name: t.Name, Digest: t.Digest})
		}
	}
	events := []palyra.Event{palyra.UpstreamAdded{
		Name: u.Name, Definition: u.UpstreamDefinition, Digest: u.Digest, Tools: some(seen), By: q.By, Signature: q.Signature,
	}}
	if len(pins) > 0 {
		events = append(events, palyra.UpstreamApproved{Name: u.Name, Tools: pins, By: q.By, Signature: q.Signature})
	}
	if err := s.r.insert(ctx, u, events...); err != nil {
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

// some is never nil: JSON has an empty list for none.
func some[T any](list []T) []T { return append([]T{}, list...) }

// reserve keeps a name for one who adds.
func (r *Registry) reserve(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.known[name] != nil || r.adding[name]:
		return exists(name)
	case len(r.known)+len(r.adding) >= maxUpstreams:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "there are %d upstreams, which is the most", maxUpstreams).WithRemedy("remove one first")
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
	for _, s := range r.all() {
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
	give, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	if again, err := r.find(name); err != nil || again != s { // somebody was faster
		return errors.Join(err, palyra.Errorf(palyra.Conflict, palyra.ReasonNotFound, "the upstream %s was removed meanwhile", name))
	}
	if err := r.drop(ctx, palyra.UpstreamRemoved{Name: name, By: by, Signature: sig}); err != nil {
		return fmt.Errorf("upstream: remove: %w", err)
	}
	s.mu.Lock()
	s.removed = true
	s.mu.Unlock()
	r.mu.Lock()
	delete(r.known, name)
	r.mu.Unlock()
	s.stop("removed")
	return s.offer()
}

// Approve pins tools as they are, by the digests that somebody looked at. A digest
// that no tool has any more approves nothing, and neither do the others then.
func (r *Registry) Approve(ctx context.Context, name string, digests []palyra.Digest, by palyra.Principal, sig palyra.Signature) (palyra.Upstream, error) {
	s, err := r.find(name)
	if err != nil {
		return palyra.Upstream{}, err
	}
	if len(digests) == 0 || len(digests) > maxTools {
		return palyra.Upstream{}, bad("name the digests of 1 to %d tools", maxTools).WithRemedy("see 'palyra mcp show %s'", name)
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
	var pins []palyra.UpstreamPin
	for _, d := range digests {
		pin, err := approve(u, d)
		if err != nil {
			return palyra.Upstream{}, err
		}
		pins = append(pins, pin)
	}
	e := palyra.UpstreamApproved{Name: name, Tools: pins, By: by, Signature: sig}
	if err := r.save(ctx, e.Kind(), u, e); err != nil {
		return palyra.Upstream{}, fmt.Errorf("upstream: approve: %w", err)
	}
	s.mu.Lock()
	s.up.Tools = u.Tools
	s.mu.Unlock()
	return s.view(), s.offer()
}

// approve pins the tool with the digest.
func approve(u palyra.Upstream, d palyra.Digest) (palyra.UpstreamPin, error) {
	for i := range u.Tools {
		t := &u.Tools[i]
		if t.Digest != d || t.State == palyra.UpstreamToolGone {
			continue
		}
		if t.State == palyra.UpstreamToolRefused {
			return palyra.UpstreamPin{}, palyra.Errorf(palyra.Denied, palyra.ReasonQuarantined, "%s can never be offered: %s", t.Name, t.Why)
		}
		t.Pinned = d
		settle(t)
		return palyra.UpstreamPin{Name: t.Name, Digest: d}, nil
	}
	return palyra.UpstreamPin{}, palyra.Errorf(palyra.Conflict, palyra.ReasonStaleDigest, "no tool of %s has the digest %s now", u.Name, palyra.Clip(string(d), 80)).
		WithRemedy("look at its tools again: 'palyra mcp show %s'", u.Name)
}
