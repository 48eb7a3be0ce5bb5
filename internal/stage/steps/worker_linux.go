package steps

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/fault"
	"palyra/internal/subpath"
)

// What a step does.
const (
	Away = "away" // take what is there out of the way
	Dir  = "dir"  // make a directory
	Put  = "put"  // move a file of the stage to its place
	Mode = "mode" // give a directory its mode
)

// Step is one thing to do in the workspace. It can be done twice.
type Step struct {
	Do   string        `json:"do"`
	Path []byte        `json:"path"` // names are bytes
	Mode uint32        `json:"mode,omitempty"`
	Was  *beneath.Mark `json:"was,omitempty"` // what is taken away, replaced or given a mode; none: nothing was there
	New  *[2]uint64    `json:"new,omitempty"` // which file of the stage is put
}

// Key is a step as text.
func (s *Step) Key() string {
	text, _ := json.Marshal(s) // plain values: it cannot fail
	return string(text)
}

// leftFile is which file the run left.
func (s *Step) leftFile() beneath.Ident {
	if s.New == nil {
		return beneath.Ident{}
	}
	return beneath.Ident{Dev: s.New[0], Ino: s.New[1]}
}

// Worker does steps and takes them back, with its caller's rights. What it is given comes first, then what it did.
type Worker struct {
	Workspace, Upper int                  // descriptors of the trees: where steps are done, and where files to put lie
	Away, Spent      int                  // where what is taken away goes, and files of the stage that were copied
	UID              int64                // whose the workspace is
	Entries          int                  // names that a directory may have which is looked through
	Token            string               // temporary names come from it; empty: from the name
	Name             string               // of the stage
	Since            unix.Timespec        // changes from then on are others'
	Count            func(done int) error // says that so many steps are done

	Done   int                  // steps that were, from the first on
	Stands []bool               // which steps are done, and were not taken back
	Puts   map[int]beneath.Mark // what was put into the workspace, by its step
	Left   []string             // what somebody else changed, for people
	Saved  []string             // what was displaced, is somebody else's and could not be put back, by its new name

	parent   string // of the last step
	from, to int    // opened for it
	opened   bool
	made     map[string]beneath.Ident // directories that were made, with steps to come
	linked   map[beneath.Ident]bool   // files with several names, one of which was moved: their times are the worker's doing
	shut     string                   // the path that was left last: so is all that is below it
}

// Do does the steps from the i-th on. Again: an earlier daemon began. Where others changed
// something meanwhile the error is ErrTaken, and what was done is to be taken back; an earlier
// daemon's steps are not: what is others' is left to them, with all that is below it.
func (w *Worker) Do(steps []Step, i int, again bool) error {
	w.Stands = make([]bool, len(steps))
	for j := range i {
		w.Stands[j] = true
	}
	for w.Done = i; i < len(steps); i++ {
		s := &steps[i]
		fault.Point("stage.step/lost")
		err := w.try(s, i, again)
		fault.Point("stage.step/kept")
		if errors.Is(err, ErrTaken) {
			if p := string(s.Path); !w.belowLeft(p) {
				w.shut, w.Left = p, change.AppendShort(w.Left, change.Quoted(p))
			}
			if !again {
				return ErrTaken
			}
			continue // nor is what follows counted: after one more crash this one is looked at again
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.Do, change.Quoted(string(s.Path)), err)
		}
		if w.Stands[i] = true; len(w.Left) > 0 {
			continue
		}
		w.Done = i + 1
		if err := w.Count(i + 1); err != nil {
			return err
		}
	}
	return nil
}

// Begun is how many steps there may be something of, once Do failed by itself: a file that was to be put or taken away may
// have come half of the way.
func (w *Worker) Begun(steps []Step) int {
	if w.Done == len(steps) {
		return w.Done
	}
	s := &steps[w.Done]
	if _, made := w.made[string(s.Path)]; made || s.Do == Put || s.Do == Away {
		return w.Done + 1
	}
	return w.Done
}

func (w *Worker) try(s *Step, i int, again bool) error {
	if w.belowLeft(string(s.Path)) {
		return ErrTaken
	}
	return w.insist(s, func() error { return w.step(s, i, again) })
}

// insist does something about a step also in a directory that its owner shut.
func (w *Worker) insist(s *Step, f func() error) error {
	err := f()
	if errors.Is(err, unix.EACCES) {
		err = w.forced(s, f)
	}
	return err
}

// belowLeft reports whether a path is, or lies in, the one that was left last.
func (w *Worker) belowLeft(p string) bool {
	return subpath.Within(w.shut, p)
}

// enter opens the directory of a step in both trees.
func (w *Worker) enter(dir string) (err error) {
	if w.opened && w.parent == dir {
		return nil
	}
	w.Leave()
	if w.to, err = beneath.OpenIn(w.Workspace, dir, unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return Replaced(err)
	}
	if w.from, err = beneath.OpenIn(w.Upper, dir, unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return errors.Join(err, unix.Close(w.to))
	}
	w.parent, w.opened = dir, true
	return nil
}

// Leave gives back what was opened for the last step.
func (w *Worker) Leave() {
	if w.opened {
		_ = unix.Close(w.from)
		_ = unix.Close(w.to)
		w.opened = false
	}
}

// forced does something in a directory that its owner shut: it is opened for the moment.
func (w *Worker) forced(s *Step, f func() error) error {
	var st unix.Stat_t
	if err := w.enter(beneath.Parent(string(s.Path))); err != nil {
		return err
	}
	if err := unix.Fstat(w.to, &st); err != nil {
		return err
	}
	if st.Mode&0o300 == 0o300 {
		return unix.EACCES
	}
	if err := beneath.Chmod(w.to, st.Mode&0o7777|0o300); err != nil {
		return err
	}
	return errors.Join(f(), beneath.Chmod(w.to, st.Mode&0o7777))
}
