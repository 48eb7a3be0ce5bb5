package provider

import (
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/agent"
	"palyra/internal/agent/anthropic"
	"palyra/internal/agent/openai"
	"palyra/internal/config"
)

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) *config.Provider {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return &config.Provider{KeyFile: path}
	}
	keys := keyFiles{
		"good": file("good", " sk-1234\n", 0o600), "none": {}, "missing": {KeyFile: filepath.Join(dir, "missing")}, "dir": {KeyFile: dir},
		"open": file("open", "sk-1234", 0o644), "group": file("group", "sk-1234", 0o660), "empty": file("empty", "\n", 0o600),
		"two": file("two", "sk-1\nsk-2", 0o600), "long": file("long", strings.Repeat("x", maxKeyFile+1), 0o600),
		"odd": file("odd", "sk-\x00", 0o600),
	}
	if err := os.Symlink(keys["good"].KeyFile, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	got := ""
	s, err := keys.Key(t.Context(), "good")
	_ = s.Use(func(b []byte) error { got = string(b); return nil })
	if err != nil || got != "sk-1234" {
		t.Errorf("%q, %v", got, err)
	}
	if s, err := keys.Key(t.Context(), "none"); err != nil || !s.Empty() {
		t.Errorf("%v", err)
	}
	for name, want := range map[string]palyra.Reason{
		"missing": palyra.ReasonModelKey, "open": palyra.ReasonUnsafePermissions, "group": palyra.ReasonUnsafePermissions,
		"empty": palyra.ReasonModelKey,
		"two":   palyra.ReasonModelKey, "long": palyra.ReasonModelKey, "odd": palyra.ReasonModelKey, "dir": palyra.ReasonModelKey,
	} {
		_, err := keys.Key(t.Context(), name)
		if e := palyra.AsError(err); e.Reason != want && name != "dir" || err == nil || e.Remedy == "" || strings.Contains(e.Text, "sk-") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A provider's way leads to its own host and nowhere else, whatever address is
// dialled.
func TestTheWayToAModel(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c := config.Default()
	c.Egress.Upstream = "http://127.0.0.1:1" // not for this machine itself
	c.Egress.AllowedHosts = []string{"elsewhere.example"}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		u := &url.URL{Scheme: "http", Host: host + ":" + port}
		guard, err := guardTo(u, c.Egress, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		way, err := wayTo(u, guard)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := way.Dial(t.Context(), "tcp", "203.0.113.9:443")
		if err != nil {
			t.Errorf("%s: %v", host, err)
		} else {
			if got := conn.RemoteAddr().String(); got != "127.0.0.1:"+port {
				t.Errorf("it led to %s", got)
			}
			_ = conn.Close()
		}
		if _, err := way.Dial(t.Context(), "udp", "x"); err == nil {
			t.Error("UDP got out")
		}
		way.Close()
		if _, err := way.Dial(t.Context(), "tcp", "x"); err == nil {
			t.Error("a closed way leads somewhere")
		}
	}
}

// Without a key nothing is sent to a company's own address; other addresses may need none.
func TestKeyOf(t *testing.T) {
	at := []string{"api.example.com:443"}
	if keyOf("x", config.Provider{BaseURL: "http://127.0.0.1:1/v1"}, at, keys{}) != nil {
		t.Error("a provider of one's own needs a key")
	}
	_, err := keyOf("x", config.Provider{}, at, keys{})(t.Context())
	if e := palyra.AsError(err); e.Reason != palyra.ReasonModelKey || !strings.Contains(e.Remedy, "providers.x.key_file") {
		t.Errorf("%v", err)
	}
	p := config.Provider{KeyFile: filepath.Join(t.TempDir(), "none")}
	if _, err := keyOf("x", p, at, keys{files: keyFiles{"x": &p}})(t.Context()); !strings.Contains(err.Error(), "there is no such file") {
		t.Errorf("%v", err)
	}
}

func TestModelSources(t *testing.T) {
	out, log := config.Default().Egress, slog.New(slog.DiscardHandler)
	kinds := map[string]Kind{
		"openai":    {openai.DefaultURL, openai.Sign, func(u string, w *agent.Wire) agent.Model { return openai.New(u, w) }},
		"anthropic": {anthropic.DefaultURL, anthropic.Sign, func(u string, w *agent.Wire) agent.Model { return anthropic.New(u, w) }},
	}
	for kind, want := range map[string]string{"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"} {
		s, err := source("x", config.Provider{Kind: kind, TimeoutMS: 1000, Models: []string{"m"}}, kinds, out, keys{}, nil, log)
		if err != nil || s.BaseURL != want || s.Model == nil || s.Name != "x" || len(s.Allowed) != 1 {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if _, err := source("x", config.Provider{Kind: "magic"}, kinds, out, keys{}, nil, log); err == nil {
		t.Error("a kind that is none was taken")
	}
}
