package upstream

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/show"
)

const (
	definitionDomain = "upstream/v1"
	maxCommand       = 256
	maxText          = 32 << 10
	maxEnv           = 64
	maxEgress        = 32
	maxTimeout       = 24 * 60 * 60 * 1000
	minTimeout       = 100
)

// nameForm is the form of an upstream's name.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// CheckName refuses what cannot be an upstream's name.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "that is not a name for an MCP server").
			WithRemedy("use 1 to 32 characters out of a-z, 0-9 and '-', which neither begins nor ends it")
	}
	if strings.HasPrefix(name, "palyra") {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "names that begin with palyra are Palyra's own").
			WithRemedy("choose another name")
	}
	return nil
}

// Check refuses a definition that makes no sense, and returns a good one in its one form.
func Check(d palyra.UpstreamDefinition) (palyra.UpstreamDefinition, error) {
	d, err := checkBindings(d)
	switch {
	case err != nil:
		return d, err
	case d.TimeoutMS != 0 && (d.TimeoutMS < minTimeout || d.TimeoutMS > maxTimeout):
		return d, badDefinition("the timeout of a call is %d to %d ms", minTimeout, maxTimeout)
	case d.Transport == palyra.TransportStdio:
		return checkStdio(d)
	case d.Transport == palyra.TransportHTTP:
		return checkHTTP(d)
	}
	return d, badDefinition("there is no transport %q", palyra.Clip(string(d.Transport), 32)).
		WithRemedy("say stdio, with a command, or http, with a URL")
}

func badDefinition(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...).WithRemedy("see 'palyra mcp add --help'")
}

func checkStdio(d palyra.UpstreamDefinition) (palyra.UpstreamDefinition, error) {
	switch {
	case d.URL != "":
		return d, badDefinition("a program has no URL")
	case len(d.Command) == 0 || d.Command[0] == "" || len(d.Command) > maxCommand:
		return d, badDefinition("give a command with at most %d arguments", maxCommand-1)
	case len(d.Env) > maxEnv || len(d.Egress) > maxEgress:
		return d, badDefinition("give at most %d variables and %d hosts", maxEnv, maxEgress)
	}
	total := len(d.Workspace) + len(d.Profile)
	texts := slices.Clone(d.Command)
	for name, value := range d.Env {
		if why := LooksSecret(value); why != "" {
			return d, secret("the value of "+show.Arg(palyra.Clip(name, 64)), why)
		}
		texts = append(texts, name, value)
	}
	for i, arg := range d.Command[1:] {
		if why := LooksSecret(arg); why != "" {
			return d, secret("argument "+string(rune('0'+min(i+1, 9)))+" of the command", why)
		}
	}
	for _, s := range append(append(texts, d.Egress...), d.Workspace, d.Profile) {
		if total += len(s); total > maxText {
			return d, badDefinition("the definition has more than %d bytes", maxText)
		}
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return d, badDefinition("the definition has bytes that are no text")
		}
	}
	d.Egress = slices.Compact(slices.Sorted(slices.Values(d.Egress)))
	return d, nil
}

func checkHTTP(d palyra.UpstreamDefinition) (palyra.UpstreamDefinition, error) {
	if len(d.Command)+len(d.Env)+len(d.Egress) > 0 || d.Workspace != "" || d.Profile != "" {
		return d, badDefinition("a server behind a URL has no command, variables, hosts, workspace or profile")
	}
	if len(d.URL) > 4096 || strings.ContainsFunc(d.URL, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) {
		return d, badDefinition("the URL is too long, or has characters that a URL has not")
	}
	u, err := url.Parse(d.URL)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return d, badDefinition("%s is not an http or https URL", show.Arg(palyra.Clip(d.URL, 200)))
	case u.User != nil:
		return d, secret("the URL", "it holds a user name or a password")
	}
	for _, values := range u.Query() {
		for _, v := range values {
			if why := LooksSecret(v); why != "" {
				return d, secret("a parameter of the URL", why)
			}
		}
	}
	u.Fragment, u.RawFragment = "", ""
	d.URL = u.String()
	return d, nil
}

// hostPort is where a URL leads, as plans name it.
func hostPort(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", badDefinition("the URL cannot be read")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port), nil
}

func secret(what, why string) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonEnvDenied, "%s looks like a secret, and would be recorded in clear: %s", what, why).
		WithRemedy("leave it out; put it into the vault, bind it, and give the binding: --secret NAME (see 'palyra vault bind --help')")
}

// secretForms are the forms of texts that can only be credentials.
var secretForms = []struct {
	form *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`^(sk|pk|rk)[-_][A-Za-z0-9_-]{16,}$`), "it has the form of an API key"},
	{
		regexp.MustCompile(`^(gh[pousr]_|github_pat_|glpat-|xox[abprs]-|npm_|hf_|AKIA|ASIA|AIza)[A-Za-z0-9_-]{10,}$`),
		"it has the form of an access token",
	},
	{regexp.MustCompile(`^eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.`), "it has the form of a signed token"},
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`), "it is a private key"},
	{regexp.MustCompile(`(?i)^(bearer|basic) [A-Za-z0-9+/=._-]{8,}$`), "it is an authorization header"},
	{regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^/@\s:]+:[^/@\s]+@`), "it is a URL with a password"},
}

// LooksSecret says why a text looks like a credential; empty when it does not.
func LooksSecret(s string) string {
	for _, f := range secretForms {
		if f.form.MatchString(s) {
			return f.why
		}
	}
	if random(s) {
		return "it is a long random text"
	}
	return ""
}

// random tells long texts in which letters of both cases and digits are mixed, as keys have and names have not.
func random(s string) bool {
	const least = 32
	if len(s) < least || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-") != "" ||
		strings.HasPrefix(s, "/") {
		return false
	}
	var kinds [3]int
	turns, last := 0, -1
	for _, c := range []byte(s) {
		k := -1
		switch {
		case c >= 'a' && c <= 'z':
			k = 0
		case c >= 'A' && c <= 'Z':
			k = 1
		case c >= '0' && c <= '9':
			k = 2
		}
		if k < 0 {
			continue
		}
		kinds[k]++
		if k != last {
			turns++
		}
		last = k
	}
	return kinds[2] >= 3 && kinds[0]+kinds[1] >= 3 && turns >= len(s)/4
}

// digest is the one of a definition under its name.
func digest(name string, d palyra.UpstreamDefinition) (palyra.Digest, error) {
	sum, err := canon.Digest(definitionDomain, struct {
		Name       string                    `json:"name"`
		Definition palyra.UpstreamDefinition `json:"definition"`
	}{name, d})
	return palyra.Digest(sum), err
}
