package fetch

import (
	"net/http"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/show"
)

const byBinding = "secrets come by binding: name it in bindings, and write {{NAME}} where its value goes"

// connection are headers that belong to the connection or that this tool sets itself.
var connection = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Via",
}

// secretParts are parts of names whose value is a secret. Names are compared without dashes and underscores.
var secretParts = []string{
	"auth", "cookie", "token", "secret", "password", "passwd", "passphrase", "credential", "apikey", "accesskey", "privatekey", "session",
	"csrf", "xsrf",
}

// harmless are names with such a part and without a secret.
var harmless = []string{"Author", "X-Author", "Www-Authenticate"}

// said are the headers that go to another origin too: they say what the caller understands, and
// nothing about who asks.
var said = []string{"Accept", "Accept-Language", "User-Agent"}

// headers checks the headers of a call.
func headers(given map[string]string, bindings []string) (http.Header, error) {
	if len(given) > maxHeaders {
		return nil, malformed("%d headers are too many", len(given)).WithRemedy("give at most %d", maxHeaders)
	}
	all, h := 0, http.Header{}
	for name, value := range given {
		if err := header(name, value, bindings); err != nil {
			return nil, err
		}
		key := http.CanonicalHeaderKey(name)
		if h[key] != nil {
			return nil, malformed("the header %s is given twice", key).WithRemedy("join the values with a comma")
		}
		h[key] = []string{strings.Trim(value, " \t")}
		if all += len(name) + len(value); all > maxAll {
			return nil, malformed("the headers are too long").WithRemedy("give at most %d bytes", maxAll)
		}
	}
	return h, nil
}

// header checks one header. A line break in it would begin another. Where a secret belongs the placeholder of a binding
// may stand.
func header(name, value string, bindings []string) error {
	shown := show.Arg(palyra.Clip(name, 64))
	key := http.CanonicalHeaderKey(name)
	switch {
	case name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return !tokenChar(r) }):
		return malformed("%s cannot be the name of a header", shown).WithRemedy("use letters, digits and dashes")
	case len(value) > maxValue:
		return malformed("the header %s has %d bytes", shown, len(value)).WithRemedy("give at most %d", maxValue)
	case strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }):
		return malformed("the header %s has characters that no header may have", shown).WithRemedy("use plain ASCII, on one line")
	case slices.Contains(connection, key) || strings.HasPrefix(key, "Proxy-") && !secretive(key):
		return palyra.Errorf(palyra.Denied, palyra.ReasonMalformedInput, "the header %s belongs to the connection, which is not the caller's",
			shown).
			WithRemedy("leave it out")
	case secretive(key) && !standsFor(strings.Trim(value, " \t"), bindings):
		return palyra.Errorf(palyra.Denied, palyra.ReasonMalformedInput, "the header %s carries a secret, and would be recorded in clear", shown).
			WithRemedy("leave it out; %s", byBinding)
	}
	return nil
}

// tokenChar reports whether a character may stand in a header's name (RFC 9110,
// 5.6.2).
func tokenChar(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// secretive reports whether a name says that its value is a secret.
func secretive(name string) bool {
	if slices.Contains(harmless, name) {
		return false
	}
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
	return slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(name, part) })
}

// dropped are headers of answers that are not delivered.
var dropped = []string{"Set-Cookie", "Set-Cookie2"}

// delivered returns an answer's headers for the caller: bounded, and without cookies. cut says that
// some are missing.
func delivered(h http.Header) (out map[string]string, cut bool) {
	out = map[string]string{}
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	all := 0
	for _, name := range names {
		if slices.Contains(dropped, name) {
			continue
		}
		value := strings.ToValidUTF8(strings.Join(h[name], ", "), "\ufffd")
		if len(out) == maxHeaders || len(name) > maxName || all+len(name)+len(value) > maxAll {
			cut = true
			continue
		}
		all += len(name) + len(value)
		out[name] = value
	}
	return out, cut
}
