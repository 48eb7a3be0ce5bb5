package secrets

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/pattern"
	"palyra/internal/subpath"
)

// Kind is in which place of a request the value of a secret goes.
type Kind string

// The kinds.
const (
	Header    Kind = "header"         // in the header Place, as a whole or after a word such as Bearer
	Basic     Kind = "basic"          // user or password of Basic authorization
	Query     Kind = "query"          // the query parameter Place
	Body      Kind = "body"           // the field Place of a JSON object or a form
	WebSocket Kind = "websocket"      // in the first message of a WebSocket
	Git       Kind = "git-credential" // Basic, with a credential helper that gives git the placeholder
	Provider  Kind = "provider"       // the key of a provider of models, as its protocol has it; nobody else can use it
	Upstream  Kind = "upstream"       // in the header Place, for an MCP server behind the gate; nobody else can use it
	SigV4     Kind = "sigv4"          // signs requests of AWS, for the region and service Place, and goes into none
	SSHAgent  Kind = "ssh-agent"      // a key that logs in by ssh, to servers whose host keys are pinned
	GitSSH    Kind = "git-ssh"        // a key with which Palyra connects git to servers whose host keys are pinned
	Signing   Kind = "signing"        // a key that signs commits and tags, ssh's or OpenPGP's
)

// Kinds lists the kinds.
func Kinds() []Kind {
	return []Kind{Header, Basic, Query, Body, WebSocket, Git, Provider, Upstream, SigV4, SSHAgent, GitSSH, Signing}
}

// Binding is how a secret may be used: where it goes, for which hosts, and in which calls. Agents name bindings.
type Binding struct {
	Name       string            `json:"name"`
	Scope      Scope             `json:"scope"` // of the secret
	Secret     string            `json:"secret"`
	Kind       Kind              `json:"kind"`
	Place      string            `json:"place,omitempty"`
	Hosts      []string          `json:"hosts"`                // host:port, reached by TLS
	Env        string            `json:"env,omitempty"`        // the variable in which programs find the placeholder
	User       string            `json:"user,omitempty"`       // of Git: the user name that goes with it; of keys that log in: the only one they do as
	HostKeys   []string          `json:"host_keys,omitempty"`  // of keys that log in: public keys of their hosts; they are for no other server
	Agent      string            `json:"agent,omitempty"`      // of keys: the socket of the ssh-agent or gpg-agent that holds it, instead of a secret
	Key        string            `json:"key,omitempty"`        // of keys: the public key of ssh, or the fingerprint of OpenPGP
	PublicKey  string            `json:"public_key,omitempty"` // of a key of OpenPGP in an agent: its public half, armored
	Tools      []palyra.ToolName `json:"tools,omitempty"`
	Workspaces []string          `json:"workspaces,omitempty"` // with everything below them; empty: all
	CreatedBy  palyra.Principal  `json:"created_by"`
	CreatedAt  time.Time         `json:"created_at"`
}

// Loan is a secret lent to one run: what stands for it there, and the value that goes in at the guard.
type Loan struct {
	Binding
	Placeholder string
	Value       palyra.Secret
}

// Why secrets are not lent, or go nowhere.
const (
	ReasonClientTrust palyra.Reason = "tls_client_rejected_ca" // a program does not trust the authority of its run
	ReasonStray       palyra.Reason = "placeholder_stray"      // a placeholder stood where its value does not go
)

// The limits of a binding.
const (
	MaxBindings  = 1000
	maxHosts     = 16
	maxUses      = 32 // tools, or workspaces
	maxNameBytes = 128
)

var (
	validVariable = pattern.Later(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	// reservedVariable decides what programs load, trust, or connect to.
	reservedVariable = pattern.Later(`(?i)^(ld_.*|dyld_.*|path|home|tmpdir|git_.*|.*_proxy|no_proxy|ssl_cert_.*|.*_ca_(certs|bundle)|palyra_.*)$`)
	validField       = pattern.Later(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	validRegion      = pattern.Later(`^[a-z0-9-]{1,64}/[a-z0-9-]{1,64}$`)
	validUser        = pattern.Later(`^[!-9;-~]{1,128}$`)
)

// reservedHeaders decide where a request goes or how it is read: no secret belongs there.
var reservedHeaders = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Expect", "Content-Type",
	"Content-Encoding", "Accept-Encoding",
}

// Check refuses a binding that cannot be one, and puts it into its one form. Its hosts are checked by the guard.
func (b *Binding) Check() error {
	if b.Scope == "" {
		b.Scope = Global
	}
	if err := CheckName(b.Scope, b.Subject()); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...)
	}
	switch {
	case !validName().MatchString(b.Name):
		return bad("%q is no name of a binding: letters, digits and . _ - , at most %d", palyra.Clip(b.Name, 64), maxNameBytes)
	case b.Kind != Signing && len(b.Hosts) == 0 || len(b.Hosts) > maxHosts:
		return bad("a binding has 1 to %d hosts", maxHosts)
	case slices.ContainsFunc(b.Hosts, func(h string) bool { return strings.HasPrefix(h, "*") }):
		return bad("a secret is for hosts that are named, not for all below a suffix")
	case b.Env != "" && (!validVariable().MatchString(b.Env) || reservedVariable().MatchString(b.Env)):
		return bad("%q is no variable for a placeholder", palyra.Clip(b.Env, 64))
	case slices.ContainsFunc(b.Workspaces, func(w string) bool { return !path.IsAbs(w) || len(w) > 4096 }):
		return bad("a binding names workspaces by whole paths")
	case slices.ContainsFunc(b.Tools, func(t palyra.ToolName) bool { return t == "" || len(t) > maxNameBytes }):
		return bad("a binding names tools")
	case len(b.Tools) > maxUses || len(b.Workspaces) > maxUses:
		return bad("a binding has at most %d tools and %d workspaces", maxUses, maxUses)
	case b.User != "" && !validUser().MatchString(b.User):
		return bad("%q is no user name", palyra.Clip(b.User, 64))
	case b.User != "" && b.Kind != Git && b.Kind != Basic && !b.Kind.logsIn():
		return bad("only bindings of the kinds %s, %s, %s and %s have a user", Git, Basic, SSHAgent, GitSSH)
	case b.Kind == Provider && (b.Env != "" || len(b.Tools)+len(b.Workspaces) > 0):
		return bad("bindings of the kind %s have no variable, tools or workspaces: no program and no call uses them", Provider)
	}
	if err := b.checkKey(bad); err != nil {
		return err
	}
	return b.checkPlace(bad)
}

// checkPlace checks what the kind needs.
func (b *Binding) checkPlace(bad func(string, ...any) error) error {
	switch b.Kind {
	case Header, Upstream:
		b.Place = http.CanonicalHeaderKey(b.Place)
		if !validField().MatchString(b.Place) || slices.Contains(reservedHeaders, b.Place) {
			return bad("%q is no header that can hold a secret", palyra.Clip(b.Place, 64))
		}
	case Query, Body:
		if !validField().MatchString(b.Place) {
			return bad("%q is no name of a parameter or field", palyra.Clip(b.Place, 64))
		}
	case Basic, WebSocket, Git, Provider, SSHAgent, GitSSH, Signing:
		if b.Place != "" {
			return bad("bindings of the kind %s have no further place", b.Kind)
		}
	case SigV4:
		if !validRegion().MatchString(b.Place) {
			return bad("%q is no region and service, such as eu-west-1/s3", palyra.Clip(b.Place, 64))
		}
		if b.Env != "" {
			return bad("bindings of the kind %s have the variables %s", SigV4, strings.Join(b.Variables(), ", "))
		}
	default:
		return bad("there is no kind %q: %s", palyra.Clip(string(b.Kind), 32), kindList())
	}
	if b.Kind == Git && b.User == "" {
		b.User = "git"
	}
	return nil
}

func kindList() string {
	var all []string
	for _, k := range Kinds() {
		all = append(all, string(k))
	}
	return strings.Join(all, ", ")
}

// Fits reports whether a call of a tool in a workspace may use the binding.
func (b Binding) Fits(tool palyra.ToolName, workspace string) bool {
	if b.Kind == Provider || b.Kind == Upstream {
		return false
	}
	return b.fits(tool, workspace)
}

// FitsUpstream reports whether an MCP server may use the binding: its name as a tool is mcp.NAME.
func (b Binding) FitsUpstream(name, workspace string) bool {
	return b.Kind != Provider && b.fits(palyra.ToolName("mcp."+name), workspace)
}

func (b Binding) fits(tool palyra.ToolName, workspace string) bool {
	if len(b.Tools) > 0 && !slices.Contains(b.Tools, tool) {
		return false
	}
	return len(b.Workspaces) == 0 || slices.ContainsFunc(b.Workspaces, func(w string) bool {
		return subpath.Within(w, workspace)
	})
}

// The mechanisms of a run that secrets are lent to: the plan promises them, and the attestation says so.
const (
	mechanismBound  = "binding:"
	mechanismOpened = "tls_opened:"
)

// Mechanisms are what holds of a run that gets placeholders for bindings: where each value goes, and the hosts whose TLS
// is opened for it.
func Mechanisms(list []Binding) (out []string) {
	out = BoundMechanisms(list)
	for _, b := range list {
		for _, h := range b.Hosts {
			if !b.Kind.Keys() {
				out = append(out, mechanismOpened+h)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// slashes have a scope end where its secret begins.
var slashes = strings.NewReplacer("%", "%25", "/", "%2F")

// BoundMechanisms are what holds of a request into which the daemon itself puts the values: where each goes.
func BoundMechanisms(list []Binding) (out []string) {
	for _, b := range list {
		words := []string{
			b.Name, string(b.Kind), b.Place, b.Env, slashes.Replace(string(b.Scope)) + "/" + b.Secret, b.User, strings.Join(b.Hosts, ","),
		}
		if b.Kind.Keys() {
			words = append(words, b.Agent, Fingerprint(b.Key), b.hostFingerprints())
		}
		out = append(out, mechanismBound+strings.Join(words, ":"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Promise is what holds of the use of a binding.
func (b Binding) Promise() string { return BoundMechanisms([]Binding{b})[0] }

// LentMechanisms are those of a list of mechanisms that lent secrets have.
func LentMechanisms(list []string) (out []string) {
	for _, m := range list {
		if strings.HasPrefix(m, mechanismBound) || strings.HasPrefix(m, mechanismOpened) {
			out = append(out, m)
		}
	}
	return out
}
