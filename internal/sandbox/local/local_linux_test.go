package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// system makes a small one: a path that ends in "/" is a directory, "-> " is a link,
// and a mode may stand before.
func system(t *testing.T, lines ...string) string {
	t.Helper()
	top := t.TempDir()
	for _, line := range lines {
		mode := os.FileMode(0o644)
		if m, rest, ok := strings.Cut(line, " "); ok && m[0] == '0' {
			_, _ = fmt.Sscanf(m, "%o", &mode)
			line = rest
		} else if strings.HasSuffix(line, "/") {
			mode = 0o755
		}
		name, to, link := strings.Cut(line, " -> ")
		path := filepath.Join(top, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case link:
			must(t, os.Symlink(to, path))
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(path, 0o755))
			must(t, os.Chmod(path, mode))
		default:
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Chmod(path, mode))
		}
	}
	return top
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hidden(t *testing.T, top string, owner uint32) string {
	t.Helper()
	p := &Places{top: top, owner: owner}
	var rel []string
	for _, h := range p.Hidden() {
		rel = append(rel, strings.TrimPrefix(h, top+"/"))
	}
	return strings.Join(rel, " ")
}

func TestHidden(t *testing.T) {
	us := uint32(os.Geteuid())
	many := []string{"usr/", "opt/"}
	for i := range mostParts + 1 {
		many = append(many, fmt.Sprintf("0600 opt/a/%d", i))
	}
	for i := range 3 {
		many = append(many, fmt.Sprintf("0600 opt/b/%d", i))
	}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"nothing local":       {[]string{"usr/bin/sh", "0600 usr/bin/x"}, ""},
		"a closed file":       {[]string{"usr/", "0600 opt/other/.env", "opt/other/open"}, "opt/other/.env"},
		"a group's file":      {[]string{"usr/", "0640 opt/.env"}, "opt/.env"},
		"a closed directory":  {[]string{"usr/", "0750 opt/a/"}, "opt/a"},
		"one to pass":         {[]string{"usr/", "0711 opt/a/"}, "opt/a"},
		"one for all":         {[]string{"usr/", "0777 opt/a/"}, "opt/a"},
		"a group's directory": {[]string{"usr/", "0775 opt/a/"}, ""},
		"a closed place":      {[]string{"usr/", "0700 opt/"}, "opt"},
		"deep":                {[]string{"usr/local/go/bin/go", "0600 usr/local/a/b/c/d"}, "usr/local/a/b/c/d"},
		"beside /usr/local":   {[]string{"0600 usr/src/app/.env", "usr/src/linux/x"}, "usr/src/app/.env"},
		"settings":            {[]string{"usr/local/etc/npmrc", "0600 usr/local/etc/key"}, "usr/local/etc"},
		"no settings":         {[]string{"usr/local/etc/"}, ""},
		"links":               {[]string{"usr/", "0600 opt/a/key", "opt/link -> a/key", "opt/out -> /etc/shadow"}, "opt/a/key"},
		"a place elsewhere":   {[]string{"usr/", "0600 var/opt/a/key", "opt -> var/opt"}, "var/opt/a/key"},
		"many":                {many, "opt/a opt/b/0 opt/b/1 opt/b/2"},
	} {
		if got := hidden(t, system(t, c.lines...), us); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := hidden(t, system(t, "usr/local/", "opt/a"), us+1); got != "opt usr/local" {
		t.Errorf("of somebody else: %q", got)
	}
	if os.Geteuid() == 0 {
		top := system(t, "usr/", "0600 opt/a/b/key", "opt/a/c")
		must(t, os.Chmod(top+"/opt/a", 0o775))
		if got := hidden(t, top, us); got != "opt/a/b/key" {
			t.Errorf("root's own group: %q", got)
		}
		must(t, os.Chown(top+"/opt/a", 0, 50))
		if got := hidden(t, top, us); got != "opt/a" {
			t.Errorf("a group's directory with something hidden: %q", got)
		}
	}
	top := system(t, "usr/", "opt/a/b")
	must(t, unix.Mkfifo(top+"/opt/a/fifo", 0o644))
	if got := hidden(t, top, us); got != "opt/a/fifo" {
		t.Errorf("a fifo: %q", got)
	}
}

// A directory from which something is taken is not too large to be taken apart.
func TestHiddenAmongMany(t *testing.T) {
	top := system(t, "usr/", "0600 opt/a/b/key", "opt/a/c")
	for i := range mostBeside {
		must(t, os.WriteFile(fmt.Sprintf("%s/opt/a/b/%d", top, i), nil, 0o644))
	}
	if got := hidden(t, top, uint32(os.Geteuid())); got != "opt/a/b" {
		t.Errorf("%q", got)
	}
}

// A change shows at the next look, and looks are rare.
func TestLooks(t *testing.T) {
	top := system(t, "usr/", "opt/a/b")
	p := &Places{top: top, owner: uint32(os.Geteuid())}
	now := func() string { return strings.Join(p.Hidden(), " ") }
	if got := now(); got != "" {
		t.Fatal(got)
	}
	must(t, os.WriteFile(top+"/opt/a/key", nil, 0o600))
	if got := now(); got != "" {
		t.Errorf("it looked again at once: %q", got)
	}
	p.check = time.Time{}
	if got := now(); got != top+"/opt/a/key" {
		t.Errorf("a new file: %q", got)
	}
	must(t, os.Chmod(top+"/opt/a/b", 0o600)) // no directory says so
	p.check, p.whole = time.Time{}, time.Time{}
	if got := now(); got != top+"/opt/a/b "+top+"/opt/a/key" {
		t.Errorf("a file that was closed: %q", got)
	}
	was := p.Hidden()
	must(t, os.Remove(top+"/opt/a/key"))
	p.check = time.Time{}
	_ = p.Hidden() // another room's look
	if !p.Again(was) || p.Again(p.Hidden()) {
		t.Error("what a room went by is taken for what another one saw")
	}
}

func TestRest(t *testing.T) {
	top := system(t, "opt/a/x", "opt/a/y/z", "opt/b", "opt/l -> a/x", "usr/bin/")
	for _, c := range []struct{ tree, hidden, want string }{
		{"opt", "", "opt"},
		{"opt", "usr/bin", "opt"},
		{"opt", "opt", ""},
		{"opt/a", "opt", ""},
		{"opt", "opt/a", "opt/b"},
		{"opt", "opt/a/x", "opt/a/y opt/b"},
		{"opt", "opt/a/y/z opt/b", "opt/a/x"},
		{"opt", "opt/ab", "opt/a opt/b"}, // gone since: its directory is taken apart all the same
		{"missing", "missing/x", ""},
	} {
		var all []string
		for _, h := range strings.Fields(c.hidden) {
			all = append(all, filepath.Join(top, h))
		}
		var got []string
		for _, r := range Rest(filepath.Join(top, c.tree), all) {
			got = append(got, strings.TrimPrefix(r, top+"/"))
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s without %s: %q, want %q", c.tree, c.hidden, got, c.want)
		}
	}
}

func BenchmarkHidden(b *testing.B) {
	for b.Loop() {
		p := Places{}
		p.Hidden()
	}
}

func BenchmarkChanged(b *testing.B) {
	p := Places{}
	p.Hidden()
	for b.Loop() {
		if p.changed() {
			b.Fatal("it changed")
		}
	}
}
