package dotenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMasksOn(t *testing.T) {
	m := &Masks{Off: []string{"/w/shop"}}
	for dir, want := range map[string]bool{"/w": true, "/w/shop": false, "/w/shop/sub": false, "/w/shopping": true} {
		if m.On(dir) != want && supported {
			t.Errorf("%s: %v", dir, !want)
		}
	}
	if (*Masks)(nil).On("/w") || (&Masks{Off: []string{"/"}}).On("/w") {
		t.Error("something is masked")
	}
}

func TestOpenKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dotenv.key")
	key, err := OpenKey(path)
	if err != nil || len(key) != keyBytes {
		t.Fatalf("%d bytes, %v", len(key), err)
	}
	if again, err := OpenKey(path); err != nil || !slices.Equal(key, again) {
		t.Errorf("another key, %v", err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	if err := os.WriteFile(path, key[:5], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKey(path); err == nil {
		t.Error("a short key is taken")
	}
}

func TestCarriers(t *testing.T) {
	dir := t.TempDir()
	text := "x = " + string(masker.Mask(".env", []byte("K=secretsecret12")))
	for name, b := range map[string]string{"a": text, "b": "palyra-masked-", "large": strings.Repeat("x", bytesEach+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func(name string) (*os.File, error) { return os.Open(filepath.Join(dir, name)) }
	found, more := Carriers(t.Context(), open, []string{"a", "b", "large", "missing"})
	if !slices.Equal(found, []string{"a"}) || more != 2 {
		t.Errorf("%q, %d more", found, more)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if found, more := Carriers(over, open, []string{"a", "b"}); len(found) > 0 || more != 2 {
		t.Errorf("%q, %d more", found, more)
	}
}

func TestWhy(t *testing.T) {
	if got := Why(&BoundError{Path: "a\xff", Why: "w"}); got != `files like .env cannot be masked: "a\xff": w` {
		t.Error(got)
	}
	if got := Why(errors.New("x")); !strings.Contains(got, "cannot be told") {
		t.Error(got)
	}
}
