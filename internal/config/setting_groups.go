package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"palyra/internal/hostgroup"
)

// groupsSection has a key for each group of hosts that an operator makes.
const groupsSection = "groups"

// findGroup returns the setting of a group. What its hosts and its name may be is said when all of it is there.
func findGroup(key string) (setting, bool) {
	name, ok := strings.CutPrefix(key, groupsSection+".")
	return setting{
		key: key, text: "hosts that people can answer for at once, each as host or host:port", check: func(string) error { return nil },
	}, ok && hostgroup.Name().MatchString(name)
}

// group returns the hosts of a group, made if there is none yet.
func (c *Config) group(name string) *[]string {
	if c.Groups == nil {
		c.Groups = map[string]*[]string{}
	}
	if c.Groups[name] == nil {
		c.Groups[name] = &[]string{}
	}
	return c.Groups[name]
}

func cloneGroups(from map[string]*[]string) map[string]*[]string {
	out := maps.Clone(from)
	for name, hosts := range out {
		own := slices.Clone(*hosts)
		out[name] = &own
	}
	return out
}

// HostGroups are the groups of hosts that people can answer for: those that come with Palyra, and the operator's.
func (c *Config) HostGroups() (hostgroup.Set, error) {
	own, problems := c.ownGroups()
	if len(problems) > 0 {
		return nil, fmt.Errorf("config: %s", problems[0])
	}
	return hostgroup.With(own)
}

// ShownGroup is a group with the digest by which leases name its contents.
type ShownGroup struct {
	hostgroup.Group
	Digest string `json:"digest"`
}

// ShownGroups are the groups as people are shown them.
func (c *Config) ShownGroups() (list []ShownGroup, _ error) {
	all, err := c.HostGroups()
	for _, g := range all {
		list = append(list, ShownGroup{g, g.Digest()})
	}
	return list, err
}

// ownGroups are the operator's groups, and what is wrong with them.
func (c *Config) ownGroups() (own []hostgroup.Group, problems []Problem) {
	bad := func(key, format string, args ...any) {
		problems = append(problems, Problem{Where: c.origins[key].where, Key: key, Text: fmt.Sprintf(format, args...)})
	}
	if len(c.Groups) > hostgroup.MaxGroups {
		bad(groupsSection, "more than %d groups", hostgroup.MaxGroups)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		key := groupsSection + "." + name
		g, err := hostgroup.New(name, *c.Groups[name], c.origins[key].where)
		if err == nil {
			_, err = hostgroup.With([]hostgroup.Group{g})
		}
		if err != nil {
			bad(key, "%v", err)
			continue
		}
		own = append(own, g)
	}
	return own, problems
}
