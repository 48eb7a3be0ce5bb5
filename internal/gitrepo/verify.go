package gitrepo

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // it is what git calls its objects by
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Verify reads what files of the object store have, which are new or changed, and finds out whether each object is what
// it is called by. Git does so when it gets objects from elsewhere, and not when it reads its own: a blob with another's
// name would be that other's content in every commit. Names are relative to the repository's own directory. What git
// believes without looking (indexes over several packs, graphs of commits, stores elsewhere) is an error.
func (r *Repository) Verify(names []string) error {
	packs := map[string]bool{}
	for _, name := range names {
		dir, base := path.Split(name)
		switch {
		case dir == "objects/pack/" && slices.Contains([]string{".pack", ".idx"}, path.Ext(base)):
			packs[strings.TrimSuffix(name, path.Ext(base))] = true
		case strings.HasPrefix(base, "multi-pack-index"), strings.HasPrefix(name, "objects/info/") && base != "packs":
			return unreadable("%q cannot be verified", name)
		default:
			id, err := ParseID(path.Base(dir) + base)
			if err != nil {
				continue // git does not take it for an object
			}
			if err := r.verifyLoose(id); err != nil {
				return err
			}
		}
	}
	for _, base := range slices.Sorted(maps.Keys(packs)) {
		if err := r.verifyPack(path.Join(r.common, base)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) verifyLoose(id ID) error {
	if r.reads++; r.reads > maxObjects {
		return unreadable("more than %d objects have to be looked at", maxObjects)
	}
	o, err := r.looseObject(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is gone
	}
	return r.called(id, o, err)
}

// verifyPack looks at every object of a pack.
func (r *Repository) verifyPack(base string) error {
	p, err := r.openPack(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // git does not use one without the other
	}
	if err != nil {
		return err
	}
	defer p.close()
	id := make([]byte, r.width)
	for i := range int64(p.fan[255]) {
		if r.reads++; r.reads > maxObjects {
			return unreadable("more than %d objects have to be looked at", maxObjects)
		}
		if _, err := p.index.ReadAt(id, 8+256*4+i*int64(r.width)); err != nil {
			return unreadable("an index of a pack is cut short: %v", err)
		}
		at, ok, err := p.find(ID(id))
		if err != nil || !ok {
			return unreadable("an index of a pack is not in order: %v", err)
		}
		o, err := r.unpack(p, at)
		if err := r.called(ID(id), o, err); err != nil {
			return err
		}
	}
	return nil
}

// called compares an object with its name.
func (r *Repository) called(id ID, o object, err error) error {
	if err != nil {
		return err
	}
	if got, err := r.sum(o.kind, int64(len(o.data)), bytes.NewReader(o.data)); err != nil || got != id {
		return unreadable("object %s is another one: %v", id, err)
	}
	return nil
}

// sum is what git calls an object.
func (r *Repository) sum(kind string, size int64, in io.Reader) (ID, error) {
	var h hash.Hash = sha1.New() //nolint:gosec // as above
	if r.width == sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	if n, err := io.Copy(h, io.LimitReader(in, size+1)); err != nil || n != size {
		return "", unreadable("it changed while it was read: %v", err)
	}
	return ID(h.Sum(nil)), nil
}

// Blob is the ID that git gives a file of so many bytes. It names content, and proves nothing.
func (r *Repository) Blob(size int64, in io.Reader) (ID, error) { return r.sum("blob", size, in) }
