package lend

import (
	"net"
	"strconv"

	"palyra/secrets"
)

// trusting are the variables by which programs find authorities.
var trusting = []string{
	"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "PIP_CERT",
	"AWS_CA_BUNDLE", "DENO_CERT",
}

// Bundle says where the room has the authorities that its programs are to trust: the system's, and the run's own.
func (d *Desk) Bundle(path string) { d.bundle = path }

// Env returns the variables of the run: the placeholders, and where the authorities are.
func (d *Desk) Env() (env []string) {
	if d == nil {
		return nil
	}
	helpers := 0
	for i, l := range d.loans {
		name := l.Env
		if l.Kind == secrets.Git {
			if name == "" {
				name = "PALYRA_GIT_" + strconv.Itoa(i)
			}
			for _, at := range l.Hosts {
				env = append(env, "GIT_CONFIG_KEY_"+strconv.Itoa(helpers)+"=credential.https://"+hostInURL(at)+".helper",
					"GIT_CONFIG_VALUE_"+strconv.Itoa(helpers)+"="+helper(l.User, name))
				helpers++
			}
		}
		if name != "" {
			env = append(env, name+"="+l.Placeholder)
		}
	}
	if helpers > 0 {
		env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(helpers), "GIT_TERMINAL_PROMPT=0")
	}
	env = append(env, d.regions()...)
	for _, v := range trusting {
		env = append(env, v+"="+d.bundle)
	}
	return env
}

// hostInURL is host:port as URLs have it.
func hostInURL(at string) string {
	if host, port, err := net.SplitHostPort(at); err == nil && port == "443" && net.ParseIP(host) == nil {
		return host
	}
	return at
}

// helper is a credential helper that gives git a user name and what a variable holds. User names have no quotes in them.
func helper(user, variable string) string {
	return `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' ` + quote(user) + ` "$` + variable + `"; }; f`
}

func quote(s string) string {
	out := "'"
	for _, r := range s {
		if r == '\'' {
			out += `'\''`
			continue
		}
		out += string(r)
	}
	return out + "'"
}
