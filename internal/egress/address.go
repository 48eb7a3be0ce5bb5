package egress

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// special are the IPv4 ranges that are not the public Internet. internal/policy
// has the same list (risk.go), so that what people are warned of is what is
// refused here: change both.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // Azure's own services for a machine, keys among them
	"34.118.224.0/20",  // services of a Kubernetes cluster at Google
)

// Where local names lead.
var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// special6 are the ranges within IPv6's global unicast that are not public, or
// carry an IPv4 address whose route nobody here knows.
var special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

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

func anyContains(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// public reports whether an address is one of the public Internet. An
// IPv4-mapped address never is: no name server has a reason to give one. One
// behind the well-known NAT64 prefix is what its IPv4 address is.
func public(a netip.Addr) bool {
	switch {
	case a.Zone() != "" || a.Is4In6():
		return false
	case a.Is4():
		return !anyContains(special, a)
	case nat64.Contains(a):
		b := a.As16()
		return public(netip.AddrFrom4([4]byte(b[12:])))
	}
	return global6.Contains(a) && !anyContains(special6, a)
}

// Public reports whether an address is one of the public Internet, and not this
// machine's own. Others are reached only if somebody grants them as such.
func (g *Guard) Public(a netip.Addr) bool { return public(a) && !g.own.has(a) }

// routable reports whether an address can be meant at all, whoever grants it.
func routable(a netip.Addr) bool {
	broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() && a != broadcast
}

// ownFor is how long the list of this machine's addresses is taken for current.
const ownFor = 10 * time.Second

// own knows the addresses of this machine. A public one among them is as good as
// loopback: what listens there is reached without passing any firewall.
type own struct {
	list func() ([]net.Addr, error)
	now  func() time.Time

	mu    sync.Mutex // guards the fields below; a leaf lock
	until time.Time
	addrs map[netip.Addr]bool
}

// has reports whether a is an address of this machine. When nobody can say, it
// is.
func (o *own) has(a netip.Addr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.now(); now.After(o.until) {
		list, err := o.list()
		if err != nil {
			return true
		}
		o.addrs, o.until = map[netip.Addr]bool{}, now.Add(ownFor)
		for _, l := range list {
			if p, err := netip.ParsePrefix(l.String()); err == nil {
				o.addrs[p.Addr().Unmap().WithZone("")] = true
			}
		}
	}
	return o.addrs[a]
}
