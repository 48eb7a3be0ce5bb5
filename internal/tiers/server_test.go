package tiers

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/config"
)

// A server finds nothing in its directory that one before it of the same name put
// there.
func TestForgetServer(t *testing.T) {
	c := config.Config{}
	c.Paths.State = filepath.Join(t.TempDir(), "state.db")
	c.Process.Dir = filepath.Join(t.TempDir(), "cells") // not in the system's place
	s := Servers{Tiers: &Tiers{Config: Config{Settings: c, Log: slog.New(slog.DiscardHandler)}, places: c.Places("")}}
	if err := s.Forget("one"); err != nil {
		t.Fatalf("with no directory at all: %v", err)
	}
	outside := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, name := range []string{"one", "two"} {
		dir, err := s.dir(name, int64(os.Geteuid()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "left.js"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Dir(outside), filepath.Join(dir, "away")); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	if err := s.Forget("one"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dirs[0]); !os.IsNotExist(err) {
		t.Error("it is still there")
	}
	for _, path := range []string{outside, filepath.Join(dirs[1], "left.js")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"..", "../x", "/"} {
		if err := s.Forget(name); err == nil {
			t.Errorf("%q is removed", name)
		}
	}
}
