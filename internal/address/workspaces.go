package address

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/durable"
)

// list is the name of the file with the registered workspaces.
const list = "workspaces"

// maxList is the most that is written into it, and read of it.
const maxList = 64 << 10

// SaveWorkspaces writes down, in the run directory run, which workspaces are registered: commands would else ask for
// them before each call. Too many for a small file are not written down, and neither are paths that no system has.
// After an error nothing is written down.
func SaveWorkspaces(run string, paths []string) error {
	who, err := identity(run)
	if err != nil {
		return errors.Join(fmt.Errorf("address: save: %w", err), ForgetWorkspaces(run))
	}
	text := who + "\n"
	for _, p := range paths {
		if text += p + "\x00"; p == "" || strings.ContainsRune(p, 0) || len(text) > maxList {
			return ForgetWorkspaces(run)
		}
	}
	if err := durable.WriteFile(filepath.Join(run, list), []byte(text), 0o600); err != nil {
		return errors.Join(fmt.Errorf("address: save: %w", err), ForgetWorkspaces(run))
	}
	return nil
}

// ForgetWorkspaces removes what SaveWorkspaces wrote.
func ForgetWorkspaces(run string) error {
	if err := os.Remove(filepath.Join(run, list)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("address: forget: %w", err)
	}
	return nil
}

// Workspaces returns the workspaces that the daemon of a run directory wrote down; false: it has to be asked. What is
// older than its addr was written by an earlier daemon, and what others could have written is not believed.
func Workspaces(run string) (paths []string, known bool) {
	f, err := openPlain(filepath.Join(run, list))
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || !own(info) || info.Size() > maxList {
		return nil, false
	}
	since, err := os.Lstat(filepath.Join(run, file))
	if err != nil || info.ModTime().Before(since.ModTime()) {
		return nil, false
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err != nil || len(raw) > maxList {
		return nil, false
	}
	who, rest, _ := strings.Cut(string(raw), "\n")
	if here, err := identity(run); err != nil || who != here || rest != "" && !strings.HasSuffix(rest, "\x00") {
		return nil, false
	}
	for p := range strings.SplitSeq(strings.TrimSuffix(rest, "\x00"), "\x00") {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths, true
}
