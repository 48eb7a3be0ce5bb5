//go:build unix

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/config/home"
)

func TestReadPrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("secret", 0o600)
	if raw, err := ReadPrivate(file, 6); err != nil || string(raw) != "secret" {
		t.Errorf("%s %v", raw, err)
	}
	if _, err := ReadPrivate(file, 5); err == nil {
		t.Error("a file over the limit was read")
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602} {
		write("secret", mode)
		if _, err := ReadPrivate(file, 6); err == nil {
			t.Errorf("mode %o was read", mode)
		}
	}
	if _, err := ReadPrivate(file+"x", 6); err == nil {
		t.Error("a file that is not there was read")
	}
	if _, err := ReadPrivate(filepath.Dir(file), 6); err == nil {
		t.Error("a directory was read")
	}
	pipe := file + ".pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(pipe, 6); err == nil {
		t.Error("a pipe was read")
	}
}

// Only the owner and root may have written a file that is believed.
func TestForeignFiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("UNPROVEN HERE: only root can make a file somebody else's")
		return
	}
	o := place(t, "[log]\nlevel = 'debug'\n", "")
	file := filepath.Join(o.Home, "config.toml")
	if err := os.Chown(file, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if got := Check(o); len(got) != 1 || !strings.Contains(got[0].Text, "uid 12345") {
		t.Errorf("somebody else's configuration: %v", got)
	}
	if _, err := ReadPrivate(file, 100); err == nil {
		t.Error("somebody else's secret was read")
	}
	p, err := home.Find(filepath.Join(t.TempDir(), "home"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(p.Run, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err == nil {
		t.Error("somebody else's directory was taken")
	}
	if _, _, err := p.Sockets(); err == nil {
		t.Error("somebody else's sockets were taken")
	}
}

func TestStrangeFiles(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"not a regular file": func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"larger than":        func(p string) error { return os.WriteFile(p, make([]byte, maxFile+1), 0o600) },
	} {
		o := place(t, "", "")
		if err := make(filepath.Join(o.Home, "config.toml")); err != nil {
			t.Fatal(err)
		}
		if got := Check(o); len(got) != 1 || !strings.Contains(got[0].Text, name) {
			t.Errorf("%s: got %v", name, got)
		}
	}
	o := place(t, "", "")
	if err := os.Mkdir(filepath.Join(o.Home, "config.toml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := Check(o); len(got) != 1 {
		t.Errorf("directory: got %v", got)
	}
}

// A home that cannot be used is named, with the one who cannot and the remedy.
func TestUnusableHome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(home, why string) {
		t.Helper()
		_, err := Load(Options{Home: home, Env: []string{}, SystemFile: filepath.Join(t.TempDir(), "none")})
		var e *palyra.Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v", home, err)
		}
		want := fmt.Sprintf("uid %d cannot use the directory %s: %s", os.Getuid(), home, why)
		if e.Text != want || !strings.Contains(e.Remedy, home) || !strings.Contains(e.Remedy, "PALYRA_HOME") ||
			strings.Contains(e.Remedy, "chown") || strings.Contains(e.Remedy, "chmod") {
			t.Errorf("got %s (%s), want %s", e.Text, e.Remedy, want)
		}
	}
	check(file, "not a directory")
	check("/etc/passwd", "not a directory") // which is to stay whose it is
	if os.Getuid() == 0 {
		return // to whom nothing is closed
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o000); err != nil {
		t.Fatal(err)
	}
	check(closed, "permission denied")
}

func TestUnsafe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(file, 10); !Unsafe(err) {
		t.Errorf("mode 644: %v", err)
	}
	if _, err := ReadPrivate(file+"x", 10); err == nil || Unsafe(err) {
		t.Errorf("no file: %v", err)
	}
}
