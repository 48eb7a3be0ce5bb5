//go:build unix

package gitrepo

import (
	"bytes"
	"compress/zlib"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// cut leaves the first bytes of a file.
func (p *project) cut(name string, n int64) {
	p.t.Helper()
	if err := os.Truncate(filepath.Join(p.dir, name), n); err != nil {
		p.t.Fatal(err)
	}
}

// pipe puts a pipe with nobody at its other end in the place of a file.
func (p *project) pipe(name string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	_ = os.Remove(path)
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) link(name, to string) {
	p.t.Helper()
	if err := os.Symlink(to, filepath.Join(p.dir, name)); err != nil {
		p.t.Fatal(err)
	}
}

// head is the file of the commit that HEAD leads to.
func (p *project) head() string {
	id := p.git("rev-parse", "HEAD")
	return filepath.Join(p.dir, ".git/objects", id[:2], id[2:])
}

// alternate moves the objects to another repository, to which git goes for them.
func (p *project) alternate(dir string) {
	p.t.Helper()
	p.file(".git/objects/info/alternates", dir+"/.git/objects\n")
	if err := os.Remove(p.head()); err != nil {
		p.t.Fatal(err)
	}
}

// damage replaces the commit that HEAD leads to.
func (p *project) damage(f func([]byte) []byte) {
	p.t.Helper()
	path := p.head()
	b, err := os.ReadFile(path)
	if err = errors.Join(err, os.Remove(path), os.WriteFile(path, f(b), 0o644)); err != nil {
		p.t.Fatal(err)
	}
}

func packed(text string) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // memory takes it
	_ = z.Close()
	return b.Bytes()
}

// bomb is a commit that is much larger than what it is packed into.
func bomb() []byte {
	const size = 64 << 20
	return packed("commit 67108864\x00" + strings.Repeat("a", size))
}
