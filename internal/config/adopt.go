package config

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/pattern"
)

// PlainKey is the key of a provider that lies in a file as it is.
type PlainKey struct {
	Provider string
	KeyFile  string
	Host     string // host:port that it is for
	Where    string // file:line that names it
}

// usualHosts are where the kinds of providers are without a base URL.
var usualHosts = map[string]string{"openai": "api.openai.com:443", "anthropic": "api.anthropic.com:443"}

// PlainKeys lists the providers whose key lies in a file.
func (c *Config) PlainKeys() (all []PlainKey) {
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		p := c.Providers[name]
		if p.KeyFile == "" {
			continue
		}
		k := PlainKey{
			Provider: name, KeyFile: p.KeyFile, Host: usualHosts[p.Kind], Where: c.origins[providersSection+"."+name+".key_file"].where,
		}
		if u, err := url.Parse(p.BaseURL); err == nil && p.BaseURL != "" {
			host, port := u.Hostname(), u.Port()
			if host == "localhost" {
				host = "127.0.0.1"
			}
			if port == "" {
				port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
			}
			k.Host = net.JoinHostPort(strings.ToLower(host), port)
		}
		all = append(all, k)
	}
	return all
}

// keyFileText is key_file as a document sets it, in a section or in an inline table.
var keyFileText = pattern.Later(`\bkey_file(\s*=\s*)("(?:[^"\\]|\\.)*"|'[^']*')`)

// Rebind has the configuration name a binding of the vault instead of the key's file. The file is replaced as a whole, by
// one that was read and says just that.
func (k PlainKey) Rebind(binding string) error {
	refuse := func(why string) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "%s: %s", k.Where, why).
			WithRemedy("edit it yourself: put key_binding = %q in the place of providers.%s.key_file", binding, k.Provider)
	}
	i := strings.LastIndexByte(k.Where, ':')
	if i < 0 {
		return refuse("nothing says where the key's file is named")
	}
	path := k.Where[:i]
	line, err := strconv.Atoi(k.Where[i+1:])
	if err != nil {
		return refuse("nothing says where the key's file is named")
	}
	raw, err := readFile(path)
	if err != nil {
		return fmt.Errorf("config: rebind: %w", err)
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	if line < 1 || line > len(lines) || len(keyFileText().FindAll(lines[line-1], -1)) != 1 {
		return refuse("the line cannot be changed for certain")
	}
	lines[line-1] = keyFileText().ReplaceAll(lines[line-1], []byte(`key_binding${1}"`+binding+`"`))
	next := bytes.Join(lines, nil)
	c := Default()
	c.origins = map[string]origin{}
	if problems := c.fromTOML(path, next, fromUser); len(problems) > 0 {
		return refuse(problems[0].Text)
	}
	if p := c.Providers[k.Provider]; p == nil || p.KeyFile != "" || p.KeyBinding != binding {
		return refuse("the line is not what names the file")
	}
	mode := fs.FileMode(0o600)
	if fi, err := os.Stat(path); err == nil {
		mode = fi.Mode().Perm()
	}
	if err := durable.WriteFile(path, next, mode); err != nil {
		return fmt.Errorf("config: rebind: %w", err)
	}
	return nil
}
