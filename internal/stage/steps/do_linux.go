package steps

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/fault"
)

// ErrTaken: somebody else changed a path since it was looked at.
var ErrTaken = errors.New("stage: somebody else changed it")

// ErrNone: that was noticed before the first change, and nothing is kept.
var ErrNone = errors.New("stage: somebody else changed it, and nothing is kept")

// Replaced says that a path is not what it was when that is why it cannot be opened.
func Replaced(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV} {
		if errors.Is(err, e) {
			return ErrTaken
		}
	}
	return err
}

// unchanged reports whether it is what was seen.
func (w *Worker) unchanged(m *beneath.Mark, st *unix.Stat_t) bool {
	return m.Moved(st) && (m.Ctime == st.Ctim.Nano() || w.linked[beneath.IdentOf(st)])
}

// preserve copies what is taken away to where such goes, where it cannot be moved there.
func (w *Worker) preserve(dir int, name string, i int) error {
	as := strconv.Itoa(i) + ".copy"
	if _, missing, err := beneath.LookAt(w.Away, as); err != nil || !missing { // an earlier daemon came as far
		return err
	}
	part := strconv.Itoa(i) + ".part"
	if err := destroy(w.Away, part); err != nil {
		return err
	}
	if err := beneath.CopyTree(dir, name, w.Away, part); err != nil {
		return err
	}
	return unix.Renameat(w.Away, part, w.Away, as)
}

// step does one.
func (w *Worker) step(s *Step, i int, again bool) error {
	p := string(s.Path)
	if p == "" { // the workspace itself
		return beneath.Chmod(w.Workspace, s.Mode)
	}
	if err := w.enter(beneath.Parent(p)); err != nil {
		return err
	}
	name := p[strings.LastIndexByte(p, '/')+1:]
	switch s.Do {
	case Dir:
		return w.mkdir(s, name, again)
	case Mode:
		return w.mode(s, name)
	case Away:
		return w.remove(s, name, i, again)
	case Put:
		return w.put(s, name, i, again)
	}
	return errors.New("an unknown step")
}

// mkdir makes a directory. One that is there is somebody else's, but where an earlier daemon may have made it.
func (w *Worker) mkdir(s *Step, name string, again bool) error {
	err := unix.Mkdirat(w.to, name, s.Mode)
	there := errors.Is(err, unix.EEXIST)
	if err != nil && (!there || !again) {
		if there {
			err = ErrTaken
		}
		return err
	}
	fd, st, err := beneath.Hold(w.to, name)
	if err != nil {
		return Replaced(err)
	}
	defer func() { _ = unix.Close(fd) }()
	switch {
	case !beneath.IsDir(st):
		return ErrTaken
	case there:
		return nil
	case int64(st.Uid) != w.UID: // another one took its place
		return ErrTaken
	}
	if w.made == nil {
		w.made = map[string]beneath.Ident{}
	}
	w.made[string(s.Path)] = beneath.IdentOf(st)
	return beneath.Chmod(fd, s.Mode)
}

// mode gives a directory its mode: the one that was seen, or that was made.
func (w *Worker) mode(s *Step, name string) error {
	fd, st, err := beneath.Hold(w.to, name)
	if err != nil {
		return Replaced(err)
	}
	defer func() { _ = unix.Close(fd) }()
	made, ours := w.made[string(s.Path)]
	switch {
	case !beneath.IsDir(st) || ours && beneath.IdentOf(st) != made:
		return ErrTaken
	case s.Was == nil || st.Mode&0o7777 == s.Mode:
	case beneath.IdentOf(st) != s.Was.Ident() || st.Mode != s.Was.Mode:
		return ErrTaken
	}
	return beneath.Chmod(fd, s.Mode)
}

// temp is a name in the workspace that nobody else uses, or can foretell: whoever may write there could hinder
// what is kept otherwise.
func (w *Worker) temp(i int, kind string) string {
	if w.Token == "" {
		return ".palyra-" + w.Name + "-" + strconv.Itoa(i) + "." + kind
	}
	sum := sha256.Sum256([]byte(w.Token + " " + strconv.Itoa(i) + " " + kind))
	return ".palyra-" + hex.EncodeToString(sum[:16]) + "." + kind
}

// remove takes what is there out of the workspace: aside first, to be looked at
// when nobody finds it any more, and then away.
func (w *Worker) remove(s *Step, name string, i int, again bool) error {
	aside, tmp, gone := strconv.Itoa(i), w.temp(i, "tmp"), w.temp(i, "gone")
	for _, at := range w.places(i) {
		if !again {
			break
		}
		if _, missing, err := beneath.LookAt(at.dir, at.name); err != nil || !missing { // an earlier daemon came as far
			return errors.Join(err, w.settle(s, at.dir, at.name, name, i))
		}
	}
	st, missing, err := beneath.LookAt(w.to, name)
	switch {
	case err != nil:
		return err
	case missing:
		return destroy(w.to, gone)
	case s.Was == nil || !w.unchanged(s.Was, &st):
		return ErrTaken
	}
	err = unix.Renameat(w.to, name, w.Away, aside)
	if err == nil {
		fault.Point("stage.aside/kept")
		return w.settle(s, w.Away, aside, name, i)
	}
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EACCES) { // a directory that cannot be written cannot be moved to another
		return beneath.Ignore(err, unix.ENOENT)
	}
	if err := unix.Renameat(w.to, name, w.to, tmp); err != nil {
		return beneath.Ignore(err, unix.ENOENT)
	}
	return w.settle(s, w.to, tmp, name, i)
}

// place is a name in a directory.
type place struct {
	dir  int
	name string
}

// places are where what a step takes out of the workspace lies, or lies until it was copied.
func (w *Worker) places(i int) []place {
	return []place{{w.Away, strconv.Itoa(i)}, {w.to, w.temp(i, "tmp")}}
}

// settle decides about what was put aside: what the reader saw goes, all else goes back.
func (w *Worker) settle(s *Step, dir int, aside, name string, i int) error {
	st, _, err := beneath.LookAt(dir, aside)
	if err != nil {
		return err
	}
	if s.Was == nil || !s.Was.Moved(&st) || beneath.IsDir(&st) && !w.quiet(dir, aside) {
		if unix.Renameat2(dir, aside, w.to, name, unix.RENAME_NOREPLACE) == nil {
			return ErrTaken
		}
		return w.save(s, dir, aside, i)
	}
	w.link(&st)
	if dir != w.to {
		return nil
	}
	if err := w.preserve(dir, aside, i); err != nil {
		return err
	}
	gone := w.temp(i, "gone")
	if err := unix.Renameat(dir, aside, dir, gone); err != nil {
		return err
	}
	return destroy(w.to, gone)
}

// link remembers a file with other names: its time of change is another now.
func (w *Worker) link(st *unix.Stat_t) {
	if st.Nlink > 1 && !beneath.IsDir(st) {
		w.Touched(st)
	}
}

// Touched says that the time of change of something is its worker's doing.
func (w *Worker) Touched(st *unix.Stat_t) {
	if w.linked == nil {
		w.linked = map[beneath.Ident]bool{}
	}
	w.linked[beneath.IdentOf(st)] = true
}

// quiet reports whether nothing in a directory was changed by others.
func (w *Worker) quiet(dir int, name string) bool {
	if st, missing, err := beneath.LookAt(dir, name); err == nil && !missing && beneath.IsDir(&st) && st.Mode&0o500 != 0o500 {
		defer func() { _ = beneath.ChmodAt(dir, name, st.Mode&0o7777) }()
		if beneath.ChmodAt(dir, name, st.Mode&0o7777|0o500) != nil {
			return false
		}
	}
	fd, err := beneath.OpenIn(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := beneath.NamesOf(fd, w.Entries)
	if err != nil {
		return false
	}
	for _, n := range names {
		st, missing, err := beneath.LookAt(fd, n)
		if err != nil || missing || !beneath.Later(w.Since, st.Ctim) && !w.linked[beneath.IdentOf(&st)] || beneath.IsDir(&st) && !w.quiet(fd, n) {
			return false
		}
	}
	return true
}

// save gives what is somebody else's, and cannot go back to its name, another name beside it.
func (w *Worker) save(s *Step, dir int, name string, i int) error {
	as := w.temp(i, "saved")
	if err := unix.Renameat2(dir, name, w.to, as, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if up := beneath.Parent(string(s.Path)); up != "" {
		as = up + "/" + as
	}
	w.Saved = change.AppendShort(w.Saved, change.Quoted(as))
	return ErrTaken
}

// destroy removes what is there under a name of the worker's.
func destroy(in int, name string) error {
	err := unix.Unlinkat(in, name, 0)
	if !errors.Is(err, unix.EISDIR) {
		return beneath.Ignore(err, unix.ENOENT)
	}
	dir, err := beneath.OpenDir(in, name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := beneath.Empty(dir); err != nil {
		return err
	}
	return unix.Unlinkat(in, name, unix.AT_REMOVEDIR)
}

// put moves a file of the stage to its place, or copies it where the two are on different file systems.
func (w *Worker) put(s *Step, name string, i int, again bool) error {
	st, missing, err := beneath.LookAt(w.from, name)
	if err != nil || missing { // it was done
		return err
	}
	if beneath.IdentOf(&st) != s.leftFile() { // so it was, and this is what was there
		return w.judge(s, w.from, name, name, s.leftFile(), i)
	}
	if again {
		if done, err := w.resume(s, name, i); done || err != nil {
			return err
		}
	}
	if s.Was != nil {
		now, missing, err := beneath.LookAt(w.to, name)
		if err != nil {
			return err
		}
		if missing || !w.unchanged(s.Was, &now) {
			return ErrTaken
		}
	}
	w.notePut(i, &st)
	err = w.swap(s, w.from, name, name, i)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	fresh := w.temp(i, "tmp")
	err = beneath.CopyFile(w.from, name, w.to, fresh, &st)
	mine, missing, _ := beneath.LookAt(w.to, fresh)
	w.notePut(i, &mine)
	if err == nil {
		err = w.swap(s, w.to, fresh, name, i)
	}
	now, _, _ := beneath.LookAt(w.to, fresh)
	if err == nil && s.Was != nil {
		err = w.preserve(w.to, fresh, i)
	}
	if err == nil || !missing && beneath.IdentOf(&now) == beneath.IdentOf(&mine) { // never what is somebody else's
		err = errors.Join(err, beneath.Ignore(unix.Unlinkat(w.to, fresh, 0), unix.ENOENT))
	}
	if err != nil {
		return err
	}
	return w.spend(name, i)
}

// notePut remembers what is put into the workspace.
func (w *Worker) notePut(i int, st *unix.Stat_t) {
	if w.Puts == nil {
		w.Puts = map[int]beneath.Mark{}
	}
	w.Puts[i] = beneath.MarkOf(st)
}

// spend takes a file of the stage that was copied out of the way: it is done, and can be taken back.
func (w *Worker) spend(name string, i int) error {
	return unix.Renameat(w.from, name, w.Spent, strconv.Itoa(i))
}

// resume looks for what an earlier daemon left of a copy. Done: all but that was.
func (w *Worker) resume(s *Step, name string, i int) (done bool, err error) {
	fresh := w.temp(i, "tmp")
	st, missing, err := beneath.LookAt(w.to, fresh)
	switch {
	case err != nil || missing:
		return false, err
	case s.Was != nil && s.Was.Moved(&st): // what was there
		return true, errors.Join(w.preserve(w.to, fresh, i), unix.Unlinkat(w.to, fresh, 0), w.spend(name, i))
	case s.Was == nil: // nothing was, so it is the copy
		return false, unix.Unlinkat(w.to, fresh, 0)
	}
	return false, beneath.Ignore(w.save(s, w.to, fresh, i), ErrTaken) // nobody can say whose it is
}

// swap puts a file into the place of what the reader saw, or where it saw nothing.
// A file system that cannot exchange two names replaces what is there.
func (w *Worker) swap(s *Step, dir int, as, name string, i int) error {
	if s.Was == nil {
		err := unix.Renameat2(dir, as, w.to, name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) {
			var missing bool
			if _, missing, err = beneath.LookAt(w.to, name); err == nil && missing {
				return unix.Renameat(dir, as, w.to, name)
			}
			err = errors.Join(err, unix.EEXIST)
		}
		if errors.Is(err, unix.EEXIST) {
			return ErrTaken
		}
		return err
	}
	mine, _, err := beneath.LookAt(dir, as)
	if err != nil {
		return err
	}
	err = unix.Renameat2(dir, as, w.to, name, unix.RENAME_EXCHANGE)
	fault.Point("stage.exchanged/kept")
	switch {
	case errors.Is(err, unix.EINVAL):
		if err := w.preserve(w.to, name, i); err != nil {
			return err
		}
		return unix.Renameat(dir, as, w.to, name)
	case errors.Is(err, unix.ENOENT):
		return ErrTaken
	case err != nil:
		return err
	}
	return w.judge(s, dir, as, name, beneath.IdentOf(&mine), i)
}

// judge looks at what a file, mine, was exchanged for. What is not what the reader
// saw goes back, and so does what cannot be moved aside.
func (w *Worker) judge(s *Step, dir int, as, name string, mine beneath.Ident, i int) error {
	if s.Was == nil {
		return errors.New("not what the run left")
	}
	st, _, err := beneath.LookAt(dir, as)
	if err != nil {
		return err
	}
	why := ErrTaken
	if s.Was.Moved(&st) {
		if w.link(&st); dir != w.from {
			return nil
		}
		if why = unix.Renameat(dir, as, w.Away, strconv.Itoa(i)); why == nil {
			return nil
		}
	}
	err = unix.Renameat2(dir, as, w.to, name, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) && unix.Renameat2(dir, as, w.to, name, unix.RENAME_NOREPLACE) == nil {
		return why
	}
	if err == nil {
		if st, _, err = beneath.LookAt(dir, as); err == nil && beneath.IdentOf(&st) == mine {
			return why
		}
	}
	return w.save(s, dir, as, i) // it was changed once more
}
