package stage

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/fault"
	"palyra/internal/preimage"
	"palyra/internal/stage/steps"
)

// backName is the file that says that the steps of a list are being taken back.
const backName = "back"

// back is what taking steps back needs to know, as it is written down before the first is.
type back struct {
	Done   int                  `json:"done"`             // steps that were done, from the first on
	Put    map[int]beneath.Mark `json:"put,omitempty"`    // what was put into the workspace, by its step
	Left   []string             `json:"left,omitempty"`   // what somebody else changed
	Saved  []string             `json:"saved,omitempty"`  // and what of theirs has another name now
	Failed string               `json:"failed,omitempty"` // or why a step could not be done
}

// takeBack undoes the steps so far, the last of them first, because the next one failed: somebody else changed what it
// was to change (steps.ErrTaken), or it could not be done, or only in part. The error is steps.ErrNone when nothing of the
// run is in the workspace any more.
func (k *committer) takeBack(all []steps.Step, cause error) error {
	n := k.Done
	if !errors.Is(cause, steps.ErrTaken) {
		n = k.Begun(all)
		if k.failed = "they could not be put into the workspace (" + cause.Error() + ")"; fullDisk(cause) {
			k.failed = "the disk is full"
		}
	}
	if n > 0 {
		if err := k.writeBack(back{n, k.Puts, k.Left, k.Saved, k.failed}); err != nil {
			return err
		}
		fault.Point("stage.back/kept")
	}
	return k.stage.asOwner(func() error { return k.Back(all, n) })
}

func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// writeBack writes down that steps are taken back. On a full disk what is written down of a held stage makes room: the
// list has what is needed of it. Where that is not enough, a daemon that dies meanwhile does all steps again.
func (k *committer) writeBack(b back) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	err = k.stage.writeWhole(backName, text)
	if err != nil && os.Remove(filepath.Join(k.stage.path, heldName)) == nil {
		err = k.stage.writeWhole(backName, text)
	}
	if err != nil {
		err = k.file.Truncate(k.counted)
	}
	return err
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

// amend has the manifest say what stands of the steps, where that is not all of it, and what files look like that
// were not read: nothing else tells whether somebody changes them later.
func (k *committer) amend(all []steps.Step, lost string) error {
	g := k.stage
	whole := !slices.Contains(k.Stands, false)
	if g.past == nil || whole && !k.unread {
		return nil
	}
	f, err := os.Open(filepath.Join(g.path, preimage.ManifestName))
	if err != nil {
		return err
	}
	m, err := preimage.ReadManifest(f, false)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if !whole {
		m.Changes, m.Lost = standing(all, k.Stands, m.Changes), lost
	}
	err = g.asOwner(func() error {
		for i := range m.Changes {
			if e := &m.Changes[i]; e.Unread() {
				if st, missing, err := beneath.LookBelow(k.Workspace, string(e.Path)); err == nil && !missing {
					e.Left = mark(st)
				}
			}
		}
		return nil
	})
	return errors.Join(err, g.writeManifest(m))
}

// standing are the changes that steps made which stand.
func standing(did []steps.Step, stands []bool, all []preimage.Replacement) []preimage.Replacement {
	took, made, shut := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, s := range did {
		p := string(s.Path)
		switch {
		case s.Do == steps.Mode && s.Was == nil:
			shut[p] = stands[i]
			continue
		case s.Was != nil:
			took[p] = stands[i]
		}
		if s.Do != steps.Away {
			made[p] = stands[i]
		}
	}
	return preimage.Standing(all, took, made, shut)
}
