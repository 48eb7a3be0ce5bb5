package dirents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	dir := t.TempDir()
	for i := range 500 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("a\xff", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	seen := map[string]bool{}
	if err := List(int(f.Fd()), make([]byte, 1<<10), func(name []byte, _ byte) error {
		seen[string(name)] = true
		return nil
	}); err != nil || len(seen) != 500 || !seen["a\xff499"] {
		t.Errorf("%d names, %v", len(seen), err)
	}
}

func FuzzDirents(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x18\x00\x08name\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = parse(b, func(name []byte, _ byte) error {
			if s := string(name); s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\x00") {
				t.Errorf("name %q", s)
			}
			return nil
		})
	})
}
