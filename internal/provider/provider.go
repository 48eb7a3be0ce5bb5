// Package provider makes the providers of models ready that the configuration names: where each is, by which way it is
// reached, and where its key comes from. A way leads to one host and nowhere else; a key is read anew each time.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/agent"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/mask"
)

// Kind is a company's wire format: where its own models are, how a request is signed with a key, and a model that speaks it.
type Kind struct {
	URL  string
	Sign func(http.Header, string)
	Make func(base string, w *agent.Wire) agent.Model
}

// Sources are the providers of a configuration. None of them is reached before a run needs it.
func Sources(c config.Config, kinds map[string]Kind, v Vault, m *mask.Masker, log *slog.Logger) ([]agent.Source, error) {
	keys := keys{keyFiles(c.Providers), v}
	var sources []agent.Source
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		s, err := source(name, *c.Providers[name], kinds, c.Egress, keys, m, log)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// guardTo is the way out to a model: the same rules on addresses, name server and proxy as everything has, but the
// hosts are those of the configuration, which is the operator's own word. Nobody is asked. No proxy leads to this
// machine itself.
func guardTo(u *url.URL, c config.Egress, log *slog.Logger) (*egress.Guard, error) {
	if a, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "localhost" || err == nil && a.IsLoopback() {
		c.Upstream = ""
	}
	ranges, err := c.Prefixes()
	if err != nil {
		return nil, err
	}
	return egress.New(egress.Config{
		Mode: egress.Strict, PrivateRanges: ranges, Resolver: c.Resolver, Upstream: c.Upstream, Now: time.Now,
		Log: log,
	})
}

// source makes one provider.
func source(name string, p config.Provider, kinds map[string]Kind, out config.Egress, keys keys, m *mask.Masker,
	log *slog.Logger,
) (agent.Source, error) {
	kind, ok := kinds[p.Kind]
	if !ok {
		return agent.Source{}, fmt.Errorf("provider: no kind %q", p.Kind)
	}
	base := cmp.Or(p.BaseURL, kind.URL)
	u, err := url.Parse(base)
	if err != nil {
		return agent.Source{}, fmt.Errorf("provider: %w", err)
	}
	guard, err := guardTo(u, out, log)
	if err != nil {
		return agent.Source{}, err
	}
	w := &agent.Wire{Way: wayTo(u, guard), Sign: kind.Sign, Key: keyOf(name, p, hostsOf(u), keys), Mask: m}
	return agent.Source{
		Name: name, Model: kind.Make(base, w), BaseURL: base, KeyFile: p.KeyFile, KeyBinding: p.KeyBinding, Allowed: p.Models,
		Timeout: p.Timeout(),
	}, nil
}

// keyOf is where the key of a provider comes from; nil where it may have none. The
// company's own address answers nobody without a key, so nothing is sent there.
func keyOf(name string, p config.Provider, hosts []string, keys keys) func(context.Context) (palyra.Secret, error) {
	switch {
	case p.KeyBinding != "":
		return func(ctx context.Context) (palyra.Secret, error) { return keys.bound(ctx, name, p.KeyBinding, hosts) }
	case p.KeyFile != "":
		return func(ctx context.Context) (palyra.Secret, error) { return keys.files.Key(ctx, name) }
	case p.BaseURL != "":
		return nil
	}
	return func(context.Context) (palyra.Secret, error) {
		return palyra.Secret{}, palyra.Errorf(palyra.Denied, palyra.ReasonModelKey, "there is no key for %s", name).
			WithRemedy("put the key into the vault (palyra vault put), bind it (palyra vault bind %s --provider --host %s) and name the binding "+
				"in providers.%s.key_binding, or put it into a file of mode 0600 and name that in providers.%s.key_file; for a model of your own "+
				"set providers.%s.base_url", name, hosts[0], name, name, name)
	}
}

// wayTo opens ways through the guard to the one host of a base URL. Where that is
// this machine by name, its addresses are meant.
func wayTo(u *url.URL, guard *egress.Guard) func(context.Context) (agent.Way, error) {
	hosts := hostsOf(u)
	return func(ctx context.Context) (agent.Way, error) {
		s, err := guard.Open(ctx, nil, palyra.Plan{Egress: hosts})
		if err != nil {
			return agent.Way{}, err
		}
		return agent.Way{
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				var errs error
				for _, host := range hosts {
					c, err := s.DialContext(ctx, network, host)
					if err == nil {
						return c, nil
					}
					errs = errors.Join(errs, err)
				}
				return nil, errs
			},
			Close: func() { _, _ = s.Close() },
		}, nil
	}
}

// hostsOf is where a base URL leads.
func hostsOf(u *url.URL) []string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if u.Hostname() == "localhost" {
		return []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	}
	return []string{net.JoinHostPort(strings.ToLower(u.Hostname()), port)}
}

// Vault gives out keys by their bindings.
type Vault interface {
	// ProviderKey returns the key of a provider at host:port, which the caller destroys. Its use is on record.
	ProviderKey(ctx context.Context, provider, binding, at string) (palyra.Secret, error)
}

// keys are where the keys of providers come from.
type keys struct {
	files keyFiles
	vault Vault
}

// bound returns the key of a binding, as it is now.
func (k keys) bound(ctx context.Context, provider, binding string, hosts []string) (palyra.Secret, error) {
	key, err := k.vault.ProviderKey(ctx, provider, binding, hosts[0])
	if err != nil {
		return key, err
	}
	err = key.Use(func(b []byte) error {
		if len(b) == 0 || bytes.ContainsFunc(b, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return palyra.Errorf(palyra.Denied, palyra.ReasonModelKey, "the secret of the binding %s does not hold a key for %s", binding, provider).
				WithRemedy("put the key alone, without a line end: palyra vault put")
		}
		return nil
	})
	if err != nil {
		key.Destroy()
	}
	return key, err
}

// keyFiles reads the keys of providers from the files that the configuration
// names, anew each time.
type keyFiles map[string]*config.Provider

const maxKeyFile = 16 << 10

// Key implements agent.Keys.
func (k keyFiles) Key(_ context.Context, provider string) (palyra.Secret, error) {
	p := k[provider]
	if p == nil || p.KeyFile == "" {
		return palyra.Secret{}, nil
	}
	bad := func(code palyra.Code, reason palyra.Reason, why, remedy string) error {
		return palyra.Errorf(code, reason, "the key of %s in %s: %s", provider, p.KeyFile, why).WithRemedy("%s", remedy)
	}
	raw, err := config.ReadPrivate(p.KeyFile, maxKeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return palyra.Secret{}, bad(palyra.Denied, palyra.ReasonModelKey, "there is no such file",
			fmt.Sprintf("put the key into it, with mode 0600, or correct providers.%s.key_file", provider))
	case config.Unsafe(err):
		return palyra.Secret{}, bad(palyra.Denied, palyra.ReasonUnsafePermissions, err.Error(),
			"make it the daemon's own with mode 0600: chmod 600 "+p.KeyFile)
	case err != nil:
		return palyra.Secret{}, bad(palyra.Denied, palyra.ReasonModelKey, err.Error(), "make it a small file that the daemon can read")
	}
	key := bytes.Clone(bytes.TrimSpace(raw))
	clear(raw)
	if len(key) == 0 || bytes.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return palyra.Secret{}, bad(palyra.Denied, palyra.ReasonModelKey, "it does not hold a key", "put the key alone on one line")
	}
	return palyra.NewSecret(key), nil
}

// Plain says which keys lie in files as they are.
func Plain(c config.Config) (all []string) {
	for _, k := range c.PlainKeys() {
		all = append(all, fmt.Sprintf("the key of the provider %s lies in the file %s as it is; remedy: palyra vault adopt", k.Provider,
			k.KeyFile))
	}
	return all
}
