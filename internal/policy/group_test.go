package policy

import (
	"testing"

	"palyra"
	"palyra/internal/hostgroup"
)

// Policies can speak of the group that all hosts of a call are of: those that come with Palyra, and an operator's.
func TestTheGroupOfHosts(t *testing.T) {
	own, err := hostgroup.New("mirror", []string{"npm.example"}, "")
	if err != nil {
		t.Fatal(err)
	}
	mine, err := hostgroup.With([]hostgroup.Group{own})
	if err != nil {
		t.Fatal(err)
	}
	b := load(t, `@id("a") permit (principal, action, resource)
when { context has egress_group && ["npm", "mirror"].contains(context.egress_group) };`)
	for _, c := range []struct {
		groups hostgroup.Set
		hosts  []string
		want   palyra.Effect
	}{
		{nil, []string{"registry.npmjs.org:443"}, palyra.Allow},
		{mine, []string{"registry.npmjs.org:443"}, palyra.Allow},
		{mine, []string{"npm.example:443"}, palyra.Allow},
		{nil, []string{"npm.example:443"}, palyra.Deny},
		{mine, []string{"npm.example:443", "registry.npmjs.org:443"}, palyra.Deny},
		{mine, []string{"pypi.org:443"}, palyra.Deny},
		{mine, nil, palyra.Deny},
	} {
		e, err := New(Config{Bundle: b, Snapshot: open(), Groups: c.groups})
		if err != nil {
			t.Fatal(err)
		}
		r := echo()
		r.Plan.Egress = c.hosts
		if v := e.Judge(t.Context(), r); v.Effect != c.want || len(v.Errors) > 0 {
			t.Errorf("%q: %s %v", c.hosts, v.Effect, v.Errors)
		}
	}
}

// An operator who wants to be asked about registries each time says so, and then no earlier answer will do.
func TestRegistriesCanBeAskedAboutEachTime(t *testing.T) {
	e := engine(t, load(t, `@id("a") permit (principal, action, resource) when { context.approval.granted };
@id("registries-ask-each-time") @reason("packages come from outside")
forbid (principal, action in Action::"call", resource)
when { context has egress_group }
unless { context.approval.granted && context.approval.fresh };`))
	r := echo()
	for host, fresh := range map[string]bool{"registry.npmjs.org:443": true, "elsewhere.example:443": false} {
		r.Plan.Egress = []string{host}
		if v := e.Judge(t.Context(), r); v.Effect != palyra.Ask || v.Need.Fresh != fresh {
			t.Errorf("%s: %s, %+v", host, v.Effect, v.Need)
		}
	}
}
