package stage

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/stage/steps"
)

// ajar lets the owner into a directory of the workspace that he had shut, until what is in it was read. A daemon that
// dies in that moment leaves it so.
func (r *reader) ajar(p string, at *unix.Stat_t) error {
	if at.Mode&0o500 == 0o500 {
		return nil
	}
	err := r.holding(p, func(fd int, st *unix.Stat_t) error {
		if beneath.MarkOf(st) != beneath.MarkOf(at) {
			return steps.ErrTaken
		}
		return beneath.Chmod(fd, st.Mode&0o7777|0o500)
	})
	if err == nil {
		r.opened = append(r.opened, dirMode{p, at.Mode})
	}
	return err
}

// holding calls f with something of the workspace that is not a link's end.
func (r *reader) holding(p string, f func(fd int, st *unix.Stat_t) error) error {
	return beneath.InParent(r.ws, p, func(dir int, name string) error {
		fd, st, err := beneath.Hold(dir, name)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		return f(fd, st)
	})
}

// shutAgain shuts what was opened to be read. Steps that take it away, and whoever reads it once more, know it by its new
// time of change.
func (r *reader) shutAgain(w *steps.Worker) error {
	if len(r.opened) == 0 {
		return nil
	}
	return r.asOwner(func() error { return r.shutNow(w) })
}

// shutNow is shutAgain for the owner.
func (r *reader) shutNow(w *steps.Worker) (err error) {
	for _, d := range slices.Backward(r.opened) {
		err = errors.Join(err, r.holding(d.path, func(fd int, st *unix.Stat_t) error {
			if st.Mode != d.mode|0o500 { // somebody gave it another one
				return nil
			}
			err := errors.Join(beneath.Chmod(fd, d.mode&0o7777), unix.Fstat(fd, st))
			w.Touched(st)
			if r.stirs == nil {
				r.stirs = map[beneath.Mark]bool{}
			}
			r.stirs[beneath.MarkOf(st)] = true
			for i := range r.steps {
				if s := &r.steps[i]; !r.again && string(s.Path) == d.path && s.Was != nil {
					s.Was = mark(st)
				}
			}
			return err
		}))
	}
	return err
}
