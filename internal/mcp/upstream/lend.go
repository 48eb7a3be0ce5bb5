package upstream

import (
	"context"
	"net/http"
	"slices"

	"palyra"
)

// maxBindings is the most secrets that a server may use.
const maxBindings = 16

// Secrets lends secrets to servers behind URLs. Programs get placeholders in their rooms, which is the launcher's to do.
type Secrets interface {
	// Lend lends the secrets of a definition to a session with the server at host:port, or says why it cannot.
	Lend(ctx context.Context, name string, d palyra.UpstreamDefinition, at string) (Lent, error)
	// Mechanisms are what holds of requests that have them, for plans.
	Mechanisms(ctx context.Context, name string, d palyra.UpstreamDefinition, at string) ([]string, error)
}

// Lent is the secrets of one session.
type Lent interface {
	// Fill puts the values, as they are now, into a request for host:port.
	Fill(r *http.Request, at string) error
	// Close puts on record what was used.
	Close()
}

// checkBindings refuses a list of bindings that is none.
func checkBindings(d palyra.UpstreamDefinition) (palyra.UpstreamDefinition, error) {
	if len(d.Bindings) > maxBindings || slices.ContainsFunc(d.Bindings, func(n string) bool { return n == "" || len(n) > 128 }) {
		return d, badDefinition("give at most %d secrets, by the names of their bindings", maxBindings)
	}
	d.Bindings = slices.Compact(slices.Sorted(slices.Values(d.Bindings)))
	return d, nil
}

// borrow has the requests of a session carry the definition's secrets.
func (s *server) borrow(ctx context.Context, x *connection, at string, via http.RoundTripper) (http.RoundTripper, error) {
	if len(s.def.Bindings) == 0 {
		return via, nil
	}
	if s.r.Secrets == nil {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "there are no secrets to use here").
			WithRemedy("add the server without --secret")
	}
	var err error
	if x.lent, err = s.r.Secrets.Lend(ctx, s.name, s.def, at); err != nil {
		return nil, err
	}
	return &filled{via, x.lent, at}, nil
}

// filled puts secrets into requests on their way.
type filled struct {
	http.RoundTripper
	lent Lent
	at   string
}

// RoundTrip implements http.RoundTripper.
func (f *filled) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if err := f.lent.Fill(r, f.at); err != nil {
		return nil, err
	}
	return f.RoundTripper.RoundTrip(r)
}

// over puts on record what a session reached and used, once it has ended.
func (s *server) over(x *connection) {
	s.r.record(x.reached(s.name))
	if x.lent != nil {
		x.lent.Close()
	}
}

// bind names the secrets that a call's server uses in the call's plan.
func (s *server) bind(p *palyra.Plan) {
	p.Bindings = slices.Clone(s.def.Bindings)
	if len(p.Bindings) > 0 && !slices.Contains(p.Capabilities, palyra.SecretsRead) {
		p.Capabilities = append(slices.Clone(p.Capabilities), palyra.SecretsRead)
		slices.Sort(p.Capabilities)
	}
}
