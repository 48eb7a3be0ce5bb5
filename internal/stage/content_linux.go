package stage

import (
	"context"
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/owner"
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
		for i := range m.Changes {
			e := &m.Changes[i]
			c := Change{string(e.Path), e.Was, e.Now}
			if (e.Was.Kind != File && e.Now.Kind != File) || !pick(c) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if !f(v.content(c, e, most)) {
				return nil
			}
		}
		return nil
	})
}

// content reads one file, before and after.
func (v *reverter) content(c Change, e *PastEntry, most int64) Content {
	out := Content{Change: c}
	if max(c.Was.Size, c.Now.Size) > most {
		out.Why = "it is too large"
		return out
	}
	var err error
	if c.Was.Kind == File {
		var at string
		if at, _, err = v.find(e); err == nil {
			out.Before, err = v.whole(v.away, at, c.Was, most)
		}
		if err != nil {
			return Content{Change: c, Why: "what it was is not remembered"}
		}
	}
	if c.Now.Kind == File {
		if out.After, err = v.whole(v.ws, c.Path, c.Now, most); err != nil {
			return Content{Change: c, Why: "it is not as the call left it"}
		}
	}
	return out
}

// errOther: a file is not the one that is written down.
var errOther = errors.New("stage: it is another one")

// whole reads a file that must be the one that is written down.
func (v *reverter) whole(top int, path string, want State, most int64) ([]byte, error) {
	f, _, err := beneath.OpenRegular(top, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	digest, err := v.reader.sum(strings.NewReader(string(text)))
	if err == nil && (digest != want.Digest || want.Digest == "") {
		err = errOther
	}
	return text, err
}
