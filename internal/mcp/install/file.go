package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"palyra"
	"palyra/internal/durable"
)

// keptAs is the ending of the name of the file as it was before Palyra.
const keptAs = ".before-palyra"

// holds reports whether a file has something of Palyra's in it already: then it is not the one from before Palyra.
type holds func(doc []byte) bool

// rewrite changes a plain file and keeps it as it was before Palyra, which an older call may have done. change gets
// nil for a file that does not exist, and returns nil to remove it. refuse words why a file is left alone.
func rewrite(
	path string, fresh fs.FileMode, ours holds, refuse func(error) error, change func(old []byte) ([]byte, error),
) (Result, error) {
	r := Result{Path: path}
	old, mode, err := read(path, refuse)
	if err != nil {
		return r, err
	}
	if old == nil {
		mode = fresh
	}
	doc, err := change(old)
	if err != nil || (old == nil) == (doc == nil) && bytes.Equal(doc, old) {
		return r, nameFile(path, err)
	}
	if old != nil && doc == nil {
		r.Changed, r.Removed = true, true
		return r, failed("removed", path, os.Remove(path))
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode(fresh)); err != nil {
		return r, failed("written", path, err)
	}
	if old != nil && !ours(old) {
		if err := durable.WriteFile(path+keptAs, old, mode); err != nil {
			return r, failed("kept as it was before it is changed", path, err)
		}
	}
	if old != nil {
		r.Backup = before(path, ours)
	}
	if err := durable.WriteFile(path, doc, mode); err != nil {
		return r, failed("written", path, err)
	}
	r.Changed = true
	return r, nil
}

// before is the name of the file as it was before Palyra; empty where none is kept, or one that has Palyra in it, as
// older versions made them.
func before(path string, ours holds) string {
	doc, _, err := read(path+keptAs, unreadable)
	if err != nil || doc == nil || ours(doc) {
		return ""
	}
	return path + keptAs
}

// dirMode is the mode of directories for files of a mode.
func dirMode(file fs.FileMode) fs.FileMode {
	if file == shared {
		return 0o755
	}
	return 0o700
}

// read returns a plain file; nil when there is none.
func read(path string, refuse func(error) error) ([]byte, fs.FileMode, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, nil
	}
	switch {
	case err != nil:
		return nil, 0, failed("read", path, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, 0, nameFile(path, refuse(linked(path)))
	case !info.Mode().IsRegular():
		return nil, 0, nameFile(path, refuse(errors.New("it is no plain file")))
	case info.Size() > maxFile:
		return nil, 0, nameFile(path, refuse(fmt.Errorf("it is larger than %d MiB", maxFile>>20)))
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, failed("read", path, err)
	}
	if doc == nil {
		doc = []byte{}
	}
	return doc, info.Mode().Perm(), nil
}

// linked says why a file is left alone that is a link, as those who keep their settings in a repository have them.
func linked(path string) error {
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return errors.New("it is a link that leads to no file")
	}
	return fmt.Errorf("it is a link to %s, and palyra changes plain files only", to)
}

// nameFile says which file an error is about.
func nameFile(path string, err error) error {
	e := (*palyra.Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	named.Text = path + ": " + e.Text
	return &named
}

// failed words why a file could not be read or written.
func failed(what, path string, err error) error {
	if err == nil {
		return nil
	}
	why, remedy := reason(err), "look at the file and its directory, and try again"
	switch {
	case errors.Is(err, fs.ErrPermission):
		remedy = "look who may write there: ls -ld " + filepath.Dir(path) + " " + path
	case errors.Is(err, syscall.EROFS):
		remedy = "it is on a file system that cannot be written to: put the lines of --print where they can be"
	}
	return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "%s cannot be %s: %s", path, what, why).
		WithRemedy("%s", remedy).WithCause(err)
}

// reason is what the system says, without the names of files in between.
func reason(err error) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err.Error()
	}
	if l := (*os.LinkError)(nil); errors.As(err, &l) {
		return l.Err.Error()
	}
	return err.Error()
}
