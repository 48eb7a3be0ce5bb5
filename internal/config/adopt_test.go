package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What names a key's file names its binding afterwards, and nothing else of the configuration is another.
func TestRebind(t *testing.T) {
	for what, c := range map[string]struct{ before, after string }{
		"section": {
			"# mine\n[providers.x]\nkind = \"openai\" # key_file = no\nkey_file = \"/k/x.key\" # the key\n",
			"# mine\n[providers.x]\nkind = \"openai\" # key_file = no\nkey_binding = \"provider-x\" # the key\n",
		},
		"inline": {
			"providers.x = { kind = \"openai\", key_file='/k/x.key' }\n",
			"providers.x = { kind = \"openai\", key_binding=\"provider-x\" }\n",
		},
		"dotted": {
			"[providers]\nx.kind = \"anthropic\"\nx.key_file = \"/k/x\"\n",
			"[providers]\nx.kind = \"anthropic\"\nx.key_binding = \"provider-x\"\n",
		},
		"two keys on a line": {"providers = { x = { kind = \"openai\", key_file = \"/k/x\" }, " +
			"y = { kind = \"openai\", key_file = \"/k/y\" } }\n", ""},
		"quoted": {"[providers.x]\nkind = \"openai\"\n\"key_file\" = \"/k/x\"\n", ""},
	} {
		home := t.TempDir()
		path := filepath.Join(home, "config.toml")
		if err := os.WriteFile(path, []byte(c.before), 0o640); err != nil {
			t.Fatal(err)
		}
		conf, err := Load(Options{Home: home, Env: []string{}})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		keys := conf.PlainKeys()
		if len(keys) == 0 || keys[0].Provider != "x" || !strings.HasPrefix(keys[0].Host, "api.") {
			t.Fatalf("%s: %+v", what, keys)
		}
		err = keys[0].Rebind("provider-x")
		now, _ := os.ReadFile(path)
		if c.after == "" {
			if err == nil || string(now) != c.before {
				t.Errorf("%s: %v\n%s", what, err, now)
			}
			continue
		}
		if err != nil || string(now) != c.after {
			t.Errorf("%s: %v\n%s", what, err, now)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v %v", what, fi.Mode(), err)
		}
		if conf, err = Load(Options{Home: home, Env: []string{}}); err != nil || conf.Providers["x"].KeyBinding != "provider-x" ||
			len(conf.PlainKeys()) > 0 {
			t.Errorf("%s: %v %+v", what, err, conf.Providers["x"])
		}
	}
}
