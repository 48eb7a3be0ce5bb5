package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"palyra/internal/pattern"
)

// Models is about runs that models drive.
type Models struct {
	Default      string   `key:"default"` // provider/model
	ContextBytes int64    `key:"context_bytes"`
	ResultBytes  int64    `key:"result_bytes"`
	MaxTurns     int64    `key:"max_turns"`
	AnswerTokens int64    `key:"answer_tokens"`
	Principals   []string `key:"principals"` // that may start such runs
}

// Provider is where models are: one section [providers.NAME] each.
type Provider struct {
	Kind       string   `key:"kind"` // openai or anthropic: the protocol
	BaseURL    string   `key:"base_url"`
	KeyFile    string   `key:"key_file"`
	KeyBinding string   `key:"key_binding"` // of the key in the vault
	TimeoutMS  int64    `key:"timeout_ms"`
	Models     []string `key:"models"` // that may be used; empty: any
}

// Timeout is how long one answer may take.
func (p Provider) Timeout() time.Duration { return ms(p.TimeoutMS) }

// mcpSettings are about clients of MCP.
var mcpSettings = []setting{{
	key: "mcp.pending_after_ms", text: "how long a call of an MCP client may take before it is answered \"pending\"", min: 100, max: day,
}}

// modelSettings are about runs that models drive.
var modelSettings = []setting{
	{
		key: "models.default", text: "the model of runs that name none, as provider/model; empty: none", check: defaultModel,
	},
	{
		key: "models.context_bytes", text: "how much of a conversation a model is told; what is older is left out, tool outputs first",
		min: 16 << 10, max: 16 << 20,
	},
	{key: "models.result_bytes", text: "how much of one call's output a model is told", min: 1024, max: 1 << 20},
	{key: "models.max_turns", text: "turns that a model may take in one run", min: 1, max: 1000},
	{key: "models.answer_tokens", text: "the longest answer of a model, in tokens", min: 64, max: 1_000_000},
	{
		key: "models.principals", text: "principals that may start runs of models, which send what they are told to the provider", check: name,
	},
}

const (
	providersSection = "providers"
	maxProviders     = 32
	providerTimeout  = 600_000
)

// providerName is what a provider may be called: the name stands in flags,
// files and before the slash of models.default.
var providerName = pattern.Later(`^[a-z][a-z0-9-]{0,31}$`)

// reserved are names that stand for something else than a provider.
var reserved = []string{"scripted", "default"}

// providerFields are the keys of a provider.
var providerFields = []struct {
	name string
	setting
}{
	{"kind", setting{text: "the protocol: openai (also of Ollama, vLLM and others) or anthropic", check: oneOf("openai", "anthropic")}},
	{"base_url", setting{text: "the address of the API; empty: the company's own", check: baseURL}},
	{"key_file", setting{text: "a file of mode 0600 with the key; empty: none is needed", check: absolute}},
	{"key_binding", setting{text: "the binding of the key in the vault; empty: it is none, or in key_file", check: bindingName}},
	{"timeout_ms", setting{text: "how long one answer may take", min: 1000, max: day}},
	{"models", setting{text: "the models that may be used; an empty list lets any be", check: modelName}},
}

// findProvider returns the setting of a provider's key.
func findProvider(key string) (setting, bool) {
	rest, ok := strings.CutPrefix(key, providersSection+".")
	name, field, two := strings.Cut(rest, ".")
	if !ok || !two || !providerName().MatchString(name) {
		return setting{}, false
	}
	for _, f := range providerFields {
		if f.name == field {
			f.key = key
			return f.setting, true
		}
	}
	return setting{}, false
}

// provider returns the provider of a name, made if there is none yet.
func (c *Config) provider(name string) *Provider {
	if c.Providers == nil {
		c.Providers = map[string]*Provider{}
	}
	if c.Providers[name] == nil {
		c.Providers[name] = &Provider{TimeoutMS: providerTimeout, Models: []string{}}
	}
	return c.Providers[name]
}

func cloneProviders(from map[string]*Provider) map[string]*Provider {
	if from == nil {
		return nil
	}
	out := map[string]*Provider{}
	for name, p := range from {
		c := *p
		c.Models = slices.Clone(p.Models)
		out[name] = &c
	}
	return out
}

// settings is every key there is in this configuration: those of the providers that it names as well.
func (c *Config) settings() []setting {
	all := settings[:len(settings):len(settings)]
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		for _, f := range providerFields {
			if s, ok := findProvider(providersSection + "." + name + "." + f.name); ok {
				all = append(all, s)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		if s, ok := findGroup(groupsSection + "." + name); ok {
			all = append(all, s)
		}
	}
	return all
}

// checkModels checks values that depend on each other.
func (c *Config) checkModels() []Problem {
	var problems []Problem
	bad := func(key, format string, args ...any) {
		problems = append(problems, Problem{Where: c.origins[key].where, Key: key, Text: fmt.Sprintf(format, args...)})
	}
	if len(c.Providers) > maxProviders {
		bad(providersSection, "more than %d providers", maxProviders)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		p, key := c.Providers[name], providersSection+"."+name
		if slices.Contains(reserved, name) {
			bad(key+".kind", "a provider cannot be called %s", name)
		}
		if u, err := url.Parse(p.BaseURL); err == nil && u.Scheme == "http" && p.KeyFile+p.KeyBinding != "" && !loopbackHost(u.Hostname()) {
			bad(key+".base_url", "a key is not sent without encryption to another machine: use https")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		if p := c.Providers[name]; p.KeyFile != "" && p.KeyBinding != "" {
			bad(providersSection+"."+name+".key_file", "the key is in the vault by key_binding: leave one of them out")
		}
	}
	name, _, _ := strings.Cut(c.Models.Default, "/")
	if c.Models.Default != "" && c.Providers[name] == nil {
		bad("models.default", "there is no [providers.%s]", name)
	}
	return problems
}

// validBinding is what a binding may be called.
var validBinding = pattern.Later(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func bindingName(s string) error {
	if s != "" && !validBinding().MatchString(s) {
		return fmt.Errorf("%s is not the name of a binding: see 'palyra vault bindings'", strconv.Quote(s))
	}
	return nil
}

func defaultModel(s string) error {
	if s == "" {
		return nil
	}
	name, model, ok := strings.Cut(s, "/")
	if !ok || !providerName().MatchString(name) || modelName(model) != nil {
		return fmt.Errorf("%s is not provider/model, like anthropic/claude-sonnet-4-5", strconv.Quote(s))
	}
	return nil
}

func modelName(s string) error {
	if s == "" || len(s) > 200 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s is not the name of a model", strconv.Quote(s))
	}
	return nil
}

// baseURL is https, or http on this machine or at an address of a private network: names could lead anywhere.
func baseURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > 1000 || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" ||
		u.Fragment != "" || u.Opaque != "" {
		return fmt.Errorf("%s is not the address of an API, like https://api.example.com/v1", strconv.Quote(s))
	}
	if u.User != nil {
		return fmt.Errorf("a key cannot stand here: the configuration is shown to people; use key_file")
	}
	if port := u.Port(); port != "" && (!portNumber(port) || port == "0") {
		return fmt.Errorf("%s: the port is not a number from 1 to 65535", strconv.Quote(s))
	}
	a, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && !loopbackHost(u.Hostname()) && (err != nil || !a.Unmap().IsPrivate()) {
		return fmt.Errorf("%s: http is for this machine, or for the address of one in a private network; use https", strconv.Quote(s))
	}
	return nil
}

func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
