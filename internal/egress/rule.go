package egress

import (
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"palyra"
)

// maxRules is the most hosts that a plan may name.
const maxRules = 256

// rule is a permitted target: a host, or every name below a suffix, at a port.
type rule struct {
	target
	below bool // every name below the target's, at any depth, but not the name itself
}

// String writes a rule as plans do.
func (r rule) String() string {
	if r.below {
		return "*." + r.target.String()
	}
	return r.target.String()
}

// covers reports whether the rule lets t through. Port 0, which only an operator's rule has, is any.
func (r rule) covers(t target) bool {
	if r.port != 0 && r.port != t.port {
		return false
	}
	if !r.below {
		return r.host == t.host
	}
	return !t.literal() && strings.HasSuffix(t.name, "."+r.name)
}

// within reports whether outer lets through everything that r does.
func (r rule) within(outer rule) bool {
	if outer.port != 0 && outer.port != r.port {
		return false
	}
	if r.below {
		return outer.below && (r.name == outer.name || strings.HasSuffix(r.name, "."+outer.name))
	}
	return outer.covers(r.target)
}

func covered(rules []rule, t target) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.covers(t) })
}

// spelled reports whether a rule names t itself.
func spelled(rules []rule, t target) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return !r.below && r.covers(t) })
}

// parseRule reads an entry of a plan.
func parseRule(s string) (rule, error) {
	if strings.ContainsAny(s, " \t/") {
		return rule{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q names more than a host and a port",
			palyra.Clip(s, maxShown)).
			WithRemedy("write host:port; methods and paths cannot be told apart inside TLS and are not supported yet")
	}
	rest, below := strings.CutPrefix(s, "*.")
	t, err := parseTarget(rest)
	if err != nil {
		return rule{}, err
	}
	return rule{t, below}, suffixFit(s, t.host, below)
}

// parseAllowed reads an entry of the operator's list, whose port may be left out.
func parseAllowed(s string) (rule, error) {
	rest, below := strings.CutPrefix(s, "*.")
	if _, _, ok := splitTarget(rest); ok {
		t, err := parseTarget(rest)
		return rule{t, below}, err
	}
	h, err := parseHost(rest)
	if err == nil && below && h.literal() {
		err = badHost(s, "an address has nothing below it")
	}
	return rule{target{host: h}, below}, err
}

// suffixFit refuses suffixes that limit nothing: an address, a whole top level, or a domain below
// which anybody can have a name.
func suffixFit(s string, h host, below bool) error {
	switch {
	case below && h.literal():
		return badHost(s, "an address has nothing below it")
	case below && !strings.Contains(h.name, "."):
		return badHost(s, "everything below a top-level domain is no limit")
	case below && anybodys(h.name):
		return badHost(s, "anybody can have a name below "+h.name+", so it is no limit").
			WithRemedy("name the hosts themselves")
	}
	return nil
}

// shared are domains of providers whose customers have names somewhere below
// them, at more depths than the list of public suffixes tells of each.
var shared = []string{
	"amazonaws.com", "amazonaws.com.cn", "amazoncognito.com", "aws", "azure.com", "azurecontainer.io", "windows.net", "usgovcloudapi.net",
	"googleusercontent.com", "goog", "run.app", "oraclecloud.com", "oraclecloudapps.com", "customer-oci.com", "digitaloceanspaces.com",
	"backblazeb2.com", "linodeobjects.com", "linodeusercontent.com", "vultrobjects.com", "scw.cloud", "fastly.net", "ovh.net",
	"myqcloud.com", "aliyuncs.com",
}

// anybodys reports whether strangers can have names below a domain: it is a public suffix, or
// belongs to a provider.
func anybodys(name string) bool {
	if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
		return true
	}
	return slices.ContainsFunc(shared, func(s string) bool { return name == s || strings.HasSuffix(name, "."+s) })
}

// parseRules reads a plan's list and returns it in order and without repeats, so that equal plans are equal.
func parseRules(list []string) ([]rule, error) {
	if len(list) > maxRules {
		return nil, palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "%d hosts are too many", len(list)).
			WithRemedy("name at most %d", maxRules)
	}
	rules := make([]rule, 0, len(list))
	for _, s := range list {
		r, err := parseRule(s)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	slices.SortFunc(rules, func(a, b rule) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(rules), nil
}
