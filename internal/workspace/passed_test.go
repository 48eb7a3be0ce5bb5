//go:build unix

package workspace

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A directory that was allowed once is refused as soon as something leads it to what it may not be, and allowed again afterwards.
func TestAllowedOnceIsNotAllowedForEver(t *testing.T) {
	d := newDesk(t)
	ws := d.path("ws")
	allowed := func() {
		t.Helper()
		for range 2 {
			if _, err := d.resolve(ws); err != nil {
				t.Fatal(err)
			}
		}
	}
	allowed()
	if len(d.passed.all) != 1 {
		t.Fatalf("%d directories are remembered: this test would show nothing", len(d.passed.all))
	}
	for name, c := range map[string]struct{ spoil, mend func() error }{
		"Palyra's directory comes to be a link to it": {
			func() error { return os.Symlink(ws, d.path("run")) }, func() error { return os.Remove(d.path("run")) },
		},
		"Palyra's directory is moved there": {
			func() error { return os.Rename(d.path("state"), d.path("ws/state")) },
			func() error { return os.Rename(d.path("ws/state"), d.path("state")) },
		},
		"keys come to lie there": {
			func() error {
				return firstOf(os.Rename(filepath.Join(d.home, ".ssh"), d.path("ssh")), os.Symlink(ws, filepath.Join(d.home, ".ssh")))
			},
			func() error {
				return firstOf(os.Remove(filepath.Join(d.home, ".ssh")), os.Rename(d.path("ssh"), filepath.Join(d.home, ".ssh")))
			},
		},
		"a home comes to lie there": {
			func() error { return os.Setenv("HOME", filepath.Join(ws, "sub")) }, func() error { return os.Setenv("HOME", d.home) },
		},
	} {
		d.ok(c.spoil())
		if name == "Palyra's directory is moved there" { // its old name leads nowhere now: what is refused is what has the name
			d.ok(os.Symlink(d.path("ws/state"), d.path("state")))
		}
		if _, err := d.resolve(ws); err == nil {
			t.Errorf("allowed although %s", name)
		}
		if name == "Palyra's directory is moved there" {
			d.ok(os.Remove(d.path("state")))
		}
		d.ok(c.mend())
		allowed()
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A directory for which very much was looked at is not remembered: whoever makes directories does not fill the memory.
func TestDeepDirectoriesAreNotRemembered(t *testing.T) {
	d := newDesk(t)
	deep := d.path("ws")
	for len(deep) < 2000 {
		deep = filepath.Join(deep, "a")
	}
	d.ok(os.MkdirAll(deep, 0o755))
	if _, err := d.resolve(deep); err != nil {
		t.Fatal(err)
	}
	if n := len(d.passed.all); n != 0 {
		t.Errorf("%d are remembered", n)
	}
	if _, err := d.resolve(d.path("ws/sub")); err != nil || len(d.passed.all) != 1 {
		t.Errorf("%v, %d are remembered", err, len(d.passed.all))
	}
}

// Whatever is moved, linked, made and removed: who remembers says what somebody says who looks for the first time.
func TestRememberedLikeLookedAt(t *testing.T) {
	d := newDesk(t)
	d.ok(os.MkdirAll(d.path("pool"), 0o755))
	names := []string{
		"ws", "ws/sub", "ws/sub/deep", "state", "config", "run", "pool", "pool/a", "homes/me/.ssh", "homes/me/project", "homes/me",
	}
	rng := rand.New(rand.NewPCG(11, 5))
	pick := func() string { return d.path(names[rng.IntN(len(names))]) }
	both := [2]int{}
	for n := range 500 {
		switch what := rng.IntN(6); what {
		case 0:
			_ = os.Rename(pick(), pick())
		case 1:
			_ = os.Symlink(pick(), pick())
		case 2:
			_ = os.Remove(pick())
		default:
			_ = os.Mkdir(pick(), 0o755)
		}
		for _, name := range names[:8] {
			dir := d.path(name)
			got, want := d.refuse(newGlance(), dir, d.euid), d.rules(newGlance(), dir, d.users.homesOf(d.euid, d.euid))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("step %d, %s: remembered %v, looked at %v", n, dir, got, want)
			}
			if got == nil {
				both[0]++
			} else {
				both[1]++
			}
		}
	}
	if both[0] < 300 || both[1] < 300 {
		t.Errorf("allowed and refused %v times: too one-sided to show anything", both)
	}
}
