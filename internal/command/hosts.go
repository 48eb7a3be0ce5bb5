package command

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"palyra/internal/program"
)

// maxHosts bounds how many places a command can name.
const maxHosts = 8

// Hosts are the places that a command's words tell it to fetch from, as host:port: those of plain http and
// https URLs with a name, each once. Hosts named here are granted with the command, so a word counts only
// where the program certainly connects to it: in one simple command, with no option whose values are not
// known. Any other host is asked about when the program connects.
func Hosts(argv []string) []string {
	if !bounded(argv) {
		return nil
	}
	r := &reading{tables: shipped()}
	r.read(Input{Argv: argv}, nil)
	if r.several {
		return nil
	}
	return r.hosts
}

// fetch notes whether a program fetches and where it would go. What git pull brings is the work itself.
func (r *reading) fetch(name string, args []word) {
	verb := name
	if name == "git" {
		verb, _ = gitCommand(fixedBegin(args))
	}
	curls := r.tables.programs["curl"] != nil && r.tables.programs[name] == r.tables.programs["curl"]
	r.fetches = r.fetches || curls || verb == "git clone" || verb == "git fetch" || verb == "git submodule add"
	r.saves = r.saves || verb == "git clone" || name == "wget" || name == "aria2c" || curls && slices.ContainsFunc(args, func(w word) bool {
		return strings.HasPrefix(w.text, "--output") || strings.HasPrefix(w.text, "--remote-name") ||
			strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, "oO")
	})
	if curls || name == "wget" {
		here := onlyLoopback(name, args)
		r.local, r.afar = r.local || here, r.afar || !here
	}
	for _, w := range repositories(name, args) {
		if at := placeOf(w); at != "" && len(r.hosts) < maxHosts && !slices.Contains(r.hosts, at) {
			r.hosts = append(r.hosts, at)
		}
	}
}

// elsewhere are options that lead to other places than the operands say.
var elsewhere = []string{
	"-x", "-K", "-i", "-e", "-B", "--proxy", "--config", "--resolve", "--input-file", "--execute", "--interface", "--base",
}

// reachesBeyond reports whether another program than curl and wget is there to reach other machines.
func (r *reading) reachesBeyond() bool {
	return slices.ContainsFunc(r.programs, func(name string) bool {
		return name != "curl" && name != "wget" && slices.Contains(program.Shipped().Beyond, name)
	})
}

// onlyLoopback reports whether a program that fetches is told to go to the loopback address alone. In a network of its
// own that is the run itself.
func onlyLoopback(name string, args []word) bool {
	ops, ok := fetchers[name].operands(args, false)
	return ok && len(ops) > 0 && !slices.ContainsFunc(ops, func(w word) bool { return !loopback(w.text) }) &&
		!slices.ContainsFunc(args, func(w word) bool {
			return slices.ContainsFunc(elsewhere, func(o string) bool { return strings.HasPrefix(w.text, o) })
		})
}

// loopback reports whether a text is a URL of this machine itself, with or without its scheme.
func loopback(text string) bool {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && !strings.ContainsAny(text, "{}[]\\") &&
		(u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1")
}

// fixedBegin is the words before the first that is not known.
func fixedBegin(args []word) []word {
	if i := slices.IndexFunc(args, func(w word) bool { return !w.fixed() }); i >= 0 {
		return args[:i]
	}
	return args
}

// placeOf is the host:port of a word that is a URL of a public name, else "".
func placeOf(w word) string {
	u, err := url.Parse(w.text)
	if err != nil || !w.fixed() || strings.ContainsAny(w.text, "{}[]") { // curl makes several of one word
		return ""
	}
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return ""
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	host := strings.ToLower(u.Hostname())
	if _, err := netip.ParseAddr(host); err == nil || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" ||
		!strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") {
		return ""
	}
	return net.JoinHostPort(host, port)
}
