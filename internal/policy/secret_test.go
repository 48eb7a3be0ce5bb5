package policy

import (
	"testing"

	"palyra"
	"palyra/secrets"
)

// uses is a call that uses bindings.
func uses(all ...secrets.Binding) palyra.Request {
	r := echo()
	for _, b := range all {
		r.Plan.Bindings = append(r.Plan.Bindings, b.Name)
	}
	r.Plan.Enforcement.Mechanisms = append(secrets.Mechanisms(all), "egress_guard")
	r.Plan.Capabilities, r.Tool.Capabilities = []palyra.Capability{palyra.SecretsRead}, []palyra.Capability{palyra.SecretsRead}
	return r
}

// A policy means a secret by its name, its scope, and the kind and hosts of its binding, whatever the binding is called: who
// binds it once more, under the name of another, gets by no rule.
func TestSecretsAreKnownByMoreThanTheirBinding(t *testing.T) {
	const rest = `@id("all") permit (principal, action, resource);`
	prod := secrets.Binding{
		Name: "npm", Kind: secrets.Header, Place: "Authorization", Scope: secrets.Global, Secret: "prod-db", Hosts: []string{"db.example:443"},
	}
	other := secrets.Binding{
		Name: "prod-db", Kind: secrets.Basic, Scope: "principal:user:ada", Secret: "npm", User: "u",
		Hosts: []string{"a.example:443", "b.example:443"},
	}
	for _, c := range []struct {
		when        string
		prod, other palyra.Effect
	}{
		{`resource has secret && resource.secret == "prod-db"`, palyra.Deny, palyra.Allow},
		{`resource has scope && resource.scope != "global"`, palyra.Allow, palyra.Deny},
		{`resource has kind && resource.kind == "header"`, palyra.Deny, palyra.Allow},
		{`resource has hosts && resource.hosts.contains("b.example:443")`, palyra.Allow, palyra.Deny},
		{`!(resource has hosts && ["db.example:443"].containsAll(resource.hosts))`, palyra.Allow, palyra.Deny},
		{`resource.name == "npm"`, palyra.Deny, palyra.Allow},
	} {
		b := load(t, rest+` @id("no") forbid (principal, action == Action::"vault.use", resource is Secret) when { `+c.when+` };`)
		for _, one := range []struct {
			r    palyra.Request
			want palyra.Effect
		}{{uses(prod), c.prod}, {uses(other), c.other}, {uses(prod, other), palyra.Deny}} {
			if got := judgedBy(t, Config{Bundle: b}, one.r); got != one.want {
				t.Errorf("%s: %q is %s, want %s", c.when, one.r.Plan.Bindings, got, one.want)
			}
		}
	}
	e := engine(t, load(t, rest+`
		@id("no") forbid (principal, action, resource is Secret) when { resource has secret && resource.secret == "prod-db" };
		@id("mine") forbid (principal, action == Action::"vault.get", resource is Secret) when { resource has scope && resource.scope != "global" };`))
	for id, want := range map[string]bool{
		"prod-db\nglobal": false, "npm\nglobal": true, "npm\nprincipal:user:ada": false, "npm\nprincipal:prod-db": false, "1": true,
	} {
		if got, _ := e.AuthorizeAction(t.Context(), "user:ada", nil, "vault.get", "Secret", id); got != want {
			t.Errorf("%q is permitted: %v", id, got)
		}
	}
}
