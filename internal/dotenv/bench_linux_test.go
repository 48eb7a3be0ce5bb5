package dotenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkFind is what the look for .env files adds to a call, in a workspace of 20,000 files in 2,000 directories: for the
// first call there, and for those after it. Its peer is the start of a program that does nothing.
func BenchmarkFind(b *testing.B) {
	dir := b.TempDir()
	for i := range 2000 {
		at := filepath.Join(dir, fmt.Sprintf("a%d/b%d/c%d", i%10, i%100, i))
		if err := os.MkdirAll(at, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 10 {
			if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("f%d.go", j)), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a1/.env"), []byte("KEY=0123456789abcdef\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	top, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = top.Close() }()
	find := func(b *testing.B, f *Finder) {
		if got, err := f.Find(b.Context(), SearchDir{Top: int(top.Fd()), Path: dir, Place: dir}, Names{}); err != nil || len(got) != 1 {
			b.Fatal(got, err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			find(b, new(Finder))
		}
	})
	b.Run("again", func(b *testing.B) {
		f := new(Finder)
		find(b, f)
		for b.Loop() {
			find(b, f)
		}
	})
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
