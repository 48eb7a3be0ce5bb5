package stage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/stage/steps"
)

// state looks at what is at a path: st says what was found there.
func (r *reader) state(top int, p string, st *unix.Stat_t) (State, error) {
	s := State{Mode: st.Mode & 0o777}
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.Kind, s.Mode = Directory, st.Mode&modeBits
	case unix.S_IFLNK:
		s.Kind, s.Mode = Link, 0
		s.Target, err = beneath.Target(top, p)
	case unix.S_IFIFO:
		s.Kind = Pipe
	case unix.S_IFSOCK:
		s.Kind = Socket
	case unix.S_IFCHR, unix.S_IFBLK:
		s.Kind = Device
	case unix.S_IFREG:
		s.Kind, s.Size = File, st.Size
		if r.later {
			r.unread = append(r.unread, unread{p, top == r.ws, *st})
		} else {
			s.Digest, err = r.digest(top, p, st)
		}
	}
	return s, err
}

// mostRead is how much content is read to say what a run changed: a run could leave files that
// take no room and hours to read, and others wait for their turn in the workspace.
const mostRead = 1 << 30

// affordable leaves of the files without a digest those that are read: the small ones first, so that a run cannot
// keep another file from being read by one that is large and says nothing.
func (r *reader) affordable() {
	if r.most == 0 {
		return
	}
	slices.SortStableFunc(r.unread, func(a, b unread) int { return cmp.Compare(a.st.Size, b.st.Size) })
	var sum int64
	for i := range r.unread {
		if size := r.unread[i].st.Size; size > r.most-sum {
			r.unread = r.unread[:i]
			return
		}
		sum += r.unread[i].st.Size
	}
}

// unread is a file whose digest is still to be taken.
type unread struct {
	path   string
	before bool // it is the workspace's
	st     unix.Stat_t
}

// readers is how many read files at a time.
const readers = 2

// readAll takes the digests of the files that were found. One of the workspace's that is not
// what was found any more is a conflict.
func (r *reader) readAll() error {
	r.affordable()
	got, err := r.digests()
	if err != nil {
		return err
	}
	for i, u := range r.unread {
		err := got[i].err
		if u.before {
			err = steps.Replaced(err)
		}
		switch {
		case errors.Is(err, steps.ErrTaken):
			r.conflict(u.path)
			r.seen.Drop(u.path)
		case err != nil:
			return err
		default:
			r.seen.Read(u.path, u.before, got[i].digest)
		}
	}
	return nil
}

// digested is what came of reading a file.
type digested struct {
	digest string
	err    error
}

// digests reads the files, several at a time.
func (r *reader) digests() ([]digested, error) {
	got := make([]digested, len(r.unread))
	var next atomic.Int64
	var work sync.WaitGroup
	errs := make([]error, readers)
	for n := range min(readers, (len(got)+7)/8) {
		work.Go(func() {
			errs[n] = r.asOwner(func() error { // rights are a thread's
				one := reader{Stage: r.Stage, ctx: r.ctx, upper: r.upper, ws: r.ws}
				for i := int(next.Add(1)) - 1; i < len(got); i = int(next.Add(1)) - 1 {
					u := &r.unread[i]
					top := r.upper
					if u.before {
						top = r.ws
					}
					got[i].digest, got[i].err = one.digest(top, u.path, &u.st)
				}
				return nil
			})
		})
	}
	work.Wait()
	return got, errors.Join(errs...)
}

// found is a path of the workspace and what was there.
type found struct {
	path string
	st   unix.Stat_t
}

// removes notes what a removal takes. Not free: somebody changed it meanwhile.
func (r *reader) removes() (free bool, err error) {
	for i := range r.gone {
		was, err := r.before(r.gone[i].path, &r.gone[i].st)
		if errors.Is(err, steps.ErrTaken) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		r.seen.Removed(r.gone[i].path, was)
	}
	return true, nil
}

// replaces notes a file that the run made or changed. Not free: somebody changed what
// it takes the place of, and that is a conflict.
func (r *reader) replaces(p string, st, at *unix.Stat_t, there bool) (free bool, err error) {
	if there {
		was, err := r.before(p, at)
		if errors.Is(err, steps.ErrTaken) {
			r.conflict(p)
			return false, nil
		}
		if err != nil {
			return false, err
		}
		r.seen.Removed(p, was)
	}
	now, err := r.state(r.upper, p, st)
	if err != nil {
		return false, err
	}
	r.seen.Made(p, now)
	return true, nil
}

// before is what is at a path of the workspace; steps.ErrTaken: not what was found any more.
func (r *reader) before(p string, st *unix.Stat_t) (State, error) {
	r.old += st.Blocks * 512
	s, err := r.state(r.ws, p, st)
	return s, steps.Replaced(err)
}

// digest reads a file. One that its owner may not read has none, but on the stage, where nobody else is.
func (r *reader) digest(top int, p string, st *unix.Stat_t) (digest string, err error) {
	read := func() error {
		f, _, err := beneath.OpenRegular(top, p)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		digest, err = r.sum(f)
		return err
	}
	err = read()
	if !errors.Is(err, unix.EACCES) {
		return digest, err
	}
	if top != r.upper {
		return "", nil
	}
	err = beneath.InParent(top, p, func(dir int, name string) error {
		if err := beneath.ChmodAt(dir, name, st.Mode&0o777|0o400); err != nil {
			return err
		}
		return errors.Join(read(), beneath.ChmodAt(dir, name, st.Mode&0o777))
	})
	return digest, err
}

// sum is the digest of all that can be read, as long as somebody waits for it.
func (r *reader) sum(from io.Reader) (string, error) {
	if r.buf == nil { // one for all files: most are small
		r.buf = make([]byte, 256<<10)
	}
	h := sha256.New()
	for {
		n, err := from.Read(r.buf)
		h.Write(r.buf[:n])
		if errors.Is(err, io.EOF) {
			return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
		}
		if err := errors.Join(err, r.ctx.Err()); err != nil {
			return "", err
		}
	}
}
