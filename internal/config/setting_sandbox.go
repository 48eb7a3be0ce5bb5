package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"palyra/internal/dotenv"
)

// sandboxSettings are about programs and how they reach others.
var sandboxSettings = []setting{
	{
		key: "process.tier", text: "the tier of programs whose call names none: c or b; off runs no programs", check: oneOf("c", "b", "off"),
	},
	{key: "process.cpu_ms", text: "processor time of a program and all it starts", min: 1, max: 30 * day},
	{key: "process.memory_bytes", text: "memory of a program and all it starts", min: 16 << 20, max: 1 << 50},
	{key: "process.processes", text: "processes and threads at once", min: 8, max: 1 << 20},
	{key: "process.open_files", text: "open files of one process", min: 32, max: 1 << 20},
	{key: "process.file_bytes", text: "size of one file it writes", min: 4096, max: 1 << 50},
	{key: "process.emitted_bytes", text: "bytes printed in all before a program is ended", min: 4096, max: 1 << 50},
	{
		key: "process.disk_bytes", text: "bytes written to disk in all before a program is ended", min: 4096, max: 1 << 50,
	},
	{
		key: "process.stage_bytes", text: "bytes that a staged program may have on its layer before it is ended; more is not kept", min: 4096,
		max: 1 << 50,
	},
	{key: "process.stage_names", text: "files and directories that it may have there", min: 16, max: 50_000_000},
	{
		key:  "process.all_stages_bytes",
		text: "bytes on the layers of all programs, with what waits for an answer; the program with the most is ended", min: 4096, max: 1 << 50,
	},
	{
		key: "process.stage", text: "which programs of tier C write to a layer of their own: all, or inputs (those with inputs in their " +
			"workspace)",
		check: oneOf("inputs", "all"),
	},
	{key: "process.grace_ms", text: "time between SIGTERM and SIGKILL", min: 0, max: 600_000},
	{
		key: "process.cgroup", text: "auto, off, or a delegated directory of the cgroup file system", check: autoOrAbsolute,
	},
	{key: "process.warm", text: "sandbox cells kept ready", min: 0, max: 64},
	{key: "process.cell", text: "palyra-cell, when not beside palyrad or in ../libexec/palyra", check: absolute},
	{key: "process.dir", text: "where runs have their private homes, when not in the usual place", check: absolute},
	{key: "process.bwrap", text: "bubblewrap, for tier c", check: absolute},
	{
		key: "process.tmp_bytes", text: "size of the private home and of the private /tmp of a program in tier c", min: 1 << 20, max: 1 << 50,
	},
	{
		key: "process.posture", text: "require refuses tiers that were not probed since this machine started, or that did not hold; off " +
			"does not", check: oneOf("off", "require"),
	},
	{
		key: "process.unproven", text: "seatbelt (macOS) or jobobject (Windows) uses that tier c, which nobody has shown to hold; off does not",
		check: oneOf("off", "seatbelt", "jobobject"),
	},
	{
		key: "process.quarantine_days", text: "days that what a run made of sealed paths is kept in quarantine", min: 1, max: 36500,
	},
	{
		key: "process.quarantine_bytes", text: "bytes that the quarantine may take in all; the oldest goes for what is new", min: 1 << 20,
		max: 1 << 50,
	},
	{
		key: "process.quarantine_workspace_bytes", text: "bytes that may lie there from one workspace; one path that is more is removed",
		min: 1 << 20, max: 1 << 50,
	},
	{
		key: "process.cache_days", text: "days that a workspace's caches are kept when no run uses them", min: 1, max: 36500,
	},
	{
		key: "dotenv.mask", text: "on shows agents and programs files like .env with placeholders for their secret values; off shows the values",
		check: oneOf("on", "off"),
	},
	{
		key: "dotenv.unmasked", text: "workspaces in which the values are shown all the same, with everything below them", check: absolute,
	},
	{
		key: "dotenv.names", text: "further names of files that are masked, like secrets.ini or *.secrets", check: dotenv.CheckName,
	},
	{
		key: "undo.days", text: "days that what calls replaced is kept, so that they can be undone", min: 1, max: 36500,
	},
	{
		key: "undo.bytes", text: "bytes of it that are kept in all; the oldest goes for what is new", min: 1 << 20, max: 1 << 50,
	},
	{
		key: "egress.mode", text: "strict lets programs reach granted hosts only; preflight checks them before the start; none lets " +
			"them reach every public host", check: oneOf("strict", "preflight", "none"),
	},
	{
		key:   "egress.allowed_hosts",
		text:  "hosts that may be asked for: host, *.suffix, each with or without :port; an empty list lets every host be asked for",
		check: hostRule,
	},
	{
		key: "egress.private_ranges", text: "private address ranges that granted names may lead to, like 10.1.0.0/16", check: prefix,
	},
	{
		key: "egress.host_network", text: "on lets programs reach the host's own services and private addresses in mode none",
		check: oneOf("on", "off"),
	},
	{
		key: "egress.ask", text: "on asks for a host that was not granted while the connection waits; off refuses it", check: oneOf("on", "off"),
	},
	{
		key: "egress.wildcard_names", text: "different names below one granted *.suffix that a run may reach", min: 1, max: 65536,
	},
	{key: "egress.resolver", text: "DNS server, as address:port, when not the system's", check: addressPort},
	{
		key: "egress.upstream", text: "proxy that everything goes through: http://host:port or socks5://host:port", check: upstream,
	},
}

func hostRule(s string) error {
	host, port, found := strings.Cut(s, ":")
	if n, err := strconv.ParseUint(port, 10, 16); found && (err != nil || n == 0) {
		return fmt.Errorf("%s: the port is not a number from 1 to 65535", strconv.Quote(s))
	}
	body := strings.TrimPrefix(host, "*.")
	if body == "" || len(host) > maxName || strings.Trim(body, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		return fmt.Errorf("%s is not a host in lower case, or *.suffix", strconv.Quote(s))
	}
	return nil
}

func prefix(s string) error {
	if p, err := netip.ParsePrefix(s); err != nil || p.Masked() != p {
		return fmt.Errorf("%s is not an address range like 10.1.0.0/16", strconv.Quote(s))
	}
	return nil
}

func addressPort(s string) error {
	if s == "" {
		return nil
	}
	if a, err := netip.ParseAddrPort(s); err != nil || a.Port() == 0 {
		return fmt.Errorf("%s is not an address with a port, like 192.0.2.1:53", strconv.Quote(s))
	}
	return nil
}

func upstream(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "socks5" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s is not http://host:port or socks5://host:port", strconv.Quote(s))
	}
	if u.User != nil {
		return fmt.Errorf("a password of the proxy cannot stand here: the configuration is shown to people")
	}
	if _, port, err := net.SplitHostPort(u.Host); err != nil || port == "" {
		return fmt.Errorf("%s names no port", strconv.Quote(s))
	}
	return nil
}
