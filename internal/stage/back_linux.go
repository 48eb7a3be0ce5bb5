package stage

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"palyra/internal/beneath"
	"palyra/internal/fault"
	"palyra/internal/preimage"
	"palyra/internal/stage/steps"
)

// backName is the file that says that the steps of a list are being taken back.
const backName = "back"

// back is what taking steps back needs to know, as it is written down before the first is.
type back struct {
	Done  int                  `json:"done"`            // steps that were done, from the first on
	Put   map[int]beneath.Mark `json:"put,omitempty"`   // what was put into the workspace, by its step
	Left  []string             `json:"left,omitempty"`  // what somebody else changed
	Saved []string             `json:"saved,omitempty"` // and what of theirs has another name now
}

// takeBack undoes the first steps, the last of them first, because somebody else changed what a later one was to
// change. The error is steps.ErrNone when nothing of the run is in the workspace any more.
func (k *keeper) takeBack(all []steps.Step, n int) error {
	if n > 0 {
		text, err := json.Marshal(back{n, k.Puts, k.Left, k.Saved})
		if err == nil {
			err = k.stage.writeWhole(backName, text)
		}
		if err != nil {
			return err
		}
		fault.Point("stage.back/kept")
	}
	return k.stage.asOwner(func() error { return k.Back(all, n) })
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
func (k *keeper) amend(all []steps.Step, lost string) error {
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
	var out []preimage.Replacement
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
