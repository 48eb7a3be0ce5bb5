package seal

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/gitfile"
)

// A person's own configuration of git holds in every repository, and its paths of hooks and programs can be
// relative to the work tree: core.hooksPath = .githooks in ~/.gitconfig has git run what a run puts there.

// home is the home directory of the workspace's owner, empty where it is not known.
func (t *tree) home() string {
	if t.euid == int(t.uid) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		return home
	}
	u, err := user.LookupId(strconv.FormatUint(uint64(t.uid), 10))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return ""
	}
	return u.HomeDir
}

// personal returns the references of the owner's own configuration, and the system's. They are read
// once for each look, with the owner's rights: git cannot read more.
func (t *tree) personal() []gitfile.Reference {
	if t.own != nil {
		return *t.own
	}
	out := []gitfile.Reference{}
	files := []string{"/etc/gitconfig"}
	if home := t.home(); home != "" {
		files = append(files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config", "git", "config"))
	}
	_ = t.asOwner(func() error { // f returns no error
		for i := 0; i < len(files) && i <= maxIncludes; i++ {
			set, err := gitfile.Config(plainFile(files[i]))
			if err != nil {
				continue
			}
			for _, r := range gitfile.References(set) {
				if !r.Include {
					out = append(out, r)
				} else if p := included(t.home(), files[i], r.Path); p != "" {
					files = append(files, p)
				}
			}
		}
		return nil
	})
	t.own = &out
	return out
}

// included is the file that a configuration includes.
func included(home, by, path string) string {
	rest, tilde := strings.CutPrefix(path, "~/")
	switch {
	case tilde && home == "", path == "", strings.ContainsRune(path, 0):
		return ""
	case tilde:
		return filepath.Join(home, rest)
	case filepath.IsAbs(path):
		return path
	}
	return filepath.Join(filepath.Dir(by), path)
}

// plainFile reads a file no larger than a configuration may be; nil if it is not one.
func plainFile(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("%q", path))
	defer func() { _ = f.Close() }() // only read
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, gitfile.MaxFile+1))
	if err != nil || len(b) > gitfile.MaxFile {
		return nil
	}
	return b
}
