package egress

import (
	"encoding/binary"
	"net/netip"
	"sync"
)

// The addresses in a run's own network: the server's address has the proxy and the name server,
// granted names follow from first on, so that equal plans have equal doors, and every other name
// gets an address when it is asked for.
const (
	serverOffset  = 1
	grantedOffset = 16
	otherOffset   = 1024
	maxOthers     = 8192
	proxyPort     = 3128
	dnsPort       = 53
)

// syntheticBits is the size of the range.
const syntheticBits = 15

var firstSynthetic = netip.AddrFrom4([4]byte{198, 18, 0, 0})

// book assigns synthetic addresses to names. An address is never given to a second name.
type book struct {
	base netip.Addr

	mu     sync.Mutex // guards the fields below; a leaf lock
	byName map[string]netip.Addr
	byAddr map[netip.Addr]string
	others int
}

func newBook(base netip.Addr, granted []string) *book {
	b := &book{base: base, byName: map[string]netip.Addr{}, byAddr: map[netip.Addr]string{}}
	for i, n := range granted {
		b.put(n, offset(base, grantedOffset+i))
	}
	return b
}

func (b *book) put(name string, a netip.Addr) { b.byName[name], b.byAddr[a] = a, name }

// address returns the address of a name; false means that there are too many names.
func (b *book) address(name string) (netip.Addr, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.byName[name]; ok {
		return a, true
	}
	if b.others >= maxOthers {
		return netip.Addr{}, false
	}
	a := offset(b.base, otherOffset+b.others)
	b.others++
	b.put(name, a)
	return a, true
}

// name returns the name that has an address.
func (b *book) name(a netip.Addr) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.byAddr[a]
	return n, ok
}

// inRange reports whether an address is synthetic, known or not.
func (b *book) inRange(a netip.Addr) bool {
	return netip.PrefixFrom(b.base, syntheticBits).Contains(a)
}

func offset(base netip.Addr, n int) netip.Addr {
	b := base.As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
	return netip.AddrFrom4(b)
}
