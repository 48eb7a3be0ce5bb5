package fetch

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/show"
)

// target is an address for a request, in its one form.
type target struct {
	url      *url.URL
	hostPort string // as plans name it
}

// origin is the scheme, host and port of the address.
func (t target) origin() string { return t.url.Scheme + "://" + t.hostPort }

// target reads an address. The request goes to exactly the host that was checked: it is the one in the result.
func (c Config) target(raw string) (target, error) {
	if len(raw) > maxURL {
		return target{}, malformed("the address has %d bytes", len(raw)).WithRemedy("give at most %d", maxURL)
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r == '\ufffd' }) {
		return target{}, malformed("the address has spaces, control characters or backslashes").WithRemedy("write them as %%20 and so on")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return target{}, malformed("%s is not an address", show.Arg(palyra.Clip(raw, 200))).WithCause(err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, malformed("only http and https are fetched, not %s", show.Arg(palyra.Clip(u.Scheme, 32))).
			WithRemedy("begin the address with https://")
	case u.Opaque != "" || u.Hostname() == "":
		return target{}, malformed("the address names no host").WithRemedy("write https://HOST/PATH")
	case u.User != nil:
		return target{}, palyra.Errorf(palyra.Denied, palyra.ReasonMalformedInput,
			"the address holds a user name or a password, and would be recorded in clear").
			WithRemedy("leave it out; %s", byBinding)
	}
	at, err := c.hostPort(u)
	if err != nil {
		return target{}, err
	}
	u.Host = strings.TrimSuffix(at, ":"+usualPort(u.Scheme))
	u.Fragment, u.RawFragment = "", "" // never sent
	u.RawQuery = ascii(u.RawQuery)
	u.Path = cmp.Or(u.Path, "/")
	return target{u, at}, nil
}

// ascii escapes characters that an address may not contain.
func ascii(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c > ' ' && c < 0x7f {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

func usualPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// hostPort is the host:port of an address, as plans have it.
func (c Config) hostPort(u *url.URL) (string, error) {
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return "", malformed("the address has an empty port")
		}
		port = usualPort(u.Scheme)
	}
	return c.place(u.Hostname(), port)
}

// place checks a host and a port and returns them in their one form.
func (c Config) place(host, port string) (string, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", malformed("%s is not a port", show.Arg(palyra.Clip(port, 32))).WithRemedy("give a number from 1 to 65535")
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	foreign := strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f })
	if !foreign || c.Hosts == nil {
		if host, err = plainHost(host); err != nil {
			return "", err
		}
	}
	at := net.JoinHostPort(host, port)
	if c.Hosts == nil {
		return at, nil
	}
	got, err := c.Hosts.Check([]string{at})
	if err != nil {
		return "", err
	}
	if len(got) != 1 {
		return "", malformed("%s is not one host", show.Arg(palyra.Clip(at, 200)))
	}
	name, again, err := net.SplitHostPort(got[0])
	if err != nil || again != port {
		return "", malformed("%s is not host:port", show.Arg(palyra.Clip(got[0], 200)))
	}
	if _, err := plainHost(name); err != nil {
		return "", err
	}
	return got[0], nil
}

// plainHost takes a name or an address in its one form. Numbers in other forms,
// which some resolvers read as addresses, are refused.
func plainHost(host string) (string, error) {
	bad := malformed("%s is not a host", show.Arg(palyra.Clip(host, 200))).
		WithRemedy("give a name in ASCII letters (xn-- and so on for others), or an address in its usual form")
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" || a.Is4In6() {
			return "", bad
		}
		return a.String(), nil
	}
	if host == "" || len(host) > 253 {
		return "", bad
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", bad
		}
		last = label
	}
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", bad
	}
	return host, nil
}

// allTargets lists every target that may be reached.
func (c Config) allTargets(more []string, first string) ([]string, error) {
	if len(more) > maxElsewhere {
		return nil, malformed("%d hosts are too many", len(more)).WithRemedy("give at most %d", maxElsewhere)
	}
	all := []string{first}
	for _, e := range more {
		host, port, err := net.SplitHostPort(e)
		if err != nil {
			return nil, malformed("%s is not host:port", show.Arg(palyra.Clip(e, 128))).WithRemedy("for example example.org:443")
		}
		at, err := c.place(host, port)
		if err != nil {
			return nil, err
		}
		all = append(all, at)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
