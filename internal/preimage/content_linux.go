package preimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/owner"
)

// Content is a file that a call changed, as it was before and as it is now.
type Content struct {
	change.Change
	Before, After []byte // nothing where there is no file
	Why           string // why they are not given; empty: they are
}

// Contents reads files that a call changed and that pick picks, each of at most so many
// bytes before and after, in the order of their names, until f returns false. What is not
// as the call left it, or as it was remembered, is said and not given.
func (p *Store) Contents(ctx context.Context, name string, pick func(change.Change) bool, most int64, f func(Content) bool) error {
	m, err := p.Read(name)
	if err != nil {
		return err
	}
	all := Pair{Most: most, WasNot: "what it was is not remembered", IsNot: "it is not as the call left it"}
	sealed, err := p.sealedContents(ctx, &m, name, pick, most)
	if err != nil {
		return err
	}
	if all.Sealed = sealed; sealed == nil {
		old, done, err := p.OpenOld(ctx, name)
		if err != nil {
			return err
		}
		defer done()
		all.Before = old
	}
	return owner.Do(m.Owner(), func() error {
		ws, err := beneath.OpenTree(m.Workspace)
		if err != nil {
			return fmt.Errorf("preimage: the workspace is not there any more: %w", err)
		}
		defer func() { _ = unix.Close(ws) }()
		all.After = ws
		for i := range m.Changes {
			e := &m.Changes[i]
			find := func() (string, error) { return all.find(e) }
			if more, err := all.Read(ctx, e.Change(), find, pick, f); err != nil || !more {
				return err
			}
		}
		return nil
	})
}

// Pair is where files were and where they are.
type Pair struct {
	Before, After int               // descriptors
	Sealed        map[string][]byte // instead of Before: what was there, where it is sealed
	Most          int64             // bytes of a file that is given
	WasNot, IsNot string            // why a file is not given
}

// find says where what a change took away lies.
func (r *Pair) find(e *Replacement) (string, error) {
	if r.Sealed == nil {
		at, _, err := Find(r.Before, e)
		return at, err
	}
	for _, at := range e.places() {
		if _, has := r.Sealed[at]; has {
			return at, nil
		}
	}
	return "", errNone
}

// Read reads one file that is picked; find says where below Before it is. It reports whether more are wanted.
func (r *Pair) Read(
	ctx context.Context, c change.Change, find func() (string, error), pick func(change.Change) bool, f func(Content) bool,
) (more bool, err error) {
	if (c.Was.Kind != change.File && c.Now.Kind != change.File) || !pick(c) {
		return true, nil
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return f(r.content(c, find)), nil
}

func (r *Pair) content(c change.Change, find func() (string, error)) Content {
	out := Content{Change: c}
	if max(c.Was.Size, c.Now.Size) > r.Most {
		out.Why = "it is too large"
		return out
	}
	if c.Was.Kind == change.File {
		at, err := find()
		if err == nil {
			out.Before, err = r.former(at, c.Was)
		}
		if err != nil {
			return Content{Change: c, Why: r.WasNot}
		}
	}
	if c.Now.Kind == change.File {
		var err error
		if out.After, err = r.wholeFile(r.After, c.Path, c.Now); err != nil {
			return Content{Change: c, Why: r.IsNot}
		}
	}
	return out
}

// errOther: a file is not the one that is written down.
var errOther = errors.New("preimage: it is another one")

// former is what a file had.
func (r *Pair) former(at string, want change.State) ([]byte, error) {
	if r.Sealed == nil {
		return r.wholeFile(r.Before, at, want)
	}
	text := r.Sealed[at]
	return text, checked(text, want)
}

// checked compares content with what is written down.
func checked(text []byte, want change.State) error {
	if sum := sha256.Sum256(text); want.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		return errOther
	}
	return nil
}

// wholeFile reads a file that must be the one that is written down.
func (r *Pair) wholeFile(top int, path string, want change.State) ([]byte, error) {
	f, _, err := beneath.OpenRegular(top, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, r.Most+1))
	if err != nil {
		return nil, err
	}
	return text, checked(text, want)
}
