package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A mount point that somebody outside the run renames or removes is unmounted in every namespace: when a person's
// git replaces .git/config, nothing holds the new file, and the run may write it. A path with another identity than
// before the run therefore counts as the run's. It is moved away like any find, and a small file is restored: a
// person's change is in the quarantine, and nothing of the run's is obeyed.

const (
	maxText  = 64 << 10 // of one sealed file
	maxTexts = 4 << 20  // of all
)

// remember reads the small sealed files, or takes over the known content of those that did not
// change. states is git's unfinished state as it was judged, because another run may have written
// more since; nil: it is read, and nothing runs.
func (t *tree) remember(s *Snapshot, known map[string]watchedPath, states map[string][]byte) {
	left := maxTexts
	for i := range s.entries {
		e := &s.entries[i]
		if e.kind == midway {
			if e.text = states[e.path]; states == nil {
				e.text = t.sequence(e.path)
			}
			continue
		}
		if e.kind != sealed || e.mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		was, ok := known[e.path]
		ok = ok && was.text != nil
		switch {
		case ok && states != nil && (was.loose || was.id != e.id || was.born != e.born): // a run may have written to it by now
			e.text, e.loose = was.text, true
		case e.size > maxText || int(e.size) > left:
		case ok && !differs(was, *e):
			e.text = was.text
		default:
			e.text = t.read(*e)
		}
		left -= len(e.text)
	}
}

// read returns the content of a small sealed file, nil when it cannot be read at once.
func (t *tree) read(e watchedPath) []byte {
	at, err := t.open(e.path, unix.O_PATH)
	if err != nil {
		return nil
	}
	defer unix.Close(at)
	if st, err := t.look(at, ""); err != nil || st.id != e.id || st.mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), e.path)
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil || len(b) > maxText {
		return nil
	}
	return append([]byte{}, b...)
}

// replaced reports whether another file is at a known path, and not only another copy of the same
// content, or another content in a file that no mount holds any more. Directories count where their inode numbers are reliable.
func (w *walker) replaced(was, is watchedPath) bool {
	if was.id == is.id && was.born == is.born && was.mode&unix.S_IFMT == is.mode&unix.S_IFMT && !was.loose {
		return false
	}
	switch {
	case was.kind != sealed && was.kind != kept, is.kind != sealed && is.kind != kept, is.path == ".":
		return false
	case was.mode&unix.S_IFMT != is.mode&unix.S_IFMT:
		return true
	case is.mode&unix.S_IFMT == unix.S_IFDIR:
		return w.t.firm
	case is.isLink() && was.isLink():
		return !bytes.Equal(is.text, was.text)
	case is.mode&unix.S_IFMT == unix.S_IFREG && was.text != nil && is.mode&0o111 == was.mode&0o111 && is.links == 1:
		return !bytes.Equal(w.t.read(is), was.text)
	}
	return true
}

// putBack moves away the file in the place of a sealed path and restores that, if it was a small file.
func (w *walker) putBack(p *quarantiner, was, is watchedPath) error {
	if err := w.away(p, is); err != nil {
		return err
	}
	if was.text == nil {
		delete(w.known, was.path) // a file that appears there now is new
		return nil
	}
	now := was
	now.loose = true
	restore := func() error {
		st, err := w.restore(is, was)
		now.id, now.born = st.id, st.born
		return err
	}
	err := w.t.asOwner(restore)
	if errors.Is(err, unix.EACCES) && w.passableTo(is.dir) == nil {
		err = w.t.asOwner(restore)
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		return nil // in use; the next pass tries again
	}
	if err != nil {
		return fmt.Errorf("put %q back: %w", was.path, err)
	}
	p.restored[was.path] = true
	w.known[was.path] = now
	return nil
}

// restore writes a file that must not exist, with the rights of the workspace's owner.
func (w *walker) restore(is, was watchedPath) (status, error) {
	dir, err := w.t.open(w.out.path(is.dir), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return status{}, err
	}
	defer unix.Close(dir)
	name := was.path[len(was.path)-baseLen(was.path):]
	if was.isLink() {
		if err := unix.Symlinkat(string(was.text), dir, name); err != nil {
			return status{}, err
		}
		return w.t.look(dir, name)
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return status{}, err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(was.text)
	err = errors.Join(err, unix.Fchmod(fd, was.mode&0o777))
	st, e := w.t.look(fd, "")
	return st, errors.Join(err, e, f.Close())
}
