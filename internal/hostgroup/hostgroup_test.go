package hostgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Every group that comes with Palyra is one that an operator could make, and says of each host where it comes from.
func TestShippedGroupsSayTheirSources(t *testing.T) {
	var names []string
	all, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		names = append(names, g.Name)
		if again, err := New(g.Name, g.Places(), ""); err != nil || !slices.Equal(again.Places(), g.Places()) || g.About == "" {
			t.Errorf("%s: %v", g.Name, err)
		}
		for _, h := range g.Hosts {
			if h.Source == "" {
				t.Errorf("%s: nobody says where %s comes from", g.Name, h.At)
			}
		}
	}
	if want := []string{"npm", "pypi", "go", "crates", "debian"}; !slices.Equal(names, want) {
		t.Errorf("groups %q, want %q", names, want)
	}
}

func TestWhatAGroupMayName(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf("h%d.example", i)
	}
	for name, c := range map[string]struct {
		group string
		hosts []string
		says  string
	}{
		"nothing":           {"mine", nil, "without hosts"},
		"everything":        {"mine", []string{"*"}, "one by one"},
		"a suffix":          {"mine", []string{"*.example.org"}, "one by one"},
		"an address":        {"mine", []string{"192.0.2.1"}, "is an address"},
		"one with a port":   {"mine", []string{"192.0.2.1:443"}, "is an address"},
		"one of IPv6":       {"mine", []string{"2001:db8::1"}, "is an address"},
		"one in brackets":   {"mine", []string{"[2001:db8::1]:443"}, "is an address"},
		"a number":          {"mine", []string{"example.0x7f", "1.2"}, "not a host"},
		"this machine":      {"mine", []string{"localhost:8080"}, "this machine"},
		"one word":          {"mine", []string{"registry"}, "not a host"},
		"capitals":          {"mine", []string{"Registry.example"}, "not a host"},
		"a dot at the end":  {"mine", []string{"registry.example."}, "not a host"},
		"a URL":             {"mine", []string{"https://registry.example/"}, "port"},
		"a path":            {"mine", []string{"registry.example/x"}, "not a host"},
		"port 0":            {"mine", []string{"registry.example:0"}, "port"},
		"port 080":          {"mine", []string{"registry.example:080"}, "port"},
		"a control":         {"mine", []string{"registry\n.example"}, "not a host"},
		"one twice":         {"mine", []string{"registry.example", "registry.example:443"}, "twice"},
		"far too many":      {"mine", many, "at most 32"},
		"a name in capital": {"Mine", []string{"registry.example"}, "not a name"},
		"no name":           {"", []string{"registry.example"}, "not a name"},
		"a colon in it":     {"a:b", []string{"registry.example"}, "not a name"},
	} {
		if _, err := New(c.group, c.hosts, ""); err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 250 {
			t.Errorf("%s: %v", name, err)
		}
	}
	g, err := New("mine", []string{"b.example:8443", "a.example"}, "config.toml:3")
	if err != nil || !slices.Equal(g.Places(), []string{"a.example:443", "b.example:8443"}) || g.Hosts[0].Source != "config.toml:3" {
		t.Errorf("%+v %v", g, err)
	}
}

// A group's digest is that of what it covers: it changes with any host, and not with their order.
func TestDigestSaysWhatAGroupCovers(t *testing.T) {
	of := func(name string, hosts ...string) string {
		g, err := New(name, hosts, "")
		if err != nil {
			t.Fatal(err)
		}
		return g.Digest()
	}
	one := of("mine", "a.example", "b.example")
	if one != of("mine", "b.example", "a.example") || len(one) != 71 {
		t.Errorf("%s is that of an order", one)
	}
	for what, other := range map[string]string{
		"grown": of("mine", "a.example", "b.example", "c.example"), "shrunk": of("mine", "a.example"),
		"renamed":      of("other", "a.example", "b.example"),
		"another port": of("mine", "a.example", "b.example:80"),
	} {
		if other == one {
			t.Errorf("%s: the same digest", what)
		}
	}
}

// Hosts are of a group only together: one beside it makes them of none.
func TestOfWhichGroupHostsAre(t *testing.T) {
	own, err := New("mine", []string{"pypi.org", "files.pythonhosted.org", "registry.example"}, "")
	if err != nil {
		t.Fatal(err)
	}
	all, err := With([]Group{own})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		places []string
		want   string
	}{
		{[]string{"pypi.org:443"}, "pypi"}, // the smaller of two
		{[]string{"files.pythonhosted.org:443", "pypi.org:443"}, "pypi"},
		{[]string{"files.pythonhosted.org:443", "registry.example:443"}, "mine"},
		{[]string{"pypi.org:80"}, ""},
		{[]string{"pypi.org:443", "registry.npmjs.org:443"}, ""},
		{[]string{"pypi.org:443", "elsewhere.example:443"}, ""},
		{[]string{"*.pypi.org:443"}, ""},
		{nil, ""},
	} {
		if got := all.Name(c.places); got != c.want {
			t.Errorf("%q are of %q, want %q", c.places, got, c.want)
		}
	}
	at := []string{"pypi.org:443"}
	if !all.Have("mine", at) || all.Have("npm", at) || all.Have("none", nil) || all.Have("npm", nil) {
		t.Error("a group has what it has not, or the other way round")
	}
	if _, err := With([]Group{{Name: "npm"}}); err == nil {
		t.Error("a group of an operator's took the name of one that comes with Palyra")
	}
}
