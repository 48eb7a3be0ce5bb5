// Package owngit reads git's configuration outside of workspaces: a person's own, the system's, and that of a
// repository elsewhere whose work tree a workspace is.
//
// Promises: it runs no git, and what it reads is bounded. It follows links as git does, with the rights of whoever calls
// it, which must be no more than git's. What it does not do: it does not tell what in a workspace the references mean.
package owngit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"palyra/internal/gitfile"
)

const (
	// MaxIncludes bounds how many files one configuration includes.
	MaxIncludes = 64
	// MaxWorktrees bounds how many work trees one repository has.
	MaxWorktrees = 1_000
)

// LimitError says that a file or directory was not read completely.
type LimitError struct{ Path, Why string }

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("owngit: %q %s", e.Path, e.Why) }

// Home is the home directory of a user, empty where it is not known.
func Home(uid uint32) string {
	if os.Geteuid() == int(uid) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		return home
	}
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return ""
	}
	return u.HomeDir
}

// Personal are the references of the configuration of the person with a home, and the system's. What is not read
// completely is left out.
func Personal(home string) []gitfile.Reference {
	files := []string{"/etc/gitconfig"}
	if home != "" {
		files = append(files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config", "git", "config"))
	}
	out, _ := References(home, files...)
	return out
}

// References are those of configurations and of the files that they include, whose paths are absolute. With a
// LimitError, some are missing.
func References(home string, files ...string) (out []gitfile.Reference, err error) {
	first, seen, most := files[0], map[string]bool{}, len(files)+MaxIncludes
	for ; len(files) > 0; files = files[1:] {
		file := files[0]
		if seen[file] {
			continue
		}
		if seen[file] = true; len(seen) > most {
			return out, &LimitError{first, fmt.Sprintf("includes more than %d files", MaxIncludes)}
		}
		set, wrong := settings(file)
		if wrong != nil {
			err = wrong
		}
		for _, r := range gitfile.References(set) {
			if r.Include {
				if r.Path = included(home, file, r.Path); r.Path == "" {
					continue
				}
				files = append(files, r.Path)
			}
			out = append(out, r)
		}
	}
	return out, err
}

// settings are those of one file; what git cannot read has none.
func settings(file string) ([]gitfile.Setting, error) {
	text, large := plainFile(file)
	if large {
		return nil, &LimitError{file, fmt.Sprintf("is larger than %d KiB", gitfile.MaxFile>>10)}
	}
	return Settings(file, text)
}

// Settings reads the text of a configuration. One that git refuses has none.
func Settings(file string, text []byte) ([]gitfile.Setting, error) {
	set, err := gitfile.Config(text)
	switch {
	case err == nil:
		return set, nil
	case errors.Is(err, gitfile.ErrLimit):
		return nil, &LimitError{file, "has too many settings"}
	}
	return nil, nil
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

// plainFile reads a file no larger than a configuration may be; nil if it is not one. It also reports one that is
// too large.
func plainFile(path string) (text []byte, large bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }() // only read
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(f, gitfile.MaxFile+1))
	if err != nil || len(b) > gitfile.MaxFile {
		return nil, err == nil
	}
	return b, false
}

// Worktrees are the work trees that a repository knows, by the pointers that git keeps in its directory.
func Worktrees(repository string) (tops []string, err error) {
	own := filepath.Join(repository, "worktrees")
	f, err := os.Open(own)
	if err != nil {
		return nil, nil //nolint:nilerr // git finds none either
	}
	names, err := Names(f)
	for _, n := range names {
		dir := filepath.Join(own, n)
		text, _ := plainFile(filepath.Join(dir, "gitdir"))
		if top := Top(dir, text); top != "" {
			tops = append(tops, top)
		}
	}
	return tops, err
}

// Names are those in a directory of work trees' own state, which it closes.
func Names(f *os.File) ([]string, error) {
	defer func() { _ = f.Close() }()             // only read
	names, _ := f.Readdirnames(MaxWorktrees + 1) // what cannot be read, git cannot read either
	if len(names) > MaxWorktrees {
		return nil, &LimitError{f.Name(), fmt.Sprintf("has more than %d work trees", MaxWorktrees)}
	}
	return names, nil
}

// Top is the work tree that a pointer leads to which lies in dir; empty: it leads nowhere.
func Top(dir string, pointer []byte) string {
	to := strings.TrimRight(string(pointer), "\r\n")
	switch {
	case to == "" || strings.ContainsRune(to, 0):
		return ""
	case !filepath.IsAbs(to):
		to = filepath.Join(dir, to)
	}
	return filepath.Dir(filepath.Clean(to))
}
