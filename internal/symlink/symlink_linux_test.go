package symlink

import (
	"os"
	"path/filepath"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Where a path leads is found through links, through what is not there, and through
// another name of the directory; names are bytes.
func TestResolve(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, d := range []string{"state/in", "free/deep", "d\xff"} {
		must(t, os.MkdirAll(filepath.Join(top, d), 0o700))
	}
	for name, to := range map[string]string{
		"alias": "state", "up": "free/deep", "loop": "loop", "raw\xff": "d\xff/../state", "proc": "/proc/self/root", "here": "/proc/self/cwd",
		"fd": "/dev/fd/3",
	} {
		must(t, os.Symlink(to, filepath.Join(top, name)))
	}
	must(t, os.Symlink(filepath.Join(top, "soon"), filepath.Join(top, "later")))
	for _, dir := range []string{"", "relative", "./x"} { // it would close nothing
		if _, err := NewSet([]string{top, dir}); err == nil {
			t.Errorf("%q is accepted", dir)
		}
	}
	s, err := NewSet([]string{filepath.Join(top, "alias"), filepath.Join(top, "none/yet")})
	must(t, err)
	for path, want := range map[string]End{
		"/state":                   {Path: "/state", Closed: true},
		"/state/in":                {Path: "/state/in", Closed: true},
		"/alias/in":                {Path: "/state/in", Closed: true},
		"/state/later/r1":          {Path: "/state/later/r1", Closed: true, Missing: true},
		"/free/../state/x":         {Path: "/state/x", Closed: true, Missing: true},
		"/up/../../state":          {Path: "/state", Closed: true},
		"/up/../state":             {Path: "/free/state", Closed: true, Missing: true},
		"/raw\xff/in":              {Path: "/state/in", Closed: true},
		"/none/yet/x":              {Path: "/none/yet/x", Closed: true, Missing: true},
		"/none/yetmore":            {Path: "/none/yetmore", Missing: true},
		"/later":                   {Path: "/soon", Missing: true},
		"/loop/x":                  {Path: "/loop/x", Missing: true},
		"/free":                    {Path: "/free"},
		"/d\xff":                   {Path: "/d\xff"},
		"/proc" + top + "/state/x": {Path: "/state/x", Closed: true, Missing: true, Proc: true},
	} {
		want.Path = top + want.Path
		if got := s.Resolve(top + path); got != want {
			t.Errorf("%q: %+v, want %+v", path, got, want)
		}
	}
	for _, path := range []string{"/here", "/here/../x", "/fd", "/fd/x"} {
		if got := s.Resolve(top + path); !got.Proc {
			t.Errorf("%q: %+v", path, got)
		}
	}
	for _, path := range []string{
		"/proc/self/root/usr", "/proc", "//proc/./self/fd/0", "/dev/fd/5", "/dev/stdin",
		"/usr/../proc/thread-self/cwd",
	} {
		if got := s.Resolve(path); !got.Proc {
			t.Errorf("%q: %+v", path, got)
		}
	}
	if got := s.Resolve("/usr/bin"); got.Proc || got.Missing || got.Closed {
		t.Errorf("%+v", got)
	}
}

func TestStrays(t *testing.T) {
	for text, want := range map[string]bool{
		"/x": true, "x": false, "x/y/./z": false, "..": false, "../..": false, "../../..": true, "../x": false, "x/..": true,
		"../../x/../../y": true, "": false, "...": false, "..\xff": false,
	} {
		if got := Strays(text, 2); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
