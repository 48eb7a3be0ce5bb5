//go:build unix

package ca

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
)

func text(t *testing.T, s palyra.Secret) string {
	t.Helper()
	var out string
	if err := s.Use(func(b []byte) error { out = string(b); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func secret(s string) palyra.Secret { return palyra.NewSecret([]byte(s)) }

func TestFilesKeepAndReplace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "keys")
	k := Files(dir)
	if _, err := k.Load(t.Context(), "ca"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("no directory: %v", err)
	}
	for _, want := range []string{"one", "two, which is longer"} {
		if err := k.Store(t.Context(), "ca", secret(want)); err != nil {
			t.Fatal(err)
		}
		got, err := Files(dir).Load(t.Context(), "ca")
		if err != nil || text(t, got) != want {
			t.Errorf("got %q, %v", text(t, got), err)
		}
	}
	if _, err := k.Load(t.Context(), "other"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("another name: %v", err)
	}
	file, _ := os.Stat(filepath.Join(dir, "ca.key"))
	up, _ := os.Stat(dir)
	if file.Mode().Perm() != 0o600 || up.Mode().Perm() != 0o700 {
		t.Errorf("modes %v and %v", file.Mode(), up.Mode())
	}
}

// What a crash in the middle of a write leaves is a private key nobody knows of.
func TestFilesSweepWhatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k := Files(dir)
	left, others := filepath.Join(dir, ".ca.key.ABC.tmp"), filepath.Join(dir, ".journal.key.ABC.tmp")
	put := func(path string) {
		if err := os.WriteFile(path, []byte("cut"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(others)
	put(left)
	if err := k.Store(t.Context(), "ca", secret("s")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); err == nil {
		t.Error("Store left it")
	}
	put(left)
	if _, err := k.Load(t.Context(), "ca"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(left); err == nil {
		t.Error("Load left it")
	}
	if _, err := os.Lstat(others); err != nil {
		t.Error("another's file is gone")
	}
}

func TestFilesRefuseWhatOthersReach(t *testing.T) {
	for name, spoil := range map[string]func(dir, file string) error{
		"readable file": func(_, file string) error { return os.Chmod(file, 0o640) },
		"writable file": func(_, file string) error { return os.Chmod(file, 0o602) },
		"open dir":      func(dir, _ string) error { return os.Chmod(dir, 0o750) },
		"link": func(_, file string) error {
			return errors.Join(os.Rename(file, file+".real"), os.Symlink(file+".real", file))
		},
		"pipe": func(_, file string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) },
		"another's file": func(_, file string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(file, 0o604) // only root gives files away
			}
			return os.Chown(file, 65534, 65534)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "keys")
			k := Files(dir)
			if err := k.Store(t.Context(), "ca", secret("s3cr3t")); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir, filepath.Join(dir, "ca.key")); err != nil {
				t.Fatal(err)
			}
			s, err := k.Load(t.Context(), "ca")
			e := palyra.AsError(err)
			if err == nil || e.Reason != palyra.ReasonUnsafePermissions || e.Remedy == "" || !s.Empty() || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("loaded %v, %v", !s.Empty(), err)
			}
			if strings.Contains(e.Remedy, "others may have read") && !strings.Contains(e.Remedy, "palyra keys rotate ca") {
				t.Errorf("%s", e.Remedy)
			}
			if _, err := Open(t.Context(), Config{KeyStore: k}); reason(err) != palyra.ReasonUnsafePermissions {
				t.Errorf("open: %v", err)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "keys")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := Files(dir).Store(t.Context(), "ca", secret("s")); reason(err) != palyra.ReasonUnsafePermissions {
		t.Errorf("stored in an open directory: %v", err)
	}
	err := Files(dir).Store(t.Context(), "push", secret("s"))
	if remedy := palyra.AsError(err).Remedy; strings.Contains(remedy, "rotate") || !strings.Contains(remedy, "remove it") {
		t.Errorf("there is no rotation of it: %s", remedy)
	}
}

func TestFilesRefuseNamesSizesAndEndedContexts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	k := Files(dir)
	for _, name := range []string{"", ".", "..", "../ca", "a/b", "CA", "ca.key", "c\x00a", strings.Repeat("a", 65)} {
		if err := k.Store(t.Context(), name, secret("s")); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%q stored: %v", name, err)
		}
		if _, err := k.Load(t.Context(), name); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%q loaded: %v", name, err)
		}
	}
	for _, n := range []int{0, maxState + 1} {
		if err := k.Store(t.Context(), "ca", palyra.NewSecret(make([]byte, n))); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Store(ctx, "ca", secret("s")); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	for _, n := range []int{0, maxState + 1} {
		if err := os.WriteFile(filepath.Join(dir, "ca.key"), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Load(t.Context(), "ca"); reason(err) != palyra.ReasonConfig {
			t.Errorf("a file of %d bytes: %v", n, err)
		}
		if _, err := Open(t.Context(), Config{KeyStore: k}); err == nil {
			t.Errorf("a file of %d bytes opened", n)
		}
	}
}

func TestAnAuthorityLivesInFiles(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{KeyStore: Files(filepath.Join(dir, "keys")), Certs: filepath.Join(dir, "certs")}
	a, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := a.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg.KeyStore = Files(filepath.Join(dir, "keys"))
	b, err := Open(t.Context(), cfg)
	if err != nil || b.ID() != a.ID() || len(b.Certificates()) != 2 {
		t.Errorf("reopened: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "keys")); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
}
