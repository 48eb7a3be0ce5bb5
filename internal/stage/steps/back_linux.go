package steps

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/fault"
)

// Back takes the first n steps back, the last of them first. The error is ErrNone when nothing of them is in the
// workspace any more.
func (w *Worker) Back(steps []Step, n int) error {
	if n > len(steps) {
		return errors.New("more steps than there are")
	}
	w.Leave()
	w.Stands = make([]bool, len(steps))
	whole := true
	for i := n - 1; i >= 0; i-- {
		s := &steps[i]
		fault.Point("stage.undone/lost")
		err := w.Undo(s, i)
		if errors.Is(err, ErrTaken) {
			w.Stands[i], whole = true, false
		} else if err != nil {
			return err
		}
		fault.Point("stage.undone/kept")
	}
	if whole {
		return ErrNone
	}
	return nil
}

// Undo takes one step back, also in a directory that its owner shut.
func (w *Worker) Undo(s *Step, i int) error {
	return w.insist(s, func() error { return w.undo(s, i) })
}

// undo takes one step back. It can be done twice. What somebody changed since is ErrTaken, and stays.
func (w *Worker) undo(s *Step, i int) error {
	p := string(s.Path)
	if p == "" {
		var st unix.Stat_t
		if err := unix.Fstat(w.Workspace, &st); err != nil {
			return err
		}
		return w.modeBack(s, w.Workspace, &st)
	}
	if err := w.enter(beneath.Parent(p)); err != nil {
		return err
	}
	name := p[strings.LastIndexByte(p, '/')+1:]
	switch s.Do {
	case Dir:
		return w.rmdir(name)
	case Mode:
		fd, st, err := beneath.Hold(w.to, name)
		if err != nil {
			return Replaced(err)
		}
		defer func() { _ = unix.Close(fd) }()
		return w.modeBack(s, fd, st)
	case Away:
		return w.bring(s, name, i)
	case Put:
		if gone, err := w.fetch(name, i); err != nil || s.Was == nil {
			return err
		} else if gone { // somebody removed it
			return ErrTaken
		}
		return w.bring(s, name, i)
	}
	return errors.New("an unknown step")
}

// rmdir removes a directory that was made; what somebody put into it stays, and so does the directory.
func (w *Worker) rmdir(name string) error {
	err := unix.Unlinkat(w.to, name, unix.AT_REMOVEDIR)
	for _, theirs := range []error{unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR} {
		if errors.Is(err, theirs) {
			return ErrTaken
		}
	}
	return beneath.Ignore(err, unix.ENOENT)
}

// modeBack gives a directory the mode that it had, and one that was made a mode with which it can be emptied.
func (w *Worker) modeBack(s *Step, fd int, st *unix.Stat_t) error {
	now := st.Mode & 0o7777
	switch {
	case !beneath.IsDir(st):
		return ErrTaken
	case s.Was == nil:
		return beneath.Chmod(fd, s.Mode|0o700)
	case beneath.IdentOf(st) != s.Was.Ident():
		return ErrTaken
	case now == s.Was.Mode&0o7777:
		return nil
	case now != s.Mode:
		return ErrTaken
	}
	return beneath.Chmod(fd, s.Was.Mode&0o7777)
}

// fetch takes a file that was put into the workspace back to the stage. Gone: somebody removed it.
func (w *Worker) fetch(name string, i int) (gone bool, err error) {
	put, known := w.Puts[i]
	_, missing, err := beneath.LookAt(w.from, name)
	if err != nil {
		return false, err
	}
	if !missing {
		now, missing, err := beneath.LookAt(w.to, name)
		if err != nil || missing || !known || !put.Moved(&now) { // it was done, or nothing of it but a copy
			return false, errors.Join(err, w.discard(w.temp(i, "tmp"), put))
		}
	} else if !known {
		return false, ErrTaken // nobody can say whose it is
	}
	spent := strconv.Itoa(i)
	_, near, err := beneath.LookAt(w.Spent, spent) // else it was copied, and lies there
	if err != nil {
		return false, err
	}
	near = near && missing // or is still where it was
	dir, as := w.from, name
	if !near {
		dir, as = w.to, w.temp(i, "back")
	}
	st, missing, err := beneath.LookAt(dir, as)
	if err == nil && missing {
		if err = beneath.MoveTo(w.to, name, dir, as); errors.Is(err, unix.ENOENT) {
			return true, w.unspend(near, spent, name)
		}
		if err == nil {
			st, _, err = beneath.LookAt(dir, as)
		}
	}
	switch {
	case err != nil:
		return false, err
	case !put.Moved(&st):
		if beneath.MoveTo(dir, as, w.to, name) == nil {
			return false, ErrTaken
		}
		return false, w.save(&Step{Path: []byte(beneath.Join(w.parent, name))}, dir, as, i)
	case !near:
		if err := unix.Unlinkat(dir, as, 0); err != nil {
			return false, err
		}
	}
	return false, w.unspend(near, spent, name)
}

// discard removes a copy from the workspace that never got its name.
func (w *Worker) discard(as string, put beneath.Mark) error {
	st, missing, err := beneath.LookAt(w.to, as)
	if err != nil || missing || !put.Moved(&st) {
		return err
	}
	return unix.Unlinkat(w.to, as, 0)
}

// unspend puts a file of the stage that was copied back to its name.
func (w *Worker) unspend(near bool, spent, name string) error {
	if near {
		return nil
	}
	return beneath.Ignore(unix.Renameat(w.Spent, spent, w.from, name), unix.ENOENT) // it was not moved there
}

// bring puts back what was taken out of the workspace, unless something else is there.
func (w *Worker) bring(s *Step, name string, i int) error {
	for _, at := range w.places(i) {
		st, missing, err := beneath.LookAt(at.dir, at.name)
		if err != nil {
			return err
		}
		if !missing && (at.dir == w.Away || s.Was != nil && s.Was.Ident() == beneath.IdentOf(&st)) {
			err := replacing(beneath.MoveTo(at.dir, at.name, w.to, name))
			if err == nil && at.dir != w.Away && beneath.IsDir(&st) && st.Mode != s.Was.Mode { // it was opened to be copied
				err = beneath.ChmodAt(w.to, name, s.Was.Mode&0o7777)
			}
			return err
		}
	}
	second := strconv.Itoa(i) + ".copy"
	if _, missing, err := beneath.LookAt(w.Away, second); err != nil || missing { // it was done
		return err
	}
	fresh := w.temp(i, "back")
	if err := destroy(w.to, fresh); err != nil {
		return err
	}
	if err := beneath.CopyTree(w.Away, second, w.to, fresh); err != nil {
		return err
	}
	if err := replacing(beneath.MoveTo(w.to, fresh, w.to, name)); err != nil {
		return errors.Join(err, destroy(w.to, fresh))
	}
	return destroy(w.Away, second)
}

// replacing says that something is in the way where that is why a name cannot be given.
func replacing(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return ErrTaken
	}
	return err
}
