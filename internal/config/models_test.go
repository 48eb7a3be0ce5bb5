package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProviders(t *testing.T) {
	o := place(t,
		"[providers.local]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:11434/v1\"\n\n[models]\ndefault = \"local/qwen3\"\n",
		"[providers.local]\nkind = \"anthropic\"\ntimeout_ms = 5000\nmodels = [\"a\", \"b/c\"]\n[providers.cloud]\nkind = "+
			"\"anthropic\"\nkey_file = \"/etc/palyra/key\"\n")
	o.Flags = map[string]string{"providers.cloud.timeout_ms": "7000"}
	c, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*Provider{
		"local": {Kind: "openai", BaseURL: "http://127.0.0.1:11434/v1", TimeoutMS: 5000, Models: []string{"a", "b/c"}},
		"cloud": {Kind: "anthropic", KeyFile: "/etc/palyra/key", TimeoutMS: 7000, Models: []string{}},
	}
	if diff := cmp.Diff(want, c.Providers); diff != "" || c.Models.Default != "local/qwen3" ||
		c.Providers["local"].Timeout() != 5*time.Second {
		t.Errorf("%s", diff)
	}
	shown := map[string]Origin{}
	for _, x := range c.Origins() {
		shown[x.Key] = x
	}
	if x := shown["providers.local.kind"]; x.Value != "openai" || x.Source != fromUser || !strings.HasSuffix(x.Where, "config.toml:2") ||
		x.Variable != "" || x.Text == "" {
		t.Errorf("%+v", x)
	}
	if x := shown["providers.cloud.timeout_ms"]; x.Value != int64(7000) || x.Source != fromFlag {
		t.Errorf("%+v", x)
	}
}

func TestProviderProblems(t *testing.T) {
	good := "[providers.a]\nkind = \"openai\"\n"
	for name, c := range map[string]struct{ file, env, want string }{
		"no kind":          {"[providers.a]\nbase_url = \"https://x.example/v1\"\n", "", "providers.a.kind"},
		"another kind":     {"[providers.a]\nkind = \"magic\"\n", "", "config.toml:2: providers.a.kind"},
		"unknown key":      {good + "key = \"sk-1\"\n", "", "config.toml:3: providers.a.key: unknown key"},
		"bad name":         {"[providers.A_b]\nkind = \"openai\"\n", "", "providers.A_b.kind: unknown key"},
		"not a section":    {"[providers]\na = \"openai\"\n", "", "providers.a: unknown key"},
		"no list":          {"providers = [1]\n", "", "providers: this is a section"},
		"taken name":       {"[providers.scripted]\nkind = \"openai\"\n", "", "cannot be called scripted"},
		"http elsewhere":   {good + "base_url = \"http://models.example/v1\"\n", "", "use https"},
		"http public":      {good + "base_url = \"http://203.0.113.7/v1\"\n", "", "use https"},
		"key in the clear": {good + "base_url = \"http://10.0.0.5:8000/v1\"\nkey_file = \"/k\"\n", "", "without encryption"},
		"key in the URL":   {good + "base_url = \"https://me:secret@x.example\"\n", "", "use key_file"},
		"query":            {good + "base_url = \"https://x.example/?a=b\"\n", "", "not the address of an API"},
		"a file":           {good + "base_url = \"file:///etc/passwd\"\n", "", "not the address of an API"},
		"port":             {good + "base_url = \"https://x.example:0/\"\n", "", "the port"},
		"relative key":     {good + "key_file = \"key\"\n", "", "absolute"},
		"timeout":          {good + "timeout_ms = 1\n", "", "out of range"},
		"timeout's type":   {good + "timeout_ms = \"long\"\n", "", "whole number"},
		"models":           {good + "models = [\"\"]\n", "", "not the name of a model"},
		"default":          {good + "[models]\ndefault = \"gpt\"\n", "", "models.default"},
		"default of none":  {good + "[models]\ndefault = \"b/gpt\"\n", "", "there is no [providers.b]"},
		"variable":         {good, "PALYRA_PROVIDERS_A_KIND=openai", "no setting has this variable"},
		"context":          {"[models]\ncontext_bytes = 10\n", "", "out of range"},
	} {
		o := place(t, c.file, "")
		if c.env != "" {
			o.Env = []string{c.env}
		}
		var all []string
		for _, p := range Check(o) {
			all = append(all, p.String())
		}
		if got := strings.Join(all, "\n"); !strings.Contains(got, c.want) || strings.Contains(got, "secret") && name == "key in the URL" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, url := range []string{
		"http://localhost:11434/v1", "http://[::1]:1/v1", "http://10.0.0.5:8000/v1", "https://x.example",
		"https://x.example:8443/a/b/",
	} {
		if p := Check(place(t, good+"base_url = \""+url+"\"\n", "")); len(p) != 0 {
			t.Errorf("%s: %v", url, p)
		}
	}
}

// A document with an error in it leaves the providers of a weaker one as they
// were.
func TestProvidersOfABadDocument(t *testing.T) {
	c := Default()
	c.origins = map[string]origin{}
	if p := c.fromTOML("good", []byte("[providers.a]\nkind = \"openai\"\nmodels = [\"x\"]\n"), fromSystem); p != nil {
		t.Fatal(p)
	}
	if p := c.fromTOML("bad", []byte("[providers.a]\nkind = \"anthropic\"\nmodels = [\"y\"]\nwrong = 1\n"), fromUser); len(p) != 1 {
		t.Fatal(p)
	}
	if c.Providers["a"].Kind != "openai" || c.Providers["a"].Models[0] != "x" {
		t.Errorf("%+v", c.Providers["a"])
	}
}
