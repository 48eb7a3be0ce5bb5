package fetch

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/tool"
	"palyra/secrets"
)

// maxBindings is the most secrets that a call may use.
const maxBindings = 16

// fetched are the kinds of bindings that a fetch has a place for.
var fetched = []secrets.Kind{secrets.Header, secrets.Basic, secrets.Git, secrets.Query, secrets.Body}

// Secrets lends secrets to calls.
type Secrets interface {
	// Usable returns the bindings of those names whose secret is there. A name that is not known, or is not for the call, is
	// an error.
	Usable(ctx context.Context, p palyra.Proposal, workspace string, names []string) ([]secrets.Binding, error)
	// Lend lends the secrets of a plan to the call that runs it.
	Lend(ctx context.Context, call palyra.CallID, p palyra.Proposal, plan palyra.Plan) (Lent, error)
}

// Lent is the secrets of one call under way. The placeholder of a binding is {{NAME}}.
type Lent interface {
	// Fill puts values into a request for host:port, where the bindings have their places, and nowhere else.
	Fill(r *http.Request, at string) error
	// Text, Head and Reader mask the values in what came back.
	Text(s string) string
	Head(h http.Header)
	Reader(r io.ReadCloser) io.ReadCloser
	// Close forgets the values, and puts on record what was used.
	Close()
}

// nothingLent is Lent of a call that uses no secrets.
type nothingLent struct{}

func (nothingLent) Fill(*http.Request, string) error     { return nil }
func (nothingLent) Text(s string) string                 { return s }
func (nothingLent) Head(http.Header)                     {}
func (nothingLent) Reader(r io.ReadCloser) io.ReadCloser { return r }
func (nothingLent) Close()                               {}

// standsIn is a header's value that holds a placeholder and nothing secret: after a word such as Bearer, and with a
// user before it or without.
var standsIn = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9-]{0,31} )?(?:[!-9;-z|~]{0,64}:)?\{\{([A-Za-z0-9][A-Za-z0-9._-]{0,127})\}\}:?$`)

// standsFor reports whether the value of a header is the placeholder of one of the call's bindings.
func standsFor(value string, bindings []string) bool {
	m := standsIn.FindStringSubmatch(value)
	return m != nil && slices.Contains(bindings, m[1])
}

// usable returns the bindings of a call.
func (c Config) usable(ctx context.Context, env tool.Env, a arguments, workspace string) (have []secrets.Binding, names []string,
	err error,
) {
	names = slices.Compact(slices.Sorted(slices.Values(a.Bindings)))
	switch {
	case len(names) == 0:
		return nil, nil, nil
	case len(names) > maxBindings:
		return nil, nil, malformed("%d bindings are too many", len(names)).WithRemedy("give at most %d", maxBindings)
	case c.Secrets == nil || env.Check:
		return nil, nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "there are no secrets to use here").
			WithRemedy("propose the call without bindings")
	}
	have, err = c.Secrets.Usable(ctx, env.Proposal, workspace, names)
	return have, names, err
}

// lend writes the secrets that the call uses into its plan.
func (c Config) lend(ctx context.Context, env tool.Env, r request, a arguments, p *palyra.Plan) error {
	have, names, err := c.usable(ctx, env, a, p.Workspace.Path)
	if err != nil || len(names) == 0 {
		return err
	}
	var header string // the binding that goes into Authorization by itself
	for _, b := range have {
		if err := r.takes(b); err != nil {
			return err
		}
		if inAuthorization(b) && r.header.Get("Authorization") == "" {
			if header != "" {
				return malformed("the bindings %s and %s both go into the header Authorization", header, b.Name).
					WithRemedy("use one of them, or write the header with the placeholder of one: {{%s}}", b.Name)
			}
			header = b.Name
		}
		p.Bindings = append(p.Bindings, b.Name)
		p.Detail.Notes = append(p.Detail.Notes, lentNote(b))
		names = slices.DeleteFunc(names, func(n string) bool { return n == b.Name })
	}
	if len(names) > 0 { // a request without its login would only be refused by the server
		return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the secret of the binding %s is not there", show.Line(names[0])).
			WithRemedy("an operator can put it (see 'palyra vault bindings'), or propose the call without it")
	}
	p.Enforcement.Mechanisms = secrets.BoundMechanisms(have)
	if !slices.Contains(p.Capabilities, palyra.SecretsRead) {
		p.Capabilities = append(slices.Clone(p.Capabilities), palyra.SecretsRead)
		slices.Sort(p.Capabilities)
	}
	return nil
}

func inAuthorization(b secrets.Binding) bool {
	return b.Kind == secrets.Basic || b.Kind == secrets.Git || b.Kind == secrets.Header && b.Place == "Authorization"
}

// takes refuses a binding that the request has no use for.
func (r request) takes(b secrets.Binding) error {
	placeholder := "{{" + b.Name + "}}"
	switch {
	case !slices.ContainsFunc(b.Hosts, func(at string) bool { return slices.Contains(r.targets, at) }):
		return malformed("the binding %s is for %s, and the call does not go there", b.Name, strings.Join(b.Hosts, ", ")).
			WithRemedy("leave it out, or have an operator bind the secret to the host: palyra vault bind")
	case slices.Contains(b.Hosts, r.first.hostPort) && r.first.url.Scheme != "https":
		return malformed("the binding %s is for %s, and no secret goes there without TLS", b.Name, r.first.hostPort).WithRemedy("use https")
	case !slices.Contains(fetched, b.Kind):
		return malformed("the binding %s is of the kind %s, which a fetch cannot use", b.Name, b.Kind).
			WithRemedy("leave it out, or run a program that uses it: palyra.process.run")
	case b.Kind == secrets.Query && !strings.Contains(plainQuery(r.first.url.RawQuery), placeholder):
		return malformed("the address has no %s for the binding %s", placeholder, b.Name).WithRemedy("give it as the parameter %s: %s=%s",
			b.Place, b.Place, placeholder)
	case b.Kind == secrets.Body && !strings.Contains(string(r.body), placeholder):
		return malformed("the body has no %s for the binding %s", placeholder, b.Name).
			WithRemedy("give it as the field %s of a JSON object or a form, with that Content-Type", b.Place)
	}
	return nil
}

// plainQuery is a query with braces that are not escaped.
func plainQuery(q string) string {
	return strings.NewReplacer("%7B", "{", "%7b", "{", "%7D", "}", "%7d", "}").Replace(q)
}

// lentNote says where the value of a binding goes.
func lentNote(b secrets.Binding) string {
	place := string(b.Kind)
	if b.Place != "" {
		place += " " + b.Place
	}
	return "uses the secret " + show.Line(b.Secret) + ", by the binding " + show.Line(b.Name) + ": its value goes into " + place + " at " +
		strings.Join(b.Hosts, ", ") + ", and stays out of the record and of the answer"
}

// borrow lends the plan's secrets to the call.
func (c Config) borrow(ctx context.Context, env tool.Env, p palyra.Plan) (Lent, error) {
	if len(p.Bindings) == 0 {
		return nothingLent{}, nil
	}
	return c.Secrets.Lend(ctx, env.Call, env.Proposal, p)
}
