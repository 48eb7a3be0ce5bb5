// Package address writes down where a running daemon listens, and which workspaces it has, and reads it.
//
// The file addr in a daemon's run directory names the directory of its sockets, and for which run directory it was
// written, by device and inode; the directory of the sockets, where it is another one, has the same in its file of.
// A copy of a home brings addr along and is another directory: nobody who names the copy talks to the original's
// daemon. A home that was moved keeps its directory, and what now stands in its old place does not point back to
// it.
//
// Promises: a file that others could have written is not believed; a file of another directory gives ErrOther; both
// ends must name each other. It does not say whether anybody listens. Workspaces are told only as the daemon that
// listens wrote them; whoever is not told asks it.
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

// The names of the file in a run directory, and of the one that points back.
const (
	file = "addr"
	back = "of"
)

// maxFile is the most that is read of it: two paths would fit.
const maxFile = 8 << 10

// ErrOther is the error of a run directory whose addr was written for another one: no daemon serves from here.
var ErrOther = errors.New("address: the file addr was written for another directory: this one is a copy")

// Save writes down, in the run directory run, that the sockets are in dir.
func Save(run, dir string) error {
	who, err := identity(run)
	if err != nil {
		return fmt.Errorf("address: save: %w", err)
	}
	if there, err := identity(dir); err != nil || there != who {
		if err := durable.WriteFile(filepath.Join(dir, back), []byte(who+"\n"), 0o600); err != nil {
			return fmt.Errorf("address: save: %w", err)
		}
	}
	if err := durable.WriteFile(filepath.Join(run, file), []byte(dir+"\n"+who+"\n"), 0o600); err != nil {
		return fmt.Errorf("address: save: %w", err)
	}
	return nil
}

// Find returns the directory of the sockets of the daemon whose run directory is
// run: the one it wrote down, else usual.
func Find(run, usual string) (string, error) {
	raw, err := read(filepath.Join(run, file))
	if err != nil || raw == "" {
		return usual, err
	}
	dir, who, _ := strings.Cut(strings.TrimSpace(raw), "\n")
	if !filepath.IsAbs(dir) || who == "" { // of an earlier version, or nobody's
		return usual, nil
	}
	here, err := identity(run)
	if err != nil {
		return "", fmt.Errorf("address: find: %w", err)
	}
	if who != here {
		return "", ErrOther
	}
	if there, err := identity(dir); err == nil && there == here { // the run directory itself, as the daemon calls it
		return dir, nil
	}
	if points, err := read(filepath.Join(dir, back)); err == nil && strings.TrimSpace(points) == here {
		return dir, nil
	}
	return usual, nil
}

// read returns the file's text; "" where there is none, or others could have written it.
func read(path string) (string, error) {
	f, err := openPlain(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("address: find: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("address: find: %w", err)
	}
	if !info.Mode().IsRegular() || !own(info) {
		return "", nil
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", fmt.Errorf("address: find: %w", err)
	}
	return string(raw), nil
}

// identity names a directory so that a copy of it has another name.
func identity(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	return mark(info), nil
}
