// Package gitrepo reads a git repository that a stranger could write to: its refs, its index, its commits and
// trees. It runs no git, which would obey the repository's own configuration, and follows nothing out of the
// directory that it was given: no link, no alternate object store, no linked repository.
//
// Everything is bounded: the size of each file and object, how much is unpacked altogether, how many objects are
// read. What cannot be read whole is an error, and the caller assumes the worst. Known are SHA-1 and SHA-256, loose
// objects, packs of version 2 with indexes of version 2, index files of versions 2 to 4, loose and packed refs. Not
// known are reftables, split indexes and objects of elsewhere.
//
// What it does not do: it takes objects for what they are called by. To compute
// their hashes is for git, when it sends or checks them.
package gitrepo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"palyra/internal/gitfile"
)

// Bounds of one Repository.
const (
	maxRefs     = 50_000
	maxRefDepth = 16
	maxRefFile  = 4 << 10
	maxPacked   = 16 << 20 // bytes of packed-refs
	maxIndex    = 256 << 20
	maxEntries  = 2_000_000 // of an index
	maxObject   = 16 << 20
	maxUnpacked = 256 << 20 // bytes of all objects together
	maxObjects  = 100_000   // that are read
	maxKnown    = 200_000   // entries of trees that are remembered
	maxPacks    = 512
	maxChain    = 4_096 // deltas of one object
	maxTags     = 16    // from one to the next
)

// ErrUnreadable is in the chain of every error about a repository that cannot be
// read whole: it is damaged, too large, or made in a way that is not known here.
var ErrUnreadable = errors.New("gitrepo: cannot be read")

func unreadable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnreadable, fmt.Sprintf(format, args...))
}

// ID is the name of an object, as bytes; empty: none.
type ID string

// String is the ID as git writes it.
func (id ID) String() string { return hex.EncodeToString([]byte(id)) }

// ParseID reads an ID as git writes it.
func ParseID(text string) (ID, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 20 && len(b) != 32 {
		return "", unreadable("%q is no ID", text)
	}
	return ID(b), nil
}

// Files are what a repository is read from: a directory with all that is in it. Neither may lead out of it, nor wait
// for whoever is at the other end of something that is no file. Names are relative and clean.
type Files interface {
	Open(name string) (*os.File, error)
	ReadDir(name string, most int) ([]fs.DirEntry, error) // one more than most, where there are more
}

// Root are the files below a directory. Links are followed that lead on in it.
func Root(root *os.Root) Files { return rootFiles{root} }

type rootFiles struct{ root *os.Root }

// Open implements Files.
func (r rootFiles) Open(name string) (*os.File, error) {
	return r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// ReadDir implements Files.
func (r rootFiles) ReadDir(name string, most int) ([]fs.DirEntry, error) {
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	entries, err := f.ReadDir(most + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}

// Repository is one that is open for reading. It is for one goroutine at a time.
type Repository struct {
	ctx    context.Context
	files  Files
	dir    string // in which HEAD and the index are, below root
	common string // in which refs and objects are
	width  int    // bytes of an ID
	packs  []*pack
	looked bool // for packs
	left   int64
	reads  int
	trees  map[ID][]TreeEntry
	known  int // entries of those
}

// Open opens the repository in a directory of files. The context bounds all that is read.
func Open(ctx context.Context, files Files, dir string) (*Repository, error) {
	r := &Repository{ctx: ctx, files: files, dir: dir, common: dir, width: 20, left: maxUnpacked, trees: map[ID][]TreeEntry{}}
	text, err := r.file(path.Join(dir, "commondir"), maxRefFile)
	switch {
	case err == nil:
		to := strings.TrimRight(string(text), "\r\n")
		if r.common = path.Join(dir, to); filepath.IsAbs(to) || !filepath.IsLocal(r.common) {
			return nil, unreadable("its objects are outside of the workspace")
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	text, err = r.file(path.Join(r.common, "config"), gitfile.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	set, err := gitfile.Config(text)
	if err != nil {
		return nil, unreadable("its configuration: %v", err)
	}
	for _, s := range set {
		switch {
		case s.Section != "extensions" || s.Sub != "":
		case s.Key == "objectformat" && s.Value == "sha256":
			r.width = 32
		case s.Key == "objectformat" && s.Value != "sha1", s.Key == "refstorage" && s.Value != "files":
			return nil, unreadable("%s is %q", s.Key, s.Value)
		}
	}
	return r, nil
}

// Close gives back what is open.
func (r *Repository) Close() {
	for _, p := range r.packs {
		p.close()
	}
	r.packs = nil
}

// open opens a plain file below the root, without waiting for whoever is at the other end of anything else.
func (r *Repository) open(name string) (*os.File, fs.FileInfo, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, nil, err
	}
	f, err := r.files.Open(name)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = unreadable("%q is no file", name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, fi, nil
}

// file reads a small file.
func (r *Repository) file(name string, most int64) ([]byte, error) {
	f, _, err := r.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = unreadable("%q is longer than %d bytes", name, most)
	}
	return b, err
}

// id reads an object's name.
func (r *Repository) id(text string) (ID, bool) {
	b, err := hex.DecodeString(text)
	return ID(b), err == nil && len(b) == r.width
}

// Refs are the refs and where they lead, HEAD among them when it leads to a commit; each is followed to the end. Of
// a linked worktree's repository it is HEAD alone: the others are those of the repository that it belongs to.
func (r *Repository) Refs() (map[string]ID, error) {
	raw := map[string]string{}
	text, err := r.file(path.Join(r.dir, "HEAD"), maxRefFile)
	if err != nil {
		return nil, err
	}
	raw["HEAD"] = line(text)
	if err := r.packed(raw); err != nil {
		return nil, err
	}
	if err := r.loose("refs", raw, 0); err != nil {
		return nil, err
	}
	out := map[string]ID{}
	for name := range raw {
		if id, ok := r.resolve(raw, name); ok && (r.dir == r.common || name == "HEAD") {
			out[name] = id
		}
	}
	return out, nil
}

func line(text []byte) string { return strings.TrimSpace(string(text)) }

// resolve follows a symbolic ref.
func (r *Repository) resolve(raw map[string]string, name string) (ID, bool) {
	for range 8 {
		to, symbolic := strings.CutPrefix(raw[name], "ref:")
		if !symbolic {
			return r.id(raw[name])
		}
		name = strings.TrimSpace(to)
	}
	return "", false
}

// packed reads the refs that are kept in one file.
func (r *Repository) packed(raw map[string]string) error {
	text, err := r.file(path.Join(r.common, "packed-refs"), maxPacked)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for l := range strings.Lines(string(text)) {
		id, name, ok := strings.Cut(strings.TrimRight(l, "\r\n"), " ")
		if !ok || strings.HasPrefix(l, "#") || strings.HasPrefix(l, "^") {
			continue
		}
		if raw[name] = id; len(raw) > maxRefs {
			return unreadable("it has more than %d refs", maxRefs)
		}
	}
	return nil
}

// loose reads the refs that are files of their own.
func (r *Repository) loose(dir string, raw map[string]string, depth int) error {
	if depth > maxRefDepth {
		return unreadable("refs are nested too deeply")
	}
	entries, err := r.list(path.Join(r.common, dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			if err := r.loose(name, raw, depth+1); err != nil {
				return err
			}
			continue
		}
		text, err := r.file(path.Join(r.common, name), maxRefFile)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went away meanwhile, or leads nowhere
			continue
		case err != nil:
			return err
		}
		if raw[name] = line(text); len(raw) > maxRefs {
			return unreadable("it has more than %d refs", maxRefs)
		}
	}
	return nil
}

// list reads a directory, of which there may be none.
func (r *Repository) list(dir string) ([]fs.DirEntry, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := r.files.ReadDir(dir, maxRefs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if len(entries) > maxRefs {
		return nil, unreadable("%q has more than %d entries", dir, maxRefs)
	}
	return slices.Clip(entries), err
}
