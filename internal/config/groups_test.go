package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// An operator's groups stand beside those that come with Palyra, each host with the line that names it.
func TestGroups(t *testing.T) {
	c, err := Load(place(t, "[groups]\nmirror = [\"npm.example\", \"pypi.example:8443\"]\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.HostGroups()
	if err != nil {
		t.Fatal(err)
	}
	g, ok := all.Of([]string{"pypi.example:8443", "npm.example:443"})
	if !ok || g.Name != "mirror" || !strings.HasSuffix(g.Hosts[0].Source, "config.toml:2") {
		t.Errorf("%+v", g)
	}
	if all.Name([]string{"registry.npmjs.org:443"}) != "npm" {
		t.Error("the groups that come with Palyra are gone")
	}
	if c.Snapshot().ProcessRunner["host_groups"] == nil {
		t.Error("what was judged with does not say which groups there were")
	}
	if none, err := Load(place(t, "", "")); err != nil || none.Snapshot().ProcessRunner["host_groups"] != nil {
		t.Errorf("a snapshot without groups is another than before there were any: %v", err)
	}
}

// What is no group is an error that names the place, and the daemon does not start.
func TestBadGroups(t *testing.T) {
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("%q", fmt.Sprintf("h%d.example", i)))
	}
	groups := ""
	for i := range 33 {
		groups += fmt.Sprintf("g%d = [\"a.example\"]\n", i)
	}
	for text, says := range map[string]string{
		"mirror = []": "without hosts", "mirror = [\"*\"]": "one by one", "mirror = [\"*.com\"]": "one by one",
		"mirror = [\"10.0.0.1\"]":  "is an address",
		"mirror = [\"[::1]:443\"]": "is an address", "mirror = \"a.example\"": "list of texts", "mirror = [1]": "list of texts",
		"npm = [\"a.example\"]": "give yours another name", "Mirror = [\"a.example\"]": "small letters",
		"\"a.b\" = [\"a.example\"]":                "small letters",
		"[groups.mirror]\nhosts = [\"a.example\"]": "list of texts", "mirror = [\"localhost:80\"]": "this machine",
		"mirror = [" + strings.Join(many, ",") + "]": "at most 32", groups: "more than 32 groups",
	} {
		_, err := Load(place(t, "[groups]\n"+text+"\n", ""))
		var all []string
		for _, p := range Check(place(t, "[groups]\n"+text+"\n", "")) {
			all = append(all, p.String())
		}
		if err == nil || !slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, says) }) {
			t.Errorf("%s: %v\n%q", text[:min(len(text), 60)], err, all)
		}
		if len(strings.Join(all, "\n")) > 8<<10 {
			t.Errorf("%s: the errors are %d bytes", text[:min(len(text), 60)], len(strings.Join(all, "\n")))
		}
	}
}
