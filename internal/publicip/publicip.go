// Package publicip knows which addresses are the public Internet. The guard refuses names that lead elsewhere, and
// policy warns of such addresses: both read it here, so that what people are warned of is what is refused.
package publicip

import (
	"net/netip"
	"slices"
)

// special are the ranges that are not the public Internet, or lead to one that nobody here knows.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // Azure's own services for a machine, keys among them
	"34.118.224.0/20",  // services of a Kubernetes cluster at Google
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// Of IPv6, what can be public at all, and what stands for an IPv4 address.
var (
	global6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Is reports whether an address is one of the public Internet. An IPv4-mapped address never is: no name server has
// a reason to give one. One behind the well-known NAT64 prefix is what its IPv4 address is.
func Is(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || a.Is4In6() {
		return false
	}
	if nat64.Contains(a) {
		b := a.As16()
		return Is(netip.AddrFrom4([4]byte(b[12:])))
	}
	return (a.Is4() || global6.Contains(a)) && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}
