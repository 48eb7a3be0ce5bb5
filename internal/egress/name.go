package egress

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"palyra"
	"palyra/internal/egress/sniff"
)

// The most bytes of a host name, and of one of its labels.
const (
	maxLabel = 63
	maxShown = 128 // of foreign text in a message
)

// host is a name or an address in the one spelling in which hosts are compared. Exactly one of the two is set.
type host struct {
	name string // lower-case ASCII, no dot at the end
	addr netip.Addr
}

// literal reports whether the host is an address.
func (h host) literal() bool { return h.addr.IsValid() }

// String implements fmt.Stringer.
func (h host) String() string {
	if h.literal() {
		return h.addr.String()
	}
	return h.name
}

// local reports whether a name means this very machine, whatever name servers answer (RFC 6761, 6.3).
func (h host) local() bool { return h.name == "localhost" || strings.HasSuffix(h.name, ".localhost") }

// target is a host and a port that a connection is for.
type target struct {
	host
	port int
}

// String writes a target as plans do.
func (t target) String() string { return net.JoinHostPort(t.host.String(), strconv.Itoa(t.port)) }

// badHost is the error for a host that cannot be read.
func badHost(s, why string) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q is not a host: %s", palyra.Clip(s, maxShown), why).
		WithRemedy("write a host name or an address, for example example.org, 192.0.2.1 or [2001:db8::1]")
}

// parseHost reads a host as programs and people spell it and returns the one spelling. It refuses a
// spelling that others could read differently: addresses as one number, in octal or hexadecimal,
// with a zone, names that end in a number.
func parseHost(s string) (host, error) {
	if len(s) == 0 || len(s) > 4*sniff.MaxName {
		return host{}, badHost(s, "it is empty or too long")
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		if !ok || err != nil || !a.Is6() {
			return host{}, badHost(s, "what stands in brackets is an IPv6 address")
		}
		return addressHost(s, a)
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return addressHost(s, a)
	}
	return parseName(s)
}

func addressHost(s string, a netip.Addr) (host, error) {
	if a.Zone() != "" {
		return host{}, badHost(s, "an address with a zone means something on one machine only")
	}
	return host{addr: a.Unmap()}, nil
}

// parseName reads a host name.
func parseName(s string) (host, error) {
	name, err := asciiName(s)
	if err != nil {
		return host{}, badHost(s, "it is not a valid international name").WithCause(err)
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "" || len(name) > sniff.MaxName {
		return host{}, badHost(s, "it is empty or too long")
	}
	for label := range strings.SplitSeq(name, ".") {
		if why := badLabel(label); why != "" {
			return host{}, badHost(s, why)
		}
	}
	if last := name[strings.LastIndexByte(name, '.')+1:]; numeric(last) {
		return host{}, badHost(s, "it ends in a number, so it could be taken for an address in an unusual spelling")
	}
	return host{name: name}, nil
}

// asciiName maps a name to ASCII. A label that is in the international form already must be the result of the
// mapping, or two spellings would be one name. Another label must be the result of mapping back, except for
// capitals: invisible, substituted or composed characters would otherwise be changed silently.
func asciiName(s string) (string, error) {
	plain := true
	for i := range len(s) {
		plain = plain && s[i] < 0x80
	}
	if plain && !strings.Contains(strings.ToLower(s), "xn--") {
		return s, nil
	}
	if !utf8.ValidString(s) {
		return "", errNotText
	}
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(s, "."))
	if err != nil {
		return "", err
	}
	if again, err := idna.Lookup.ToASCII(name); err != nil || again != name {
		return "", errNotText
	}
	if plain {
		return name, nil
	}
	shown, err := idna.Lookup.ToUnicode(name)
	if err != nil || shown == name || shown != strings.ToLower(strings.TrimSuffix(s, ".")) {
		return "", errNotText
	}
	return name, nil
}

var errNotText = errors.New("egress: not one name")

func badLabel(l string) string {
	switch {
	case l == "" || len(l) > maxLabel:
		return "a part of it is empty or too long"
	case l[0] == '-' || l[len(l)-1] == '-':
		return "a part of it begins or ends with a hyphen"
	case strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return "it has a character that names do not have"
	}
	return ""
}

// numeric reports whether some resolvers would take a last label for a number: digits only, or
// hexadecimal with its prefix.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok && strings.Trim(hex, "0123456789abcdef") == "" {
		return true
	}
	return strings.Trim(label, "0123456789") == ""
}

// parsePort reads a port in its one spelling.
func parsePort(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

// splitTarget splits "host:port". Brackets stay with an IPv6 address.
func splitTarget(s string) (h, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.HasSuffix(s, "]") {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// parseTarget reads "host:port". An IPv6 address must be in brackets.
func parseTarget(s string) (target, error) {
	name, digits, ok := splitTarget(s)
	port, valid := parsePort(digits)
	if !ok || !valid || (strings.Contains(name, ":") && !strings.HasPrefix(name, "[")) {
		return target{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q is not host:port", palyra.Clip(s, maxShown)).
			WithRemedy("write the host and its port, for example example.org:443")
	}
	h, err := parseHost(name)
	return target{h, port}, err
}
