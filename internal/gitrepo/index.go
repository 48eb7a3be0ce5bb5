package gitrepo

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"path"
)

// Modes of entries, in indexes and trees.
const (
	ModeTree = 0o040000
	ModeLink = 0o120000
	modeType = 0o170000
)

// IndexEntry is a path in an index or a tree.
type IndexEntry struct {
	Mode uint32
	ID   ID
}

// IsLink reports whether an entry is a symbolic link.
func (e IndexEntry) IsLink() bool { return e.Mode&modeType == ModeLink }

// IsTree reports whether an entry is a directory.
func (e IndexEntry) IsTree() bool { return e.Mode&modeType == ModeTree }

// IndexInfo is about the file that the index is: whether it is there, its size and its times. Nil: there is none.
func (r *Repository) IndexInfo() (fs.FileInfo, error) {
	f, fi, err := r.open(path.Join(r.dir, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return fi, f.Close()
}

// Index calls f for every entry of the index, in git's order. The path is f's for the call only.
func (r *Repository) Index(f func(path []byte, e IndexEntry) error) error {
	file, fi, err := r.open(path.Join(r.dir, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	if fi.Size() == 0 {
		return nil
	}
	if fi.Size() > maxIndex {
		return unreadable("the index is larger than %d MiB", maxIndex>>20)
	}
	x := indexReader{in: bufio.NewReaderSize(io.LimitReader(file, maxIndex), 64<<10), width: r.width}
	err = x.read(func(p []byte, e IndexEntry) error {
		if x.n&0xfff == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		return f(p, e)
	})
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = unreadable("the index is cut short")
	}
	return err
}

// indexReader reads an index file.
type indexReader struct {
	in    *bufio.Reader
	width int
	n     int
	name  []byte
}

func (x *indexReader) read(f func(path []byte, e IndexEntry) error) error {
	var head [12]byte
	if _, err := io.ReadFull(x.in, head[:]); err != nil {
		return err
	}
	version, count := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if string(head[:4]) != "DIRC" || version < 2 || version > 4 || count > maxEntries {
		return unreadable("the index is of version %d with %d entries", version, count)
	}
	for range count {
		e, err := x.entry(version)
		if err != nil {
			return err
		}
		x.n++
		if e.IsTree() { // of a sparse index: what is in it nobody lists
			return unreadable("the index has directories in it")
		}
		if err := f(x.name, e); err != nil {
			return err
		}
	}
	return x.extensions()
}

// entry reads one entry; its path is in x.name then.
func (x *indexReader) entry(version uint32) (IndexEntry, error) {
	const fixed = 40
	var b [fixed + 32 + 4]byte
	head := b[:fixed+x.width+2]
	if _, err := io.ReadFull(x.in, head); err != nil {
		return IndexEntry{}, err
	}
	size := len(head)
	if head[fixed+x.width]&0x40 != 0 { // more flags
		if version < 3 {
			return IndexEntry{}, unreadable("the index has flags that its version does not know")
		}
		if _, err := io.ReadFull(x.in, b[size:size+2]); err != nil {
			return IndexEntry{}, err
		}
		size += 2
	}
	e := IndexEntry{Mode: binary.BigEndian.Uint32(head[24:]), ID: ID(head[fixed : fixed+x.width])}
	strip := len(x.name)
	if version == 4 {
		n, err := offset(x.in)
		if err != nil {
			return IndexEntry{}, err
		}
		if n > uint64(len(x.name)) {
			return IndexEntry{}, unreadable("a path in the index is shorter than nothing")
		}
		strip = int(n)
	}
	x.name = x.name[:len(x.name)-strip]
	before := len(x.name)
	if err := x.rest(); err != nil {
		return IndexEntry{}, err
	}
	if version == 4 {
		return e, nil
	}
	size += len(x.name) - before
	_, err := x.in.Discard(8 - size%8 - 1) // one zero was read
	return e, err
}

// maxPath bounds a path in an index or tree.
const maxPath = 4_096

// rest reads a path up to its zero.
func (x *indexReader) rest() error {
	for {
		c, err := x.in.ReadByte()
		if err != nil || c == 0 {
			return err
		}
		if x.name = append(x.name, c); len(x.name) > maxPath {
			return unreadable("a path in the index is longer than %d bytes", maxPath)
		}
	}
}

// extensions looks through what follows the entries for one that changes them.
func (x *indexReader) extensions() error {
	var head [8]byte
	for {
		rest, err := x.in.Peek(x.width + 1)
		if len(rest) <= x.width { // the checksum
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		if _, err := io.ReadFull(x.in, head[:]); err != nil {
			return err
		}
		if string(head[:4]) == "link" {
			return unreadable("the index is split")
		}
		if c := head[0]; (c < 'A' || c > 'Z') && string(head[:4]) != "sdir" && string(head[:4]) != "fsmn" {
			return unreadable("the index has an extension that must be known: %q", head[:4])
		}
		if _, err := io.CopyN(io.Discard, x.in, int64(binary.BigEndian.Uint32(head[4:]))); err != nil {
			return err
		}
	}
}

// offset reads a number in the form that packs use for distances and indexes of version 4 for what is cut off.
func offset(in io.ByteReader) (uint64, error) {
	c, err := in.ReadByte()
	n := uint64(c & 0x7f)
	for err == nil && c&0x80 != 0 {
		if n > 1<<56 {
			return 0, unreadable("a number is too large")
		}
		if c, err = in.ReadByte(); err == nil {
			n = (n+1)<<7 | uint64(c&0x7f)
		}
	}
	return n, err
}
