//go:build unix

package vault

import (
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/secrets"
)

// spoils are ways in which a key's file is no longer one to trust; each returns how to make it good again.
func spoils(path string) map[string]func() func() {
	move := func(to func(aside string) error) func() func() {
		return func() func() {
			aside := path + ".aside"
			_ = os.Rename(path, aside)
			_ = to(aside)
			return func() { _ = os.RemoveAll(path); _ = os.Rename(aside, path) }
		}
	}
	all := map[string]func() func(){
		"open to others": func() func() { _ = os.Chmod(path, 0o644); return func() { _ = os.Chmod(path, 0o600) } },
		"gone":           move(func(string) error { return nil }),
		"a link":         move(func(aside string) error { return os.Symlink(aside, path) }),
		"a directory":    move(func(string) error { return os.Mkdir(path, 0o700) }),
		"no key":         move(func(string) error { return os.WriteFile(path, []byte("hello\n"), 0o600) }),
		"a short key":    move(func(string) error { return os.WriteFile(path, []byte("00ff\n"), 0o600) }),
	}
	if os.Geteuid() == 0 {
		all["another user's"] = func() func() { _ = os.Chown(path, 65534, 65534); return func() { _ = os.Chown(path, 0, 0) } }
	}
	return all
}

// A key that somebody else could read, or that is gone, refuses what needs it, with what to do; the rest goes on.
func TestAKeyThatIsNotSafe(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.put("one", "the value of the first")
	found, err := filepath.Glob(filepath.Join(h.dir, "vault-*.key"))
	h.ok(err)
	for what, spoil := range spoils(found[0]) {
		undo := spoil()
		h.again()
		_, err := h.get("one")
		if e := palyra.AsError(err); err == nil || e.Remedy == "" || e.Reason == palyra.ReasonInternal {
			t.Errorf("%s: %v", what, err)
		}
		if s, err := h.Status(t.Context()); err != nil || s.State == secrets.Open || s.Why == "" || s.Remedy == "" {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
		if list, err := h.List(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("%s: %d are listed, %v", what, len(list), err)
		}
		undo()
		h.want("one", "the value of the first") // without a new start
	}
}
