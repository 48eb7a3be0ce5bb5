// Package hostgroup is what is known of hosts that belong together: the registries that package managers fetch
// from, each under one name, and those that an operator puts together. A person can answer for all hosts of a
// group at once, so a group names its hosts one by one, each with its port and the place that says so. It is
// data, in groups.json, and the little code that reads it. It decides nothing.
package hostgroup

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"palyra/internal/pattern"
)

// The most groups that an operator can make, and the most hosts of a group: people read them in a question.
const (
	MaxGroups = 32
	MaxHosts  = 32
)

// Group is hosts under one name.
type Group struct {
	Name  string `json:"name"`
	About string `json:"about,omitempty"`
	Hosts []Host `json:"hosts"`
}

// Host is one of them.
type Host struct {
	At     string `json:"host"`   // host:port, as plans write it
	Source string `json:"source"` // where it comes from
}

// Places are the hosts of the group as plans name them, in order.
func (g Group) Places() []string {
	out := make([]string, len(g.Hosts))
	for i, h := range g.Hosts {
		out[i] = h.At
	}
	slices.Sort(out)
	return out
}

// Digest is that of the name and the hosts: a group that has come to have others has another.
func (g Group) Digest() string { return Digest(g.Name, g.Places()) }

// Digest is that of a group with these places, which are in order.
func Digest(name string, places []string) string {
	sum := sha256.Sum256([]byte("palyra/host-group/v1\x00" + name + "\n" + strings.Join(places, "\n")))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// has reports whether all of some places are the group's.
func (g Group) has(places []string) bool {
	return !slices.ContainsFunc(places, func(at string) bool {
		return !slices.ContainsFunc(g.Hosts, func(h Host) bool { return h.At == at })
	})
}

//go:embed groups.json
var table []byte

// shipped are the groups that come with Palyra.
var shipped = sync.OnceValues(func() ([]Group, error) {
	var file struct {
		About  string  `json:"about"`
		Groups []Group `json:"groups"`
	}
	dec := json.NewDecoder(bytes.NewReader(table))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return nil, err
	}
	for _, g := range file.Groups {
		if _, err := New(g.Name, g.Places(), ""); err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name, err)
		}
	}
	return file.Groups, nil
})

// Shipped returns the groups that come with Palyra.
func Shipped() ([]Group, error) {
	list, err := shipped()
	if err != nil { // it is part of the program, and tests read it
		return nil, fmt.Errorf("hostgroup: groups.json: %w", err)
	}
	return slices.Clone(list), nil
}

// Name is what a group may be called.
var Name = pattern.Later(`^[a-z][a-z0-9-]{0,31}$`)

// New makes a group of an operator's. A host without a port is reached at that of https.
func New(name string, hosts []string, source string) (Group, error) {
	switch {
	case !Name().MatchString(name):
		return Group{}, fmt.Errorf("%s is not a name of a group: write small letters, digits and hyphens, 32 at most", strconv.Quote(cut(name)))
	case len(hosts) == 0:
		return Group{}, errors.New("a group without hosts covers nothing: name some, or take it out")
	case len(hosts) > MaxHosts:
		return Group{}, fmt.Errorf("%d hosts are more than a person reads in a question: at most %d", len(hosts), MaxHosts)
	}
	g := Group{Name: name}
	for _, s := range hosts {
		at, err := placeOf(s)
		if err != nil {
			return Group{}, err
		}
		if g.has([]string{at}) {
			return Group{}, fmt.Errorf("%s is named twice", at)
		}
		g.Hosts = append(g.Hosts, Host{At: at, Source: source})
	}
	return g, nil
}

// placeOf is a host as plans write it. Everybody can have a name below a suffix, and an address says nothing
// of who answers there: neither is a host that people could answer for beforehand.
func placeOf(s string) (string, error) {
	bad := func(why string) (string, error) { return "", fmt.Errorf("%s %s", strconv.Quote(cut(s)), why) }
	host, port, found := strings.Cut(s, ":")
	if !found {
		port = "443"
	}
	_, notAddress := netip.ParseAddr(strings.Trim(s, "[]"))
	_, _, split := net.SplitHostPort(s)
	if _, err := netip.ParseAddr(host); err == nil || notAddress == nil || split == nil && strings.HasPrefix(s, "[") {
		return bad("is an address: name the host, so that people see whose it is")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case strings.Contains(host, "*"):
		return bad("has a star in it: a group names its hosts one by one")
	case err != nil || n == 0 || strconv.FormatUint(n, 10) != port:
		return bad("has a port that is not a number from 1 to 65535")
	case host == "localhost" || strings.HasSuffix(host, ".localhost"):
		return bad("is this machine itself, and no host of others")
	case !plain(host):
		return bad("is not a host in lower case, like registry.example or registry.example:8443")
	}
	return host + ":" + port, nil
}

// plain reports whether a text is a name of a host in the one spelling in which hosts are compared.
func plain(host string) bool {
	labels := strings.Split(host, ".")
	if len(host) > 253 || len(labels) < 2 || strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return false
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

func cut(s string) string { return s[:min(len(s), 80)] }

// Set is the groups that are known.
type Set []Group

// With returns the groups that come with Palyra and an operator's, whose names are other ones.
func With(own []Group) (Set, error) {
	all, err := Shipped()
	if err != nil {
		return nil, err
	}
	for _, g := range own {
		if slices.ContainsFunc(all, func(have Group) bool { return have.Name == g.Name }) {
			return nil, fmt.Errorf("there is a group %s already: give yours another name", g.Name)
		}
		all = append(all, g)
	}
	return all, nil
}

// Of returns the group that some places are all of: the smallest, where there are several.
func (s Set) Of(places []string) (Group, bool) {
	var all []Group
	for _, g := range s {
		if len(places) > 0 && g.has(places) {
			all = append(all, g)
		}
	}
	if len(all) == 0 {
		return Group{}, false
	}
	return slices.MinFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(a.Hosts), len(b.Hosts)), strings.Compare(a.Name, b.Name))
	}), true
}

// Name is the name of the group that some places are all of; empty: of none.
func (s Set) Name(places []string) string {
	g, _ := s.Of(places)
	return g.Name
}

// Have reports whether some places are all of the group of a name, as it is now.
func (s Set) Have(name string, places []string) bool {
	return slices.ContainsFunc(s, func(g Group) bool { return g.Name == name && len(places) > 0 && g.has(places) })
}
