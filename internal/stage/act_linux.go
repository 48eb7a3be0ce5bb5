package stage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/fault"
)

// errTaken: somebody else changed a path since it was looked at.
var errTaken = errors.New("stage: somebody else changed it")

// errNone: that was noticed before the first change, and nothing is kept.
var errNone = errors.New("stage: somebody else changed it, and nothing is kept")

// replaced says that a path is not what it was when that is why it cannot be opened.
func replaced(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV} {
		if errors.Is(err, e) {
			return errTaken
		}
	}
	return err
}

// mark is what the reader saw at a path.
type mark struct {
	Dev   uint64 `json:"d"`
	Ino   uint64 `json:"i"`
	Mode  uint32 `json:"m"`
	Size  int64  `json:"s"`
	Mtime int64  `json:"t"`
	Ctime int64  `json:"c"`
}

func markOf(st *unix.Stat_t) *mark {
	m := &mark{uint64(st.Dev), st.Ino, st.Mode, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
	if beneath.IsDir(st) { // says nothing
		m.Size = 0
	}
	return m
}

// moved reports whether it is what was seen, under another name: moving gives
// files another time of change, and nothing else.
func (m *mark) moved(st *unix.Stat_t) bool {
	now := markOf(st)
	now.Ctime = m.Ctime
	return *now == *m
}

// same reports whether it is what was seen, also after a start of the machine that counts devices otherwise.
func (m *mark) same(st *unix.Stat_t) bool {
	now := markOf(st)
	now.Dev = m.Dev
	return *now == *m
}

// unchanged reports whether it is what was seen.
func (k *keeper) unchanged(m *mark, st *unix.Stat_t) bool {
	return m.moved(st) && (m.Ctime == st.Ctim.Nano() || k.linked[identOf(st)])
}

// step does one.
func (k *keeper) step(s *step, i int, again bool) error {
	p := string(s.Path)
	if p == "" { // the workspace itself
		return beneath.Chmod(k.ws, s.Mode)
	}
	if err := k.enter(beneath.Parent(p)); err != nil {
		return err
	}
	name := p[strings.LastIndexByte(p, '/')+1:]
	switch s.Do {
	case stepDir:
		return k.mkdir(s, name, again)
	case stepMode:
		return k.mode(s, name)
	case stepAway:
		return k.remove(s, name, i, again)
	case stepPut:
		return k.put(s, name, i, again)
	}
	return errors.New("an unknown step")
}

// mkdir makes a directory. One that is there is somebody else's, but where an
// earlier daemon may have made it.
func (k *keeper) mkdir(s *step, name string, again bool) error {
	err := unix.Mkdirat(k.to, name, s.Mode)
	there := errors.Is(err, unix.EEXIST)
	if err != nil && (!there || !again) {
		if there {
			err = errTaken
		}
		return err
	}
	fd, st, err := beneath.Hold(k.to, name)
	if err != nil {
		return replaced(err)
	}
	defer func() { _ = unix.Close(fd) }()
	switch {
	case !beneath.IsDir(st):
		return errTaken
	case there:
		return nil
	case int64(st.Uid) != k.stage.id.UID: // another one took its place
		return errTaken
	}
	if k.made == nil {
		k.made = map[string]ident{}
	}
	k.made[string(s.Path)] = identOf(st)
	return beneath.Chmod(fd, s.Mode)
}

// mode gives a directory its mode: the one that was seen, or that was made.
func (k *keeper) mode(s *step, name string) error {
	fd, st, err := beneath.Hold(k.to, name)
	if err != nil {
		return replaced(err)
	}
	defer func() { _ = unix.Close(fd) }()
	made, ours := k.made[string(s.Path)]
	switch {
	case !beneath.IsDir(st) || ours && identOf(st) != made:
		return errTaken
	case s.Was == nil || st.Mode&0o7777 == s.Mode:
	case identOf(st) != ident{s.Was.Dev, s.Was.Ino} || st.Mode != s.Was.Mode:
		return errTaken
	}
	return beneath.Chmod(fd, s.Mode)
}

// temp is a name in the workspace that nobody else uses, or can foretell: whoever may write there could hinder
// what is kept otherwise.
func (k *keeper) temp(i int, kind string) string {
	if k.token == "" {
		return ".palyra-" + k.stage.name + "-" + strconv.Itoa(i) + "." + kind
	}
	sum := sha256.Sum256([]byte(k.token + " " + strconv.Itoa(i) + " " + kind))
	return ".palyra-" + hex.EncodeToString(sum[:16]) + "." + kind
}

// remove takes what is there out of the workspace: aside first, to be looked at
// when nobody finds it any more, and then away.
func (k *keeper) remove(s *step, name string, i int, again bool) error {
	aside, tmp, gone := strconv.Itoa(i), k.temp(i, "tmp"), k.temp(i, "gone")
	for _, at := range []struct {
		dir  int
		name string
	}{{k.away, aside}, {k.to, tmp}} {
		if !again {
			break
		}
		if _, missing, err := beneath.LookAt(at.dir, at.name); err != nil || !missing { // an earlier daemon came as far
			return errors.Join(err, k.settle(s, at.dir, at.name, name, i))
		}
	}
	st, missing, err := beneath.LookAt(k.to, name)
	switch {
	case err != nil:
		return err
	case missing:
		return k.destroy(gone)
	case s.Was == nil || !k.unchanged(s.Was, &st):
		return errTaken
	}
	err = unix.Renameat(k.to, name, k.away, aside)
	if err == nil {
		fault.Point("stage.aside/kept")
		return k.settle(s, k.away, aside, name, i)
	}
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EACCES) { // a directory that cannot be written cannot be moved to another
		return beneath.Ignore(err, unix.ENOENT)
	}
	if err := unix.Renameat(k.to, name, k.to, tmp); err != nil {
		return beneath.Ignore(err, unix.ENOENT)
	}
	return k.settle(s, k.to, tmp, name, i)
}

// settle decides about what was put aside: what the reader saw goes, all else
// goes back.
func (k *keeper) settle(s *step, dir int, aside, name string, i int) error {
	st, _, err := beneath.LookAt(dir, aside)
	if err != nil {
		return err
	}
	if s.Was == nil || !s.Was.moved(&st) || beneath.IsDir(&st) && !k.quiet(dir, aside) {
		if unix.Renameat2(dir, aside, k.to, name, unix.RENAME_NOREPLACE) == nil {
			return errTaken
		}
		return k.save(s, dir, aside, i)
	}
	k.link(&st)
	if dir != k.to {
		return nil
	}
	if err := k.preserve(dir, aside, i); err != nil {
		return err
	}
	gone := k.temp(i, "gone")
	if err := unix.Renameat(dir, aside, dir, gone); err != nil {
		return err
	}
	return k.destroy(gone)
}

// link remembers a file with other names: its time of change is another now.
func (k *keeper) link(st *unix.Stat_t) {
	if st.Nlink < 2 || beneath.IsDir(st) {
		return
	}
	if k.linked == nil {
		k.linked = map[ident]bool{}
	}
	k.linked[identOf(st)] = true
}

// quiet reports whether nothing in a directory was changed by others.
func (k *keeper) quiet(dir int, name string) bool {
	fd, err := beneath.OpenIn(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := listNames(fd, k.stage.of.limits.Entries)
	if err != nil {
		return false
	}
	for _, n := range names {
		st, missing, err := beneath.LookAt(fd, n)
		if err != nil || missing || !laterTime(k.since, st.Ctim) && !k.linked[identOf(&st)] || beneath.IsDir(&st) && !k.quiet(fd, n) {
			return false
		}
	}
	return true
}

// save gives what is somebody else's, and cannot go back to its name, another
// name beside it.
func (k *keeper) save(s *step, dir int, name string, i int) error {
	as := k.temp(i, "saved")
	if err := unix.Renameat2(dir, name, k.to, as, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if up := beneath.Parent(string(s.Path)); up != "" {
		as = up + "/" + as
	}
	k.saved = appendShort(k.saved, quoted(as))
	return errTaken
}

// destroy removes what is in the workspace under a name of the keeper's.
func (k *keeper) destroy(name string) error {
	err := unix.Unlinkat(k.to, name, 0)
	if !errors.Is(err, unix.EISDIR) {
		return beneath.Ignore(err, unix.ENOENT)
	}
	dir, err := beneath.OpenDir(k.to, name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := beneath.Empty(dir); err != nil {
		return err
	}
	return unix.Unlinkat(k.to, name, unix.AT_REMOVEDIR)
}

// put moves a file of the stage to its place, or copies it where the two are on
// different file systems.
func (k *keeper) put(s *step, name string, i int, again bool) error {
	st, missing, err := beneath.LookAt(k.from, name)
	if err != nil || missing { // it was done
		return err
	}
	if identOf(&st) != s.leftFile() { // so it was, and this is what was there
		return k.judge(s, k.from, name, name, s.leftFile(), i)
	}
	if again {
		if done, err := k.resume(s, name, i); done || err != nil {
			return err
		}
	}
	if s.Was != nil {
		now, missing, err := beneath.LookAt(k.to, name)
		if err != nil {
			return err
		}
		if missing || !k.unchanged(s.Was, &now) {
			return errTaken
		}
	}
	k.notePut(i, &st)
	err = k.swap(s, k.from, name, name, i)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	fresh := k.temp(i, "tmp")
	err = beneath.CopyFile(k.from, name, k.to, fresh, &st)
	mine, missing, _ := beneath.LookAt(k.to, fresh)
	k.notePut(i, &mine)
	if err == nil {
		err = k.swap(s, k.to, fresh, name, i)
	}
	now, _, _ := beneath.LookAt(k.to, fresh)
	if err == nil && s.Was != nil {
		err = k.preserve(k.to, fresh, i)
	}
	if err == nil || !missing && identOf(&now) == identOf(&mine) { // never what is somebody else's
		err = errors.Join(err, beneath.Ignore(unix.Unlinkat(k.to, fresh, 0), unix.ENOENT))
	}
	if err != nil {
		return err
	}
	return k.spend(name, i)
}

// notePut remembers what is put into the workspace.
func (k *keeper) notePut(i int, st *unix.Stat_t) {
	if k.puts == nil {
		k.puts = map[int]mark{}
	}
	k.puts[i] = *markOf(st)
}

// spend takes a file of the stage that was copied out of the way: it is done, and can be taken back.
func (k *keeper) spend(name string, i int) error {
	return unix.Renameat(k.from, name, k.spent, strconv.Itoa(i))
}

// resume looks for what an earlier daemon left of a copy. Done: all but that was.
func (k *keeper) resume(s *step, name string, i int) (done bool, err error) {
	fresh := k.temp(i, "tmp")
	st, missing, err := beneath.LookAt(k.to, fresh)
	switch {
	case err != nil || missing:
		return false, err
	case s.Was != nil && s.Was.moved(&st): // what was there
		return true, errors.Join(k.preserve(k.to, fresh, i), unix.Unlinkat(k.to, fresh, 0), k.spend(name, i))
	case s.Was == nil: // nothing was, so it is the copy
		return false, unix.Unlinkat(k.to, fresh, 0)
	}
	return false, beneath.Ignore(k.save(s, k.to, fresh, i), errTaken) // nobody can say whose it is
}

// swap puts a file into the place of what the reader saw, or where it saw nothing.
// A file system that cannot exchange two names replaces what is there.
func (k *keeper) swap(s *step, dir int, as, name string, i int) error {
	if s.Was == nil {
		err := unix.Renameat2(dir, as, k.to, name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) {
			var missing bool
			if _, missing, err = beneath.LookAt(k.to, name); err == nil && missing {
				return unix.Renameat(dir, as, k.to, name)
			}
			err = errors.Join(err, unix.EEXIST)
		}
		if errors.Is(err, unix.EEXIST) {
			return errTaken
		}
		return err
	}
	mine, _, err := beneath.LookAt(dir, as)
	if err != nil {
		return err
	}
	err = unix.Renameat2(dir, as, k.to, name, unix.RENAME_EXCHANGE)
	fault.Point("stage.exchanged/kept")
	switch {
	case errors.Is(err, unix.EINVAL):
		if err := k.preserve(k.to, name, i); err != nil {
			return err
		}
		return unix.Renameat(dir, as, k.to, name)
	case errors.Is(err, unix.ENOENT):
		return errTaken
	case err != nil:
		return err
	}
	return k.judge(s, dir, as, name, identOf(&mine), i)
}

// judge looks at what a file, mine, was exchanged for. What is not what the reader
// saw goes back.
func (k *keeper) judge(s *step, dir int, as, name string, mine ident, i int) error {
	if s.Was == nil {
		return errors.New("not what the run left")
	}
	st, _, err := beneath.LookAt(dir, as)
	if err != nil {
		return err
	}
	if s.Was.moved(&st) {
		k.link(&st)
		if dir == k.from {
			return unix.Renameat(dir, as, k.away, strconv.Itoa(i))
		}
		return nil
	}
	err = unix.Renameat2(dir, as, k.to, name, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) && unix.Renameat2(dir, as, k.to, name, unix.RENAME_NOREPLACE) == nil {
		return errTaken
	}
	if err == nil {
		if st, _, err = beneath.LookAt(dir, as); err == nil && identOf(&st) == mine {
			return errTaken
		}
	}
	return k.save(s, dir, as, i) // it was changed once more
}
