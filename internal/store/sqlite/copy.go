package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// magic is how every SQLite file begins.
const magic = "SQLite format 3\x00"

// Is reports whether the file begins as an SQLite file does.
func Is(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("sqlite: %w", err)
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		return false, fmt.Errorf("sqlite: %w", err)
	}
	return string(head) == magic, nil
}

// OpenCopy opens a state file for reading only, for offline verification, and leaves no trace beside it: a file
// without a write-ahead log is opened as unchanging, which also works on read-only media. One with a log but
// without its index (a copy of both) is read from a private copy, because SQLite would make the index next to it.
// One with both is read in place, under SQLite's own locks: a daemon may have it open.
func OpenCopy(path string) (*Engine, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("sqlite: open copy: %w", err)
	}
	q := readOptions()
	switch {
	case !holds(path + "-wal"):
		q.Set("immutable", "1")
	case !holds(path + "-shm"):
		return openPrivate(path)
	}
	return open(dsn(path, q), dsn(path, q))
}

func holds(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

func openPrivate(path string) (_ *Engine, err error) {
	dir, err := os.MkdirTemp("", "palyra-copy-")
	if err != nil {
		return nil, fmt.Errorf("sqlite: open copy: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	to := filepath.Join(dir, "state.db")
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(to+suffix, path+suffix); err != nil {
			return nil, fmt.Errorf("sqlite: open copy: %w", err)
		}
	}
	e, err := open(dsn(to, readOptions()), dsn(to, readOptions()))
	if err != nil {
		return nil, err
	}
	e.scrap = dir
	return e, nil
}

func copyFile(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		return errors.Join(err, dst.Close())
	}
	return dst.Close()
}
