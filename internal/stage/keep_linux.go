package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/owner"
)

// list is what is to be done, as it is written down before the first step.
type list struct {
	Workspace string        `json:"workspace"`
	Dev       uint64        `json:"dev"`
	Ino       uint64        `json:"ino"`
	UID       int64         `json:"uid"`
	GID       int64         `json:"gid"`
	Boot      string        `json:"boot"` // of the machine: content may be lost with it
	At        unix.Timespec `json:"at"`   // changes from then on are others'
	Steps     []step        `json:"steps"`
}

// Keep makes the changes of a run the workspace's, once nothing of the run lives.
// Either all of them are, or, with conflicts or an error, none: an error in the
// middle leaves a list, and Recover goes on. The stage stays to be dropped.
func (g *Stage) Keep(ctx context.Context, names Names) (Effects, error) {
	g.of.keeping.Lock()
	defer g.of.keeping.Unlock()
	k := keeper{stage: g}
	r := &reader{Stage: g, ctx: ctx, names: names, since: g.since()}
	err := g.asOwner(func() error {
		if err := k.open(g.openWorkspace); err != nil {
			return err
		}
		r.upper, r.ws = k.upper, k.ws
		r.out.Changed = g.swapped(k.ws)
		return r.all()
	})
	defer k.close()
	if err == nil && len(r.out.Conflicts) == 0 && len(r.steps) > 0 {
		if err = k.write(r.steps); err == nil {
			err = g.asOwner(func() error { return k.work(r.steps, 0, false) })
			g.partial = err != nil
		}
		if err == nil {
			r.out.Kept = len(r.steps)
			err = unix.Unlink(filepath.Join(g.path, listName))
		}
	}
	if err != nil {
		return r.out, fmt.Errorf("stage: keep: %w", err)
	}
	return r.out, nil
}

// all reads the whole stage.
func (r *reader) all() error {
	var st, now unix.Stat_t
	if err := errors.Join(unix.Fstat(r.upper, &st), unix.Fstat(r.ws, &now)); err != nil {
		return err
	}
	return r.merge("", &st, &now, scope{})
}

// keeper does what a list says.
type keeper struct {
	stage           *Stage
	upper, ws, away int
	file            *os.File // the list; its end counts the steps that are done
	counted         int64    // where
	parent          string   // of the last step
	from, to        int      // opened for it
	opened          bool
	skipped         int
}

func (k *keeper) open(workspace func() (int, error)) (err error) {
	k.upper, k.ws, k.away = -1, -1, -1
	if k.ws, err = workspace(); err != nil {
		return err
	}
	if k.upper, err = k.stage.open(Upper); err != nil {
		return err
	}
	k.away, err = k.stage.open(old)
	return err
}

func (k *keeper) close() {
	k.leave()
	for _, fd := range []int{k.upper, k.ws, k.away} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if k.file != nil {
		_ = k.file.Close()
	}
}

// write writes the list: whole under its name, or not at all.
func (k *keeper) write(steps []step) error {
	g := k.stage
	l := list{Workspace: g.workspace, Dev: g.root.dev, Ino: g.root.ino, UID: g.id.UID, GID: g.id.GID, Boot: boot(), At: g.began, Steps: steps}
	if err := g.Begin(); err != nil { // what others change from now on is not ours to replace after a crash
		return err
	}
	l.At = g.began
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	name := filepath.Join(g.path, listName)
	f, err := os.OpenFile(name+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	k.file, k.counted = f, int64(len(text))
	if _, err := f.Write(append(text, '\n')); err != nil {
		return err
	}
	k.counted++
	return os.Rename(name+".new", name)
}

// count says that so many steps are done.
func (k *keeper) count(n int) error {
	_, err := k.file.WriteAt(strconv.AppendInt(nil, int64(n), 10), k.counted)
	return err
}

// boot tells one start of the machine from another.
func boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// work does the steps from the i-th on. Again: an earlier daemon began, and what
// others changed since is left to them.
func (k *keeper) work(steps []step, i int, again bool) error {
	for ; i < len(steps); i++ {
		s := &steps[i]
		err := k.step(s, i, again)
		if errors.Is(err, unix.EACCES) {
			err = k.forced(s, i, again)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.Do, quoted(string(s.Path)), err)
		}
		if err := k.count(i + 1); err != nil {
			return err
		}
	}
	return nil
}

// enter opens the directory of a step in both trees.
func (k *keeper) enter(dir string) (err error) {
	if k.opened && k.parent == dir {
		return nil
	}
	k.leave()
	if k.to, err = openIn(k.ws, dir, unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return err
	}
	if k.from, err = openIn(k.upper, dir, unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return errors.Join(err, unix.Close(k.to))
	}
	k.parent, k.opened = dir, true
	return nil
}

func (k *keeper) leave() {
	if k.opened {
		_ = unix.Close(k.from)
		_ = unix.Close(k.to)
		k.opened = false
	}
}

// step does one.
func (k *keeper) step(s *step, i int, again bool) error {
	p := string(s.Path)
	if p == "" { // the workspace itself
		return chmod(k.ws, s.Mode)
	}
	if err := k.enter(parent(p)); err != nil {
		return err
	}
	name := p[strings.LastIndexByte(p, '/')+1:]
	switch s.Do {
	case stepDir:
		err := unix.Mkdirat(k.to, name, s.Mode)
		if err == nil {
			err = unix.Fchmodat(k.to, name, s.Mode, 0)
		}
		return ignore(err, unix.EEXIST)
	case stepMode:
		return unix.Fchmodat(k.to, name, s.Mode, 0)
	case stepAway:
		if again && k.taken(name) {
			return nil
		}
		return k.remove(name, i)
	case stepPut:
		var st unix.Stat_t
		if err := unix.Fstatat(k.from, name, &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, unix.ENOENT) {
			return nil // it was done
		} else if err != nil {
			return err
		}
		if again && k.taken(name) {
			return nil
		}
		return k.put(name, &st, i)
	}
	return errors.New("an unknown step")
}

// taken reports whether somebody changed a path after the list was written.
func (k *keeper) taken(name string) bool {
	var st unix.Stat_t
	if unix.Fstatat(k.to, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || later(k.stage.began, st.Ctim) {
		return false
	}
	k.skipped++
	return true
}

// chmod works on what a descriptor refers to, also where it is for reference only.
func chmod(fd int, mode uint32) error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode) }

// forced is step in a directory that its owner shut: it is opened for the moment.
func (k *keeper) forced(s *step, i int, again bool) error {
	var st unix.Stat_t
	if err := k.enter(parent(string(s.Path))); err != nil {
		return err
	}
	if err := unix.Fstat(k.to, &st); err != nil {
		return err
	}
	if st.Mode&0o300 == 0o300 {
		return unix.EACCES
	}
	if err := chmod(k.to, st.Mode&0o7777|0o300); err != nil {
		return err
	}
	return errors.Join(k.step(s, i, again), chmod(k.to, st.Mode&0o7777))
}

// remove takes what is there out of the workspace.
func (k *keeper) remove(name string, i int) error {
	err := unix.Renameat(k.to, name, k.away, strconv.Itoa(i))
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EACCES): // a directory that cannot be written cannot be moved either
		return err
	}
	err = unix.Unlinkat(k.to, name, 0)
	if !errors.Is(err, unix.EISDIR) {
		return ignore(err, unix.ENOENT)
	}
	dir, err := OpenDir(k.to, name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := Empty(dir); err != nil {
		return err
	}
	return unix.Unlinkat(k.to, name, unix.AT_REMOVEDIR)
}

// put moves a file of the stage to its place, or copies it where the two are on
// different file systems.
func (k *keeper) put(name string, st *unix.Stat_t, i int) error {
	err := unix.Renameat(k.from, name, k.to, name)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	fresh := ".palyra-" + k.stage.name + "-" + strconv.Itoa(i) + ".tmp"
	if err := ignore(unix.Unlinkat(k.to, fresh, 0), unix.ENOENT); err != nil {
		return err
	}
	if err := k.copy(name, fresh, st); err != nil {
		return errors.Join(err, ignore(unix.Unlinkat(k.to, fresh, 0), unix.ENOENT))
	}
	if err := unix.Renameat(k.to, fresh, k.to, name); err != nil {
		return err
	}
	return unix.Unlinkat(k.from, name, 0)
}

// copy makes a second file of what is in the stage.
func (k *keeper) copy(name, fresh string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(k.from, name, buf)
		if err != nil {
			return err
		}
		return unix.Symlinkat(string(buf[:n]), k.to, fresh)
	case unix.S_IFIFO:
		return unix.Mkfifoat(k.to, fresh, st.Mode&0o777)
	}
	if st.Mode&0o400 == 0 { // its owner may read it all the same
		if err := unix.Fchmodat(k.from, name, st.Mode&0o777|0o400, 0); err != nil {
			return err
		}
	}
	from, _, err := openRegular(k.from, name)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	fd, err := unix.Openat(k.to, fresh, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), fresh)
	_, err = io.Copy(to, from)
	return errors.Join(err, unix.Fchmod(fd, st.Mode&0o777), futimes(fd, st), to.Close())
}

// finish goes on with a list that an earlier daemon left. Where the machine was
// started anew since, the content may be lost, and nothing is kept.
func (s *Stages) finish(name string) error {
	file := filepath.Join(s.path, name, listName)
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l, done, size, err := readList(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if l.Boot != boot() {
		s.log.Error("the machine stopped while a run's changes were being kept; some are there, the rest is lost", "workspace", l.Workspace)
		return f.Close()
	}
	g := &Stage{of: s, name: name, path: filepath.Join(s.path, name), workspace: l.Workspace, root: ident{l.Dev, l.Ino}, id: owner.Identity{UID: l.UID, GID: l.GID}, began: l.At}
	k := keeper{stage: g, file: f, counted: size}
	err = g.asOwner(func() error {
		if err := k.open(g.openWorkspace); err != nil {
			return err
		}
		return k.work(l.Steps, done, true)
	})
	k.close()
	if errors.Is(err, errGone) {
		s.log.Error("the workspace of a run that was being kept is gone", "workspace", l.Workspace, "err", err)
		return nil
	}
	if err == nil {
		s.log.Warn("the changes of a run that a crash interrupted are kept", "workspace", l.Workspace, "changes", len(l.Steps), "left_to_others", k.skipped)
	}
	return err
}

// mostList bounds a list: steps of the longest paths that are kept.
const mostList = 256 << 20

// readList reads a list and how much of it is done.
func readList(r io.Reader) (l list, done int, size int64, err error) {
	text, err := io.ReadAll(io.LimitReader(r, mostList))
	if err != nil {
		return l, 0, 0, err
	}
	i := strings.IndexByte(string(text), '\n')
	if i < 0 {
		return l, 0, 0, errors.New("a list without an end")
	}
	if err := json.Unmarshal(text[:i], &l); err != nil {
		return l, 0, 0, err
	}
	if rest := string(text[i+1:]); rest != "" {
		if done, err = strconv.Atoi(rest); err != nil || done < 0 || done > len(l.Steps) {
			return l, 0, 0, errors.New("a list with a wrong count")
		}
	}
	return l, done, int64(i + 1), nil
}
