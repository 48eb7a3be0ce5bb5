package resource

import (
	"slices"
	"testing"

	"palyra/secrets"
)

// TestWhatPlansPromise holds that policy reads out of a plan what an operator bound, whatever names, users and scopes are
// called, and that what cannot be told apart is not told.
func TestWhatPlansPromise(t *testing.T) {
	for _, b := range []secrets.Binding{
		{
			Name: "a", Kind: secrets.Header, Place: "X-Key", Env: "KEY", Scope: secrets.Global, Secret: "s",
			Hosts: []string{"h:443"},
		},
		{
			Name: "a.b", Kind: secrets.Basic, Scope: "principal:user:ada", Secret: "s-1", User: "u/v,w",
			Hosts: []string{"[::1]:1", "h:443"},
		},
		{
			Name: "a", Kind: secrets.SigV4, Place: "eu-west-1/s3", Scope: "channel:x/prod:u:h:1/%2F", Secret: "prod",
			Hosts: []string{"h:443"},
		},
		{
			Name: "a", Kind: secrets.Upstream, Place: "Authorization", Scope: "session:a/b", Secret: "s",
			Hosts: []string{"h:443"},
		},
		{
			Name: "k", Kind: secrets.SSHAgent, Scope: secrets.Global, Secret: "key",
			Hosts: []string{"git.example:22"}, Key: "ssh-ed25519 AAAA", HostKeys: []string{"k"},
		},
		{
			Name: "k", Kind: secrets.SSHAgent, Agent: "/run/a:b.sock",
			Hosts: []string{"git.example:22"}, Key: "ssh-ed25519 AAAA", HostKeys: []string{"k"},
		},
		{Name: "g", Kind: secrets.Signing, Scope: secrets.Global, Secret: "key", Key: "ssh-ed25519 AAAA"},
	} {
		other := secrets.Binding{Name: "z", Kind: secrets.Header, Place: "X", Scope: secrets.Global, Secret: b.Name + ":", Hosts: []string{"o:1"}}
		all := append(secrets.Mechanisms([]secrets.Binding{b, other}), "egress_guard")
		got, ok := promised(all, b.Name)
		if !ok || got.kind != string(b.Kind) || got.secret != b.Secret || got.scope != string(b.Scope) || got.place != b.Place ||
			got.user != b.User || !slices.Equal(got.hosts, b.Hosts) {
			t.Errorf("%q of %q: %+v, %v", b.Name, all, got, ok)
		}
		if got, ok := promised(all, b.Name+"x"); ok {
			t.Errorf("another: %+v", got)
		}
		other.Name = b.Name
		if got, ok := promised(append(all, secrets.Mechanisms([]secrets.Binding{other})...), b.Name); ok {
			t.Errorf("of two: %+v", got)
		}
	}
}
