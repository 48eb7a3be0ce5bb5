package config

import (
	"fmt"
	"net"
	"net/netip"
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
