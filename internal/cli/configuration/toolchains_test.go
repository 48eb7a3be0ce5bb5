//go:build linux

package configuration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocationtest"
)

// toolHome has a few toolchains, and secrets beside them.
func toolHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for _, dir := range []string{
		".nvm/versions/node/v9.1.0/bin", ".nvm/versions/node/v22.3.0/bin", ".rustup/toolchains", ".cargo/bin",
		".ssh", "palyra",
	} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestSetup(t *testing.T) {
	home := toolHome(t)
	file := filepath.Join(home, "palyra/profiles/toolchains.toml")
	printed, _, err := invocationtest.Drive(t, home, false, toolchainsCommand, "--print")
	if err != nil || !strings.Contains(printed, "~/.nvm/versions/node/v22.3.0/bin") || strings.Contains(printed, "ssh") {
		t.Errorf("%v\n%s", err, printed)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Fatal("--print wrote it")
	}
	if _, _, err := invocationtest.Drive(t, home, false, toolchainsCommand); err == nil || !strings.Contains(err.Error(), "nobody to ask") {
		t.Errorf("without a terminal: %v", err)
	}
	if _, _, err := invocationtest.Drive(t, home, true, toolchainsCommand); exit.Of(err) != exit.Usage {
		t.Errorf("--json alone: %v", err)
	}
	out, _, err := invocationtest.Drive(t, home, false, toolchainsCommand, "--yes")
	if err != nil || !strings.Contains(out, "written") || !strings.Contains(out, "Node.js by nvm, v22.3.0") {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != printed {
		t.Errorf("%v: not what was printed\n%s", err, text)
	}
	if info, err := os.Lstat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	out, _, err = invocationtest.Drive(t, home, true, toolchainsCommand, "--yes")
	var again struct {
		Written    bool
		File       string
		Toolchains []struct{ Name string }
	}
	if err != nil || json.Unmarshal([]byte(out), &again) != nil || again.Written || again.File != file || len(again.Toolchains) != 3 {
		t.Errorf("again: %v\n%s", err, out)
	}
	if out, _, err := invocationtest.Drive(t, home, false, toolchainsCommand, "--yes"); err != nil || !strings.Contains(out, "up to date") {
		t.Errorf("again: %v\n%s", err, out)
	}
}

func TestSetupFindsNothing(t *testing.T) {
	out, _, err := invocationtest.Drive(t, t.TempDir(), false, toolchainsCommand, "--yes")
	if err != nil || !strings.Contains(out, "no toolchains were found") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestProfiles(t *testing.T) {
	home := toolHome(t)
	if _, _, err := invocationtest.Drive(t, home, false, toolchainsCommand, "--yes"); err != nil {
		t.Fatal(err)
	}
	out, _, err := invocationtest.Drive(t, home, false, Profiles)
	for _, name := range []string{"dev", "git", "git-setup", "go", "node", "python", "rust", "toolchains"} {
		if err != nil || !strings.Contains(out, "\n"+name+" ") {
			t.Errorf("%s is missing: %v\n%s", name, err, out)
		}
	}
	out, _, err = invocationtest.Drive(t, home, false, Profiles, "git-setup")
	if err != nil || !strings.Contains(out, "always asks") || !strings.Contains(out, ".git/config") || strings.Contains(out, "hooks") {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = invocationtest.Drive(t, home, true, Profiles, "toolchains")
	var one struct {
		Name   string
		Source string
		Mounts []string
	}
	if err != nil || json.Unmarshal([]byte(out), &one) != nil || one.Name != "toolchains" || len(one.Mounts) != 3 ||
		!strings.HasSuffix(one.Source, "toolchains.toml") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := invocationtest.Drive(t, home, false, Profiles, "nope"); err == nil || !strings.Contains(err.Error(), `"nope"`) {
		t.Errorf("%v", err)
	}
	bad := filepath.Join(home, "palyra/profiles/mine.toml")
	if err := os.WriteFile(bad, []byte("mount = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := invocationtest.Drive(t, home, false, Profiles); err == nil ||
		!strings.Contains(err.Error(), "line 1: there is no key mount") {
		t.Errorf("%v", err)
	}
}
