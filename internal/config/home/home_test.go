package home

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/address"
)

func TestPaths(t *testing.T) {
	uid := strconv.Itoa(os.Getuid())
	for _, c := range []struct {
		name, home string
		env        map[string]string
		want       Paths
	}{
		{name: "XDG defaults", env: map[string]string{"HOME": "/h"}, want: Paths{
			Config: "/h/.config/palyra/config.toml", Keys: "/h/.config/palyra/keys", OperatorKey: "/h/.config/palyra/operator.key",
			State: "/h/.local/state/palyra/state.db", Quarantine: "/h/.local/state/palyra/quarantine", Remotes: "/h/.config/palyra/remotes",
			Cache: "/h/.cache/palyra", Run: "/tmp/palyra-" + uid,
		}},
		{name: "XDG set", env: map[string]string{
			"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s/", "XDG_CACHE_HOME": "/k",
			"XDG_RUNTIME_DIR": "/r",
		}, want: Paths{
			Config: "/c/palyra/config.toml", Keys: "/c/palyra/keys", OperatorKey: "/c/palyra/operator.key",
			State: "/s/palyra/state.db", Quarantine: "/s/palyra/quarantine", Remotes: "/c/palyra/remotes", Cache: "/k/palyra", Run: "/r/palyra",
		}},
		{name: "relative XDG counts as unset", env: map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "c", "XDG_RUNTIME_DIR": "."}, want: Paths{
			Config: "/h/.config/palyra/config.toml", Keys: "/h/.config/palyra/keys", OperatorKey: "/h/.config/palyra/operator.key",
			State: "/h/.local/state/palyra/state.db", Quarantine: "/h/.local/state/palyra/quarantine", Remotes: "/h/.config/palyra/remotes",
			Cache: "/h/.cache/palyra", Run: "/tmp/palyra-" + uid,
		}},
		{
			name: "PALYRA_HOME", env: map[string]string{"HOME": "/h", "PALYRA_HOME": "/p", "XDG_CONFIG_HOME": "/c", "XDG_RUNTIME_DIR": "/r"},
			want: Paths{
				Home: "/p", Config: "/p/config.toml", Keys: "/p/keys", OperatorKey: "/p/operator.key", State: "/p/state.db",
				Quarantine: "/p/quarantine", Remotes: "/p/remotes", Cache: "/p/cache", Run: "/p/run",
			},
		},
		{name: "flag beats PALYRA_HOME", home: "/f", env: map[string]string{"PALYRA_HOME": "/p"}, want: Paths{
			Home: "/f", Config: "/f/config.toml", Keys: "/f/keys", OperatorKey: "/f/operator.key", State: "/f/state.db",
			Quarantine: "/f/quarantine", Remotes: "/f/remotes", Cache: "/f/cache", Run: "/f/run",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Find(c.home, c.env)
			got.short = nil
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(Paths{})); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
	if _, err := Find("", map[string]string{}); err == nil {
		t.Error("no HOME was accepted")
	}
}

func TestLongSocketPathsMove(t *testing.T) {
	long := "/p/" + strings.Repeat("x", 100)
	p, err := Find(long, map[string]string{"XDG_RUNTIME_DIR": "/r"})
	if err != nil {
		t.Fatal(err)
	}
	if dir := p.SocketDir(); !strings.HasPrefix(dir, "/r/palyra-") {
		t.Errorf("got %s", dir)
	}
	other, _ := Find(long+"y", map[string]string{"XDG_RUNTIME_DIR": "/r"})
	if other.SocketDir() == p.SocketDir() {
		t.Error("two homes share a socket directory")
	}
	p, _ = Find(long, map[string]string{"XDG_RUNTIME_DIR": long})
	if dir := p.SocketDir(); !strings.HasPrefix(dir, "/tmp/palyra-") {
		t.Errorf("got %s", dir)
	}
	p, _ = Find("/p", nil)
	if agent, operator, err := p.Sockets(); err != nil || agent != "/p/run/agent.sock" || operator != "/p/run/operator.sock" {
		t.Errorf("got %s %s", agent, operator)
	}
}

func TestMakeAndAddr(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	p, err := Find(home, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Errorf("again: %v", err)
	}
	for _, dir := range []string{p.Keys, p.Run, p.Cache, p.Quarantine} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", dir, info, err)
		}
	}
	if err := p.SaveAddr(); err != nil {
		t.Fatal(err)
	}
	if agent, _, _ := p.Sockets(); agent != filepath.Join(p.Run, AgentSocket) {
		t.Errorf("got %s", agent)
	}
	// Another environment would put them elsewhere; the daemon's word holds.
	there := t.TempDir()
	if err := errors.Join(os.Chmod(there, 0o700), address.Save(p.Run, there)); err != nil {
		t.Fatal(err)
	}
	if agent, _, _ := p.Sockets(); agent != filepath.Join(there, AgentSocket) {
		t.Errorf("got %s", agent)
	}
	// But not when others could have written it.
	if err := os.Chmod(filepath.Join(p.Run, "addr"), 0o666); err != nil {
		t.Fatal(err)
	}
	if agent, _, _ := p.Sockets(); agent == filepath.Join(there, AgentSocket) {
		t.Error("an unsafe addr file was believed")
	}
	// Nor is a directory of sockets that others can enter.
	if err := os.Chmod(p.Run, 0o777); err != nil {
		t.Fatal(err)
	}
	var e *palyra.Error
	if _, _, err := p.Sockets(); !errors.As(err, &e) || e.Reason != palyra.ReasonUnsafePermissions {
		t.Errorf("an open socket directory: %v", err)
	}
}

func TestMakeRefusesUnsafeDirectories(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, p Paths) error{
		"open keys":     func(t *testing.T, p Paths) error { return os.Chmod(p.Keys, 0o750) },
		"open run":      func(t *testing.T, p Paths) error { return os.Chmod(p.Run, 0o711) },
		"writable home": func(t *testing.T, p Paths) error { return os.Chmod(p.Home, 0o770) },
		"link": func(t *testing.T, p Paths) error {
			if err := os.Remove(p.Run); err != nil {
				return err
			}
			return os.Symlink(t.TempDir(), p.Run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := Find(filepath.Join(t.TempDir(), "home"), nil)
			if err := p.Make(); err != nil {
				t.Fatal(err)
			}
			if err := spoil(t, p); err != nil {
				t.Fatal(err)
			}
			var e *palyra.Error
			if err := p.Make(); !errors.As(err, &e) || e.Reason != palyra.ReasonUnsafePermissions || e.Remedy == "" {
				t.Errorf("got %v", err)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := Find(filepath.Join(file, "home"), nil)
	if err := p.Make(); palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("home under a file: %v", err)
	}
	// A home that others may read is fine: what is private in it is 0700.
	p, _ = Find(t.TempDir(), nil)
	if err := os.Chmod(p.Home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Error(err)
	}
}
