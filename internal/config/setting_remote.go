package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// remoteSettings are about other machines, browsers, and how much each may ask for.
var remoteSettings = []setting{
	{
		key: "remote.listen", text: "where paired devices come in, as host:port or :port; closed until the first pairing; off never opens it",
		check: listenAddress,
	},
	{
		key: "remote.advertise", text: "addresses that a pairing code names, as host:port; an empty list names those of this machine",
		check: dialAddress,
	},
	{
		key: "remote.certificate_days", text: "how long a device's certificate holds; it is renewed after two thirds", min: 1, max: 365,
	},
	{
		key: "console.listen", text: "where browsers on this machine come in, as a loopback address with a port; off closes it",
		check: loopbackAddress,
	},
	{
		key: "console.https_listen", text: "where browsers of other machines come in over HTTPS, as host:port or :port, by the name and the " +
			"certificate below; off closes it",
		check: listenAddress,
	},
	{key: "console.https_name", text: "the name that browsers of other machines call the console by, without a port", check: hostName},
	{
		key: "console.certificate", text: "the file with the certificate of that name and those above it, PEM; a new one is read by itself",
		check: absolute,
	},
	{key: "console.key", text: "the file with the certificate's key, PEM, readable by the daemon's user or root alone", check: absolute},
	{
		key: "console.plain_listen", text: "where browsers of other machines look and deny over plain HTTP, which others on the way can read " +
			"and change, as an IP address with a port; off closes it",
		check: plainAddress,
	},
	{
		key: "console.push", text: "whom push services of browsers' makers write to about this daemon, as mailto:… or https://…; with it a " +
			"browser that is closed can be told by them that a question waits; off tells nobody", check: pushContact,
	},
	{
		key: "console.push_services", text: "push services that browsers may name, as host or *.suffix, with a port where it is not 443; one " +
			"that is an address may be of this machine or network", check: pushService,
	},
	{
		key: "limits.requests_per_second", text: "requests of one credential, of any kind; 0 is no limit", min: 0, max: 1_000_000,
	},
	{
		key: "limits.propose_per_second", text: "calls and runs that one credential, or one run, may propose; 0 is no limit", min: 0,
		max: 1_000_000,
	},
	{key: "limits.decide_per_second", text: "decisions of one credential; 0 is no limit", min: 0, max: 1_000_000},
	{
		key: "limits.login_per_minute", text: "tries to sign in or to pair from one address; they back off and lock", min: 1, max: 1000,
	},
}

// listenAddress is off, or host:port where the host may be missing.
func listenAddress(s string) error {
	if s == "off" {
		return nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || !portNumber(port) || host != "" && net.ParseIP(host) == nil {
		return fmt.Errorf("%s is not an address with a port, like :7443 or 192.0.2.1:7443", strconv.Quote(s))
	}
	return nil
}

func dialAddress(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || !portNumber(port) || port == "0" || host == "" || len(host) > maxName {
		return fmt.Errorf("%s is not host:port", strconv.Quote(s))
	}
	return nil
}

func loopbackAddress(s string) error {
	if s == "off" {
		return nil
	}
	host, port, err := net.SplitHostPort(s)
	if ip := net.ParseIP(host); err != nil || !portNumber(port) || ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%s is not a loopback address with a port, like 127.0.0.1:7142: the console speaks plain HTTP and stays on "+
			"this machine", strconv.Quote(s))
	}
	return nil
}

// plainAddress is off, or one address of this machine that others reach, with a port: browsers call it by that alone.
func plainAddress(s string) error {
	if s == "off" {
		return nil
	}
	at, err := netip.ParseAddrPort(s)
	if err != nil || at.Addr().IsUnspecified() || at.String() != s {
		return fmt.Errorf("%s is not one address with a port, like 192.0.2.1:7145", strconv.Quote(s))
	}
	return nil
}

// pushContact is off, or an address that a push service accepts (RFC 8292, 2.1).
func pushContact(s string) error {
	if s == "off" {
		return nil
	}
	u, err := url.Parse(s)
	mail := err == nil && u.Scheme == "mailto" && strings.Contains(strings.Trim(u.Opaque, "@"), "@")
	if err != nil || len(s) > maxName || !mail && (u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("%s is neither off nor a contact like mailto:you@your.domain or https://your.domain/", strconv.Quote(s))
	}
	return nil
}

// pushService is a host or a suffix, with a port or without.
func pushService(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = s, "443"
	}
	name, wild := strings.CutPrefix(host, "*.")
	if !portNumber(port) || name == "" || !strings.Contains(name, ".") || net.ParseIP(name) != nil && wild ||
		net.ParseIP(name) == nil && hostName(name) != nil {
		return fmt.Errorf("%s is not a push service, like push.example or *.push.example:8443", strconv.Quote(s))
	}
	return nil
}

// hostName is a name of small letters, digits and dashes, in parts; empty: there is none.
func hostName(s string) error {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' }
	if s == "" {
		return nil
	}
	if len(s) > maxName || strings.ContainsFunc(s, odd) || strings.Contains("."+s+".", "..") || net.ParseIP(s) != nil ||
		s == "localhost" || strings.HasSuffix(s, ".localhost") {
		return fmt.Errorf("%s is not a name that other machines can call this one by, like laptop.example", strconv.Quote(s))
	}
	return nil
}

func portNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}
