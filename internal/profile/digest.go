package profile

import (
	"fmt"
	"slices"
	"sync"

	"palyra"
	"palyra/internal/canon"
)

// digest binds what was resolved.
func (r *Resolved) digest() error {
	d, err := canon.Digest("profile/v1", map[string]any{
		"name": r.Name, "mounts": r.Mounts, "files": r.Files, "seals": r.Seals, "env": r.Env, "path": r.Path, "egress": r.Egress,
		"unix_sockets": r.UnixSockets, "asks": r.Asks,
	})
	if err != nil {
		return fmt.Errorf("profile: digest: %w", err)
	}
	r.Digest = palyra.Digest(d)
	return nil
}

// digests remembers the digest of what each profile last meant: every plan asks twice, and mostly nothing changed.
type digests struct {
	mu   sync.Mutex
	last map[string]Resolved // by name
}

// bind gives a profile its digest.
func (d *digests) bind(r *Resolved) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was, ok := d.last[r.Name]; ok && was.means(*r) {
		r.Digest = was.Digest
		return nil
	}
	if err := r.digest(); err != nil {
		return err
	}
	if d.last == nil {
		d.last = map[string]Resolved{}
	}
	kept := *r // the slices are the caller's, who may change them
	kept.Mounts, kept.Files, kept.Seals, kept.Env = slices.Clone(r.Mounts), slices.Clone(r.Files), slices.Clone(r.Seals), slices.Clone(r.Env)
	kept.Path, kept.Egress, kept.Notes = slices.Clone(r.Path), slices.Clone(r.Egress), nil
	d.last[r.Name] = kept
	return nil
}

// means reports whether all that the digest binds is the same. Nil and empty differ, as in the digest.
func (r Resolved) means(o Resolved) bool {
	return r.Name == o.Name && r.UnixSockets == o.UnixSockets && r.Asks == o.Asks &&
		sameList(r.Mounts, o.Mounts) && sameList(r.Files, o.Files) && sameList(r.Seals, o.Seals) && sameList(r.Env, o.Env) &&
		sameList(r.Path, o.Path) && sameList(r.Egress, o.Egress)
}

func sameList[T comparable](a, b []T) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
