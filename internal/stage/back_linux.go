package stage

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/fault"
)

// backName is the file that says that the steps of a list are being taken back.
const backName = "back"

// back is what taking steps back needs to know, as it is written down before the first is.
type back struct {
	Done  int          `json:"done"`            // steps that were done, from the first on
	Put   map[int]mark `json:"put,omitempty"`   // what was put into the workspace, by its step
	Left  []string     `json:"left,omitempty"`  // what somebody else changed
	Saved []string     `json:"saved,omitempty"` // and what of theirs has another name now
}

// takeBack undoes the first steps, the last of them first, because somebody else changed what a later one was to
// change. The error is errNone when nothing of the run is in the workspace any more.
func (k *keeper) takeBack(steps []step, n int) error {
	if n > 0 {
		text, err := json.Marshal(back{n, k.puts, k.left, k.saved})
		if err == nil {
			err = k.stage.writeWhole(backName, text)
		}
		if err != nil {
			return err
		}
		fault.Point("stage.back/kept")
	}
	return k.stage.asOwner(func() error { return k.undoAll(steps, n) })
}

// readBack reads what takeBack wrote down; nothing: no step is taken back.
func (g *Stage) readBack() (*back, error) {
	f, err := os.Open(filepath.Join(g.path, backName))
	if err != nil {
		return nil, beneath.Ignore(err, os.ErrNotExist)
	}
	defer func() { _ = f.Close() }()
	var b back
	if err := json.NewDecoder(io.LimitReader(f, mostList)).Decode(&b); err != nil {
		return nil, err
	}
	return &b, nil
}

func (k *keeper) undoAll(steps []step, n int) error {
	if n > len(steps) {
		return errors.New("more steps than there are")
	}
	k.leave()
	k.stands = make([]bool, len(steps))
	whole := true
	for i := n - 1; i >= 0; i-- {
		s := &steps[i]
		fault.Point("stage.undone/lost")
		err := k.insist(s, func() error { return k.undo(s, i) })
		if errors.Is(err, errTaken) {
			k.stands[i], whole = true, false
		} else if err != nil {
			return err
		}
		fault.Point("stage.undone/kept")
	}
	if whole {
		return errNone
	}
	return nil
}

// undo takes one step back. It can be done twice. What somebody changed since is errTaken, and stays.
func (k *keeper) undo(s *step, i int) error {
	p := string(s.Path)
	if p == "" {
		var st unix.Stat_t
		if err := unix.Fstat(k.ws, &st); err != nil {
			return err
		}
		return k.modeBack(s, k.ws, &st)
	}
	if err := k.enter(beneath.Parent(p)); err != nil {
		return err
	}
	name := p[strings.LastIndexByte(p, '/')+1:]
	switch s.Do {
	case stepDir:
		return k.rmdir(name)
	case stepMode:
		fd, st, err := beneath.Hold(k.to, name)
		if err != nil {
			return replaced(err)
		}
		defer func() { _ = unix.Close(fd) }()
		return k.modeBack(s, fd, st)
	case stepAway:
		return k.bring(name, i)
	case stepPut:
		if gone, err := k.fetch(name, i); err != nil || s.Was == nil {
			return err
		} else if gone { // somebody removed it
			return errTaken
		}
		return k.bring(name, i)
	}
	return errors.New("an unknown step")
}

// rmdir removes a directory that was made; what somebody put into it stays, and so does the directory.
func (k *keeper) rmdir(name string) error {
	err := unix.Unlinkat(k.to, name, unix.AT_REMOVEDIR)
	for _, theirs := range []error{unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR} {
		if errors.Is(err, theirs) {
			return errTaken
		}
	}
	return beneath.Ignore(err, unix.ENOENT)
}

// modeBack gives a directory the mode that it had, and one that was made a mode with which it can be emptied.
func (k *keeper) modeBack(s *step, fd int, st *unix.Stat_t) error {
	now := st.Mode & 0o7777
	switch {
	case !beneath.IsDir(st):
		return errTaken
	case s.Was == nil:
		return beneath.Chmod(fd, s.Mode|0o700)
	case identOf(st) != ident{s.Was.Dev, s.Was.Ino}:
		return errTaken
	case now == s.Was.Mode&0o7777:
		return nil
	case now != s.Mode:
		return errTaken
	}
	return beneath.Chmod(fd, s.Was.Mode&0o7777)
}

// fetch takes a file that was put into the workspace back to the stage. Gone: somebody removed it.
func (k *keeper) fetch(name string, i int) (gone bool, err error) {
	if _, missing, err := beneath.LookAt(k.from, name); err != nil || !missing { // it was done
		return false, err
	}
	put, known := k.puts[i]
	if !known {
		return false, errTaken // nobody can say whose it is
	}
	spent := strconv.Itoa(i)
	_, near, err := beneath.LookAt(k.spent, spent) // else it was copied, and lies there
	if err != nil {
		return false, err
	}
	dir, as := k.from, name
	if !near {
		dir, as = k.to, k.temp(i, "back")
	}
	st, missing, err := beneath.LookAt(dir, as)
	if err == nil && missing {
		if err = beneath.MoveTo(k.to, name, dir, as); errors.Is(err, unix.ENOENT) {
			return true, k.unspend(near, spent, name)
		}
		if err == nil {
			st, _, err = beneath.LookAt(dir, as)
		}
	}
	switch {
	case err != nil:
		return false, err
	case !put.moved(&st):
		if beneath.MoveTo(dir, as, k.to, name) == nil {
			return false, errTaken
		}
		return false, k.save(&step{Path: []byte(beneath.Join(k.parent, name))}, dir, as, i)
	case !near:
		if err := unix.Unlinkat(dir, as, 0); err != nil {
			return false, err
		}
	}
	return false, k.unspend(near, spent, name)
}

// unspend puts a file of the stage that was copied back to its name.
func (k *keeper) unspend(near bool, spent, name string) error {
	if near {
		return nil
	}
	return unix.Renameat(k.spent, spent, k.from, name)
}

// bring puts back what was taken out of the workspace, unless something else is there.
func (k *keeper) bring(name string, i int) error {
	aside := strconv.Itoa(i)
	_, missing, err := beneath.LookAt(k.away, aside)
	if err != nil {
		return err
	}
	if !missing {
		return replacing(beneath.MoveTo(k.away, aside, k.to, name))
	}
	second := aside + ".copy"
	if _, missing, err := beneath.LookAt(k.away, second); err != nil || missing { // it was done
		return err
	}
	fresh := k.temp(i, "back")
	if err := k.destroy(fresh); err != nil {
		return err
	}
	if err := beneath.CopyTree(k.away, second, k.to, fresh); err != nil {
		return err
	}
	if err := replacing(beneath.MoveTo(k.to, fresh, k.to, name)); err != nil {
		return errors.Join(err, k.destroy(fresh))
	}
	return clearOut(k.away, second)
}

// replacing says that something is in the way where that is why a name cannot be given.
func replacing(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return errTaken
	}
	return err
}

// amend has the manifest say what stands of the steps, where that is not all of it, and what files look like that
// were not read: nothing else tells whether somebody changes them later.
func (k *keeper) amend(steps []step, lost string) error {
	g := k.stage
	whole := !slices.Contains(k.stands, false)
	if g.past == nil || whole && !k.unread {
		return nil
	}
	f, err := os.Open(filepath.Join(g.path, manifestName))
	if err != nil {
		return err
	}
	m, err := readManifest(f, false)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if !whole {
		m.Changes, m.Lost = standing(steps, k.stands, m.Changes), lost
	}
	err = g.asOwner(func() error {
		for i := range m.Changes {
			if e := &m.Changes[i]; e.unread() {
				if st, missing, err := beneath.LookBelow(k.ws, string(e.Path)); err == nil && !missing {
					e.Left = markOf(st)
				}
			}
		}
		return nil
	})
	return errors.Join(err, g.writeManifest(m))
}

// unread reports whether nobody knows what is in a file that the run left.
func (e *PastEntry) unread() bool { return e.Now.Kind == File && e.Now.Digest == "" }

// standing are the changes that steps made which stand.
func standing(steps []step, stands []bool, all []PastEntry) []PastEntry {
	took, made, shut := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, s := range steps {
		p := string(s.Path)
		switch {
		case s.Do == stepMode && s.Was == nil:
			shut[p] = stands[i]
			continue
		case s.Was != nil:
			took[p] = stands[i]
		}
		if s.Do != stepAway {
			made[p] = stands[i]
		}
	}
	var out []PastEntry
	for _, e := range all {
		p := string(e.Path)
		if e.Was.Kind != Nothing && !takenAt(took, p) || e.Was.Kind == Nothing && !made[p] {
			continue
		}
		if !made[p] {
			e.Now = State{}
		}
		if stands, later := shut[p]; later && !stands && e.Now.Kind == Directory {
			e.Now.Mode |= 0o700
		}
		out = append(out, e)
	}
	return out
}

// takenAt reports whether a path was taken away, by itself or with what it lies in.
func takenAt(took map[string]bool, p string) bool {
	for {
		if is, known := took[p]; known {
			return is
		}
		if p == "" {
			return false
		}
		p = beneath.Parent(p)
	}
}
