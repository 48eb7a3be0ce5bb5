//go:build unix

package vault

import "os"

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
