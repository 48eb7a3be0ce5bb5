package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/owner"
	"palyra/internal/quarantine"
)

// Content is a file that a run changed, as it was before and as it is now.
type Content struct {
	Change
	Before, After []byte // nothing where there is no file
	Why           string // why they are not given; empty: they are
}

// Contents reads files that a run changed and that pick picks, each of at most so many
// bytes before and after, in the order of their names, until f returns false. What is not
// as the run left it, or as it was remembered, is said and not given.
func (p *Past) Contents(ctx context.Context, name string, pick func(Change) bool, most int64, f func(Content) bool) error {
	m, err := p.Read(name)
	if err != nil {
		return err
	}
	away, err := beneath.OpenAt2(int(p.dir.Fd()), name+"/"+old, unix.O_PATH|unix.O_DIRECTORY, beneath.Resolve)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(away) }()
	return owner.Do(owner.Identity{UID: m.UID, GID: m.GID}, func() error {
		ws, err := beneath.OpenTree(m.Workspace)
		if err != nil {
			return errors.Join(errGone, err)
		}
		defer func() { _ = unix.Close(ws) }()
		v := reverter{placer: placer{ws: ws}, reader: &reader{ctx: ctx}, away: away}
		one := contents{reader: v.reader, before: away, after: ws, most: most}
		one.wasNot, one.isNot = "what it was is not remembered", "it is not as the call left it"
		for i := range m.Changes {
			e := &m.Changes[i]
			one.find = func() (string, error) { at, _, err := v.find(e); return at, err }
			if more, err := one.read(Change{Path: string(e.Path), Was: e.Was, Now: e.Now}, pick, f); err != nil || !more {
				return err
			}
		}
		return nil
	})
}

// HeldContents is Contents for a stage that is held: the workspace is what was, and the stage what would be.
// No changes of the call are held: a NotHeldError.
func (s *Stages) HeldContents(ctx context.Context, call string, pick func(Change) bool, most int64, f func(Content) bool) error {
	if !quarantine.PlainID(call) {
		return &NotHeldError{call}
	}
	h, err := s.readHeld(call)
	if errors.Is(err, os.ErrNotExist) {
		return &NotHeldError{call}
	}
	if err != nil {
		return fmt.Errorf("stage: held contents: %w", err)
	}
	upper, err := beneath.OpenAt2(int(s.dir.Fd()), heldPrefix+call+"/"+Upper, unix.O_PATH|unix.O_DIRECTORY, beneath.Resolve)
	if err != nil {
		return fmt.Errorf("stage: held contents: %w", err)
	}
	defer func() { _ = unix.Close(upper) }()
	return owner.Do(owner.Identity{UID: h.UID, GID: h.GID}, func() error {
		ws, err := beneath.OpenTree(h.Workspace)
		if err != nil {
			return errors.Join(errGone, err)
		}
		defer func() { _ = unix.Close(ws) }()
		one := contents{reader: &reader{ctx: ctx}, before: ws, after: upper, most: most}
		one.wasNot, one.isNot = "somebody changed it since, or it cannot be read", "it cannot be read"
		for _, c := range h.changes() {
			one.find = func() (string, error) { return c.Path, nil }
			if more, err := one.read(c, pick, f); err != nil || !more {
				return err
			}
		}
		return nil
	})
}

// contents reads files from where they were and where they are.
type contents struct {
	*reader
	before, after int
	most          int64
	find          func() (string, error) // where below before the file is that is read
	wasNot, isNot string                 // why a file is not given
}

// read reads one file that is picked, before and after. It reports whether more are wanted.
func (r *contents) read(c Change, pick func(Change) bool, f func(Content) bool) (bool, error) {
	if (c.Was.Kind != File && c.Now.Kind != File) || !pick(c) {
		return true, nil
	}
	if err := r.ctx.Err(); err != nil {
		return false, err
	}
	return f(r.content(c)), nil
}

func (r *contents) content(c Change) Content {
	out := Content{Change: c}
	if max(c.Was.Size, c.Now.Size) > r.most {
		out.Why = "it is too large"
		return out
	}
	if c.Was.Kind == File {
		at, err := r.find()
		if err == nil {
			out.Before, err = r.wholeFile(r.before, at, c.Was)
		}
		if err != nil {
			return Content{Change: c, Why: r.wasNot}
		}
	}
	if c.Now.Kind == File {
		var err error
		if out.After, err = r.wholeFile(r.after, c.Path, c.Now); err != nil {
			return Content{Change: c, Why: r.isNot}
		}
	}
	return out
}

// errOther: a file is not the one that is written down.
var errOther = errors.New("stage: it is another one")

// wholeFile reads a file that must be the one that is written down.
func (r *contents) wholeFile(top int, path string, want State) ([]byte, error) {
	f, _, err := beneath.OpenRegular(top, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, r.most+1))
	if err != nil {
		return nil, err
	}
	digest, err := r.sum(bytes.NewReader(text))
	if err == nil && (digest != want.Digest || want.Digest == "") {
		err = errOther
	}
	return text, err
}
