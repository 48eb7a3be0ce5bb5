package mcp

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"palyra"
	"palyra/secrets"
)

// found is a secret of a client's file, which comes into the vault, with how the server uses it.
type found struct {
	binding secrets.Binding
	value   palyra.Secret
}

// keepsHeaders takes the headers of an entry as secrets for its server's host. Why says what cannot be taken.
func (s *imported) keepsHeaders(headers map[string]string) (why string) {
	u, err := url.Parse(s.Definition.URL)
	if err != nil || u.Hostname() == "" {
		return "its headers are for no URL"
	}
	if u.Scheme != "https" {
		return "it sends headers, and a secret does not go to a server without TLS; use https"
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	host := net.JoinHostPort(strings.ToLower(u.Hostname()), port)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value, header := strings.TrimSpace(headers[name]), http.CanonicalHeaderKey(name)
		if header == "Authorization" {
			bare, ok := strings.CutPrefix(value, "Bearer ")
			if !ok {
				return "its authorization is not of the form Bearer; put the secret and bind it yourself (palyra vault bind --help)"
			}
			value = strings.TrimSpace(bare)
		}
		if variable.MatchString(value) {
			return "a header is filled in by the client, from a place that Palyra does not read; write the value, or put and bind it yourself"
		}
		s.takes(header, value, secrets.Binding{Kind: secrets.Upstream, Place: header, Hosts: []string{host}})
	}
	return ""
}

// keepsVariables takes variables of an entry as secrets of which is known where they go.
func (s *imported) keepsVariables() {
	for _, name := range slices.Sorted(maps.Keys(s.Definition.Env)) {
		value := s.Definition.Env[name]
		known, ok := secrets.Propose(name, name)
		if !ok || known.Kind != secrets.Header || len(value) < secrets.MinMasked {
			continue
		}
		s.Definition.Env = maps.Clone(s.Definition.Env)
		delete(s.Definition.Env, name)
		s.takes(name, value, secrets.Binding{Kind: secrets.Upstream, Place: known.Place, Hosts: known.Hosts, Env: name})
	}
}

// takes notes one secret.
func (s *imported) takes(what, value string, b secrets.Binding) {
	b.Name, b.Scope = s.Name+"-"+what, secrets.Global
	b.Secret, b.Tools = b.Name, []palyra.ToolName{palyra.ToolName("mcp." + s.Name)}
	s.found = append(s.found, found{b, palyra.NewSecret([]byte(value))})
	s.Secrets = append(s.Secrets, b.Name)
	s.Definition.Bindings = append(s.Definition.Bindings, b.Name)
}

// put puts the secrets of a server into the vault and binds them. What it returns takes that back; none of the names was
// there before.
func (s *imported) put(ctx context.Context, v Vault) (back func(), err error) {
	var undo []func() error
	back = func() {
		for _, f := range slices.Backward(undo) {
			_ = f()
		}
	}
	for _, f := range s.found {
		_, one, err := Keep(ctx, v, f.binding, f.value, Nothing)
		if err != nil {
			return back, err
		}
		undo = append(undo, one)
	}
	return back, nil
}

// forget overwrites the values.
func (s *imported) forget() {
	for _, f := range s.found {
		f.value.Destroy()
	}
}

// brings says what comes into the vault.
func (s *imported) brings() string {
	if len(s.Secrets) == 0 {
		return ""
	}
	return fmt.Sprintf("secrets that come into the vault: %s", strings.Join(s.Secrets, ", "))
}
