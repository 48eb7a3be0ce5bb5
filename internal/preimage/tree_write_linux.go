package preimage

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
)

// record is what is told of one thing before its content.
type record struct {
	Path   []byte        `json:"path"`
	Mode   uint32        `json:"mode"` // with the kind, as the system has it
	Time   unix.Timespec `json:"time"` // when it was written
	Size   int64         `json:"size,omitempty"`
	Target []byte        `json:"target,omitempty"`
}

func (r *record) kind() uint32 { return r.Mode & unix.S_IFMT }

// The bounds of a stream.
const (
	mostHead     = 64 << 10
	mostTreePath = 4_090
	mostDir      = 2_000_000 // names of one directory
	atEnd        = 1<<64 - 1 // where no part of a file begins
)

// firstTree begins a stream.
const firstTree = "palyra tree 1"

// treeWriter writes one tree.
type treeWriter struct {
	ctx context.Context // of the writing, which it does not outlive
	to  io.Writer
	top int
	buf []byte
}

// writeTree writes what is in a directory; about is what the stream is for, and has to be told when it is read.
func writeTree(ctx context.Context, to io.Writer, about string, top int) error {
	w := &treeWriter{ctx: ctx, to: to, top: top, buf: make([]byte, 256<<10)}
	err := w.block([]byte(firstTree + " " + about))
	if err == nil {
		names, lookErr := w.names("", 0o700)
		if err = lookErr; err == nil {
			err = w.dir("", names)
		}
	}
	if err == nil {
		err = w.block(nil)
	}
	if err != nil {
		return fmt.Errorf("preimage: write: %w", err)
	}
	return nil
}

// block writes some bytes and how many there are.
func (w *treeWriter) block(b []byte) error {
	if len(b) > mostHead {
		return fmt.Errorf("%d bytes are told of one thing", len(b))
	}
	_, err := w.to.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
	if err == nil {
		_, err = w.to.Write(b)
	}
	return err
}

// dir writes what is in a directory.
func (w *treeWriter) dir(rel string, names []string) error {
	for _, n := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(beneath.Join(rel, n)); err != nil {
			return err
		}
	}
	return nil
}

// names are what is in a directory. Its owner may read it whatever its mode says.
func (w *treeWriter) names(rel string, mode uint32) ([]string, error) {
	if mode&0o700 != 0o700 {
		err := beneath.InParent(w.top, rel, func(dir int, name string) error {
			return beneath.ChmodAt(dir, name, mode&0o3777|0o700)
		})
		if err != nil {
			return nil, err
		}
	}
	fd, err := beneath.OpenIn(w.top, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	return beneath.NamesOf(fd, mostDir)
}

// entry writes one thing.
func (w *treeWriter) entry(p string) error {
	st, missing, err := beneath.LookBelow(w.top, p)
	if err != nil || missing {
		return err
	}
	r := record{Path: []byte(p), Mode: st.Mode, Time: st.Mtim}
	switch r.kind() {
	case unix.S_IFDIR:
		names, err := w.names(p, st.Mode)
		if err := denied(err); err != nil {
			return err
		}
		if err := w.head(&r); err != nil {
			return err
		}
		return w.dir(p, names)
	case unix.S_IFLNK:
		target, err := beneath.Target(w.top, p)
		if err != nil {
			return err
		}
		r.Target = []byte(target)
		return w.head(&r)
	case unix.S_IFIFO:
		return w.head(&r)
	case unix.S_IFREG:
		return w.file(p, st, &r)
	}
	return nil // a socket, or a device
}

// denied leaves out what may not be opened. It is asked before anything is written of a thing: whatever fails after that
// leaves a stream that cannot be read, and ends it.
func denied(err error) error { return beneath.Ignore(beneath.Ignore(err, unix.EACCES), unix.EPERM) }

func (w *treeWriter) head(r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return w.block(text)
}

// file writes a regular file: what is told of it, and its parts that are not holes.
func (w *treeWriter) file(p string, st *unix.Stat_t, r *record) error {
	if st.Mode&0o400 == 0 {
		err := beneath.InParent(w.top, p, func(dir int, name string) error { return beneath.ChmodAt(dir, name, st.Mode&0o777|0o400) })
		if err != nil {
			return denied(err)
		}
	}
	f, now, err := beneath.OpenRegular(w.top, p)
	if err != nil {
		return denied(err)
	}
	defer func() { _ = f.Close() }()
	r.Size = now.Size
	if err := w.head(r); err != nil {
		return err
	}
	if err := w.parts(f, now.Size); err != nil {
		return fmt.Errorf("%q: %w", p, err)
	}
	return w.numbers(atEnd, 0)
}

func (w *treeWriter) numbers(all ...uint64) error {
	var b []byte
	for _, n := range all {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	_, err := w.to.Write(b)
	return err
}

// parts writes what is in a file of so many bytes.
func (w *treeWriter) parts(f *os.File, size int64) error {
	for at := int64(0); at < size; {
		from, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // the rest is a hole
			return nil
		}
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
			from, err = at, nil
		}
		if err != nil {
			return err
		}
		to, err := f.Seek(from, unix.SEEK_HOLE)
		if err != nil || to > size {
			to = size
		}
		if from >= to {
			return nil
		}
		if err := w.part(f, from, to-from); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// part writes n bytes of a file.
func (w *treeWriter) part(f *os.File, from, n int64) error {
	if err := w.numbers(uint64(from), uint64(n)); err != nil {
		return err
	}
	for n > 0 {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		b := w.buf[:min(n, int64(len(w.buf)))]
		got, err := f.ReadAt(b, from)
		if got == 0 {
			return errors.Join(errors.New("it became shorter"), err)
		}
		if _, err := w.to.Write(b[:got]); err != nil {
			return err
		}
		from, n = from+int64(got), n-int64(got)
	}
	return nil
}
