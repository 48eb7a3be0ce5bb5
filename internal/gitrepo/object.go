package gitrepo

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// object is one, unpacked.
type object struct {
	kind string // commit, tree, blob or tag
	data []byte
}

// read finds an object and unpacks it.
func (r *Repository) read(id ID) (object, error) {
	if r.reads++; r.reads > maxObjects {
		return object{}, unreadable("more than %d objects have to be looked at", maxObjects)
	}
	o, err := r.looseObject(id)
	if errors.Is(err, fs.ErrNotExist) {
		return r.packedObject(id)
	}
	return o, err
}

// spend counts bytes that are to be unpacked.
func (r *Repository) spend(n int64) error {
	if n < 0 || n > maxObject {
		return unreadable("an object is larger than %d MiB", maxObject>>20)
	}
	if r.left -= n; r.left < 0 {
		return unreadable("more than %d MiB have to be unpacked", maxUnpacked>>20)
	}
	return nil
}

// inflate unpacks exactly n bytes.
func (r *Repository) inflate(in io.Reader, n int64) ([]byte, error) {
	if err := r.spend(n); err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(in)
	if err != nil {
		return nil, unreadable("an object is damaged: %v", err)
	}
	return exactly(z, n)
}

func exactly(z io.Reader, n int64) ([]byte, error) {
	var out bytes.Buffer // grows with what there is, not with what is claimed
	got, err := io.Copy(&out, io.LimitReader(z, n+1))
	if err != nil || got != n {
		return nil, unreadable("an object is damaged: %d bytes of %d, %v", got, n, err)
	}
	return out.Bytes(), nil
}

// looseObject reads an object that is a file of its own.
func (r *Repository) looseObject(id ID) (object, error) {
	name := id.String()
	f, _, err := r.open(path.Join(r.common, "objects", name[:2], name[2:]))
	if err != nil {
		return object{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	z, err := zlib.NewReader(bufio.NewReader(f))
	if err != nil {
		return object{}, unreadable("object %s is damaged: %v", name, err)
	}
	in := bufio.NewReaderSize(z, 4<<10)
	head, err := in.ReadSlice(0)
	kind, size, ok := strings.Cut(strings.TrimSuffix(string(head), "\x00"), " ")
	n, bad := strconv.ParseInt(size, 10, 64)
	if err != nil || !ok || bad != nil {
		return object{}, unreadable("object %s has no head", name)
	}
	if err := r.spend(n); err != nil {
		return object{}, err
	}
	data, err := exactly(in, n)
	return object{kind, data}, err
}

// Commit is what counts of one.
type Commit struct {
	Tree    ID
	Parents []ID
	When    int64
}

// Commit reads a commit.
func (r *Repository) Commit(id ID) (Commit, error) {
	o, err := r.read(id)
	if err != nil {
		return Commit{}, err
	}
	if o.kind != "commit" {
		return Commit{}, unreadable("%s is no commit", id)
	}
	var c Commit
	for l := range strings.Lines(string(o.data)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		switch key {
		case "":
			return c, r.whole(c, id)
		case "tree", "parent":
			to, ok := r.id(value)
			if !ok {
				return Commit{}, unreadable("commit %s leads nowhere", id)
			}
			if key == "tree" && c.Tree == "" {
				c.Tree = to
			} else if key == "parent" {
				c.Parents = append(c.Parents, to)
			}
		case "committer":
			if f := strings.Fields(value); len(f) > 1 {
				c.When, _ = strconv.ParseInt(f[len(f)-2], 10, 64) // only the order of looking depends on it
			}
		}
	}
	return c, r.whole(c, id)
}

func (r *Repository) whole(c Commit, id ID) error {
	if c.Tree == "" {
		return unreadable("commit %s has no tree", id)
	}
	return nil
}

// Peel follows a tag to what it is of. commit says whether that is a commit.
func (r *Repository) Peel(id ID) (_ ID, commit bool, err error) {
	for range maxTags {
		o, err := r.read(id)
		if err != nil {
			return "", false, err
		}
		if o.kind != "tag" {
			return id, o.kind == "commit", nil
		}
		first, _, _ := strings.Cut(string(o.data), "\n")
		to, ok := r.id(strings.TrimPrefix(first, "object "))
		if !ok {
			return "", false, unreadable("tag %s leads nowhere", id)
		}
		id = to
	}
	return "", false, unreadable("tags lead from one to the next without an end")
}

// TreeEntry is a name in a tree.
type TreeEntry struct {
	Name string
	IndexEntry
}

// Tree reads a directory of a commit; that of no ID is empty.
func (r *Repository) Tree(id ID) ([]TreeEntry, error) {
	if known, ok := r.trees[id]; ok || id == "" {
		return known, nil
	}
	o, err := r.read(id)
	if err != nil {
		return nil, err
	}
	if o.kind != "tree" {
		return nil, unreadable("%s is no tree", id)
	}
	var out []TreeEntry
	for b := o.data; len(b) > 0; {
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		m, bad := strconv.ParseUint(mode, 8, 32)
		if !ok || !named || bad != nil || len(rest) < r.width || name == "" || strings.Contains(name, "/") {
			return nil, unreadable("tree %s is damaged", id)
		}
		out = append(out, TreeEntry{name, IndexEntry{uint32(m), ID(rest[:r.width])}})
		b = rest[r.width:]
	}
	if r.known += len(out); r.known <= maxKnown {
		r.trees[id] = out
	}
	return out, nil
}

// At is what a commit has at a path: nothing is the empty entry.
func (r *Repository) At(commit ID, p string) (e IndexEntry, err error) {
	if commit == "" {
		return e, nil
	}
	c, err := r.Commit(commit)
	if err != nil {
		return e, err
	}
	at := c.Tree
	for part := range strings.SplitSeq(p, "/") {
		entries, err := r.Tree(at)
		if err != nil {
			return IndexEntry{}, err
		}
		i := slices.IndexFunc(entries, func(t TreeEntry) bool { return t.Name == part })
		if i < 0 {
			return IndexEntry{}, nil
		}
		if e = entries[i].IndexEntry; e.IsTree() {
			at = e.ID
		} else {
			at = ""
		}
	}
	return e, nil
}
