package egress

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"palyra/internal/publicip"
)

// The addresses of local names.
var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

func anyContains(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Public reports whether an address is one of the public Internet, and not this machine's own.
// Others are reached only where they are granted as addresses.
func (g *Guard) Public(a netip.Addr) bool { return publicip.Is(a) && !g.own.has(a) }

// routable reports whether an address can be the target of a connection at all, whoever grants it.
func routable(a netip.Addr) bool {
	broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return a.IsValid() && a.Zone() == "" && !a.Is4In6() && !a.IsUnspecified() && !a.IsMulticast() && a != broadcast
}

// ownFor is how long the list of this machine's addresses counts as current.
const ownFor = 10 * time.Second

// own knows the addresses of this machine. A public one among them is like loopback: a listener
// there is reached without passing any firewall.
type own struct {
	list func() ([]net.Addr, error)
	now  func() time.Time

	mu    sync.Mutex // guards the fields below; a leaf lock
	until time.Time
	addrs map[netip.Addr]bool
}

// has reports whether a is an address of this machine; true when that cannot be found out.
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
