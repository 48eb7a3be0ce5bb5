package sshkey

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" // of hashed names in known_hosts, which have no other
	"encoding/base64"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// HostKeys reads the host keys of servers, host:port, from lines of known_hosts or plain public keys, into their one
// spelling. Lines of other servers are refused: whoever gives them thinks of something else.
func HostKeys(lines, hosts []string) (keys []string, err error) {
	for _, text := range lines {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			k, err := hostKey(line, hosts)
			if err != nil {
				return nil, err
			}
			keys = append(keys, Line(k))
		}
	}
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) == 0 {
		return nil, unusable("there is no host key")
	}
	return keys, nil
}

func hostKey(line string, hosts []string) (ssh.PublicKey, error) {
	var k ssh.PublicKey
	if plain, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line)); err == nil && len(options) == 0 {
		k = plain
	} else {
		marker, names, known, _, rest, err := ssh.ParseKnownHosts([]byte(line))
		switch {
		case err != nil || len(bytes.TrimSpace(rest)) > 0:
			return nil, unusable("a line is neither of known_hosts nor a public key").
				WithRemedy("give what 'ssh-keyscan HOST' prints, once it is compared")
		case marker != "":
			return nil, unusable("lines of known_hosts with @%s are not taken", marker).WithRemedy("give the server's own key")
		case !slices.ContainsFunc(hosts, func(at string) bool { return named(names, at) }):
			return nil, unusable("a line of known_hosts is for another server than %s", strings.Join(hosts, ", "))
		}
		k = known
	}
	if _, cert := k.(*ssh.Certificate); cert {
		return nil, unusable("certificates of hosts are not taken").WithRemedy("give the server's own key")
	}
	return k, nil
}

// named reports whether names of known_hosts have a server among them.
func named(names []string, at string) bool {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return false
	}
	name := knownName(host, port)
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
		parts := strings.Split(n, "|")
		if len(parts) != 4 || parts[0] != "" || parts[1] != "1" {
			continue
		}
		salt, err1 := base64.StdEncoding.DecodeString(parts[2])
		sum, err2 := base64.StdEncoding.DecodeString(parts[3])
		mac := hmac.New(sha1.New, salt)
		_, _ = mac.Write([]byte(name))
		if err1 == nil && err2 == nil && hmac.Equal(mac.Sum(nil), sum) {
			return true
		}
	}
	return false
}

// knownName is a server as known_hosts has it.
func knownName(host, port string) string {
	if port == "22" {
		return strings.ToLower(host)
	}
	return "[" + strings.ToLower(host) + "]:" + port
}

// Known writes known_hosts for servers with host keys.
func Known(hosts, keys []string) string {
	var b strings.Builder
	for _, at := range hosts {
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			continue
		}
		for _, k := range keys {
			b.WriteString(knownName(host, port) + " " + k + "\n")
		}
	}
	return b.String()
}
