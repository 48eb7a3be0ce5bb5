package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"palyra"
)

const (
	cacheFor   = 15 * time.Second // short, because the name's own lifetime is not known
	cacheNames = 1024
	lookupTime = 10 * time.Second
	maxAddrs   = 16 // of a name that are looked at
)

// resolver looks up names that were let through, and remembers answers for a short time. Whether an
// address may be dialled is decided anew at every use.
type resolver struct {
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	now    func() time.Time

	mu    sync.Mutex // guards the field below; a leaf lock
	cache map[string]answer
}

type answer struct {
	addrs []netip.Addr
	until time.Time
}

func newResolver(server string, d *net.Dialer, now func() time.Time) *resolver {
	r := &net.Resolver{}
	if server != "" {
		r.PreferGo = true
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return d.DialContext(ctx, network, server)
		}
	}
	lookup := func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		list, err := r.LookupNetIP(ctx, network, host)
		for i, a := range list {
			list[i] = a.Unmap() // the library returns the IPv4 addresses of the hosts file as IPv6
		}
		return list, err
	}
	return &resolver{lookup: lookup, now: now, cache: map[string]answer{}}
}

// addrs returns the addresses of a name. A local one is not looked up.
func (r *resolver) addrs(ctx context.Context, name string) ([]netip.Addr, error) {
	if (host{name: name}).local() {
		return []netip.Addr{loopback4, loopback6}, nil
	}
	if a, ok := r.known(name); ok {
		return a, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	absolute := name
	if strings.Contains(name, ".") {
		absolute += "." // so that the system's search list does not make another name of it
	}
	list, err := r.lookup(ctx, "ip", absolute)
	if err == nil && len(list) == 0 {
		err = errors.New("no addresses")
	}
	if err != nil {
		return nil, unresolved(name, err)
	}
	list = list[:min(len(list), maxAddrs)]
	r.keep(name, list)
	return list, nil
}

func unresolved(name string, err error) *palyra.Error {
	var d *net.DNSError
	if errors.As(err, &d) && d.IsNotFound {
		return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no host %s", name).WithRemedy("check the name").WithCause(err)
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonNotFound, "%s could not be looked up", name).
		WithRemedy("check that this machine can look names up, and try again").WithCause(err)
}

func (r *resolver) known(name string) ([]netip.Addr, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.cache[name]
	return a.addrs, ok && r.now().Before(a.until)
}

func (r *resolver) keep(name string, list []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if len(r.cache) >= cacheNames {
		for n, a := range r.cache {
			if now.After(a.until) {
				delete(r.cache, n)
			}
		}
	}
	if len(r.cache) < cacheNames {
		r.cache[name] = answer{list, now.Add(cacheFor)}
	}
}
