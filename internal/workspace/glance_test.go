//go:build unix

package workspace

import (
	"os"
	"path/filepath"
	"testing"
)

// A glance says of every path what the system itself says of it, also by way of links.
func TestGlance(t *testing.T) {
	d := newDesk(t)
	d.ok(os.Symlink("ws", d.path("one")), os.Symlink("one/sub", d.path("two")), os.Symlink("nowhere", d.path("dangling")),
		os.Symlink("../../..", d.path("ws/sub/deep/up")), os.Symlink("loop", d.path("loop")), os.WriteFile(d.path("file"), nil, 0o600))
	g := newGlance()
	for _, rel := range []string{
		"", "ws", "ws/sub/deep", "one", "one/sub/deep", "two", "two/deep", "two/deep/up/ws/sub", "dangling", "dangling/x", "loop", "loop/x",
		"file", "file/x", "none", "none/x/y", "ws/sub/deep/up/one/none",
	} {
		path := d.path(rel)
		want := sight{path, identityOf(path)}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			want.real = real
		}
		for range 2 { // as it was found, and as it is remembered
			if got := g.look(path); got != want {
				t.Errorf("%s: %+v, want %+v", rel, got, want)
			}
		}
	}
	if g.look("/") != (sight{"/", identityOf("/")}) {
		t.Error("the root")
	}
}

// Palyra's own directory is known where a link leads to it, and where a link leads to the one that holds it.
func TestOwnDirectoryBehindLinks(t *testing.T) {
	d := newDesk(t)
	d.ok(os.MkdirAll(d.path("far/own/in"), 0o755), os.MkdirAll(d.path("far/beside"), 0o755), os.Symlink("far", d.path("near")),
		os.Symlink(d.path("far/own"), d.path("ws/alias")))
	d.Own = append(d.Own, d.path("near/own"))
	for _, rel := range []string{"far", "far/own", "far/own/in", "near/own/in", "ws/alias", "ws/alias/in"} {
		d.denied(d.path(rel))
	}
	if _, err := d.resolve(d.path("near/beside")); err != nil {
		t.Error(err)
	}
}
