package stage

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/stage/steps"
)

// directory is one that the run made, or in which it changed something.
func (r *reader) directory(p string, st, now *unix.Stat_t, there bool, at scope) error {
	own, err := r.unlock(p, st)
	if err != nil {
		return err
	}
	_, ours := r.parents[p]
	whole, had := slices.Contains(own, xattrWhole), slices.Contains(own, xattrFrom) || ours
	switch {
	case there && beneath.IsDir(now) && !whole:
		return r.merge(p, st, now, at)
	case there && whole:
		if err := r.clear(p, now); err != nil {
			return err
		}
	case there || had && !at.fresh: // somebody put something else there, or took it away
		return r.collide(p, st, at)
	}
	mode := st.Mode & modeBits
	before := len(r.steps)
	r.add(steps.Step{Do: steps.Dir, Path: []byte(p), Mode: mode | 0o700})
	r.seen.Made(p, State{Kind: Directory, Mode: mode})
	if err := r.dir(p, scope{fresh: true, sealed: at.sealed}); errors.Is(err, errRepository) {
		r.steps = r.steps[:before]
		r.seen.Forget(p)
		r.take(p, st)
		return nil
	} else if err != nil {
		return err
	}
	if mode != mode|0o700 {
		r.add(steps.Step{Do: steps.Mode, Path: []byte(p), Mode: mode})
	}
	return nil
}

// modeBits of a directory are kept; whose it is does not change.
const modeBits = 0o3777

// unlock makes a directory of the stage one that its owner can read and change,
// and lists what the overlay says of it.
func (r *reader) unlock(p string, st *unix.Stat_t) (own []string, err error) {
	if was, shut := r.shut[p]; shut && st.Mode|0o700 == was|0o700 {
		st.Mode = was
	}
	err = beneath.InParent(r.upper, p, func(dir int, name string) error {
		if st.Mode&0o700 != 0o700 {
			if err := beneath.ChmodAt(dir, name, st.Mode&0o777|0o700); err != nil {
				return err
			}
			r.unlocked = append(r.unlocked, dirMode{p, st.Mode})
		}
		own, err = ownXattrs(beneath.ProcName(dir, name))
		return err
	})
	return own, err
}

// relock gives the directories of the stage that were opened to be read their modes again.
func (r *reader) relock() error {
	for _, d := range slices.Backward(r.unlocked) {
		err := beneath.InParent(r.upper, d.path, func(dir int, name string) error { return beneath.ChmodAt(dir, name, d.mode&0o7777) })
		if err != nil {
			return err
		}
	}
	return nil
}

// shutBefore says which directories were shut when the stage was held: a daemon that opened
// them to read, and died, leaves them open.
func (r *reader) shutBefore(all []heldParent) {
	r.shut = map[string]uint32{}
	for _, d := range all {
		r.shut[string(d.Path)] = d.Mode
	}
}

// merge is a directory that was there and still is.
func (r *reader) merge(p string, st, now *unix.Stat_t, at scope) error {
	mode, was := st.Mode&modeBits, now.Mode&modeBits
	if made, ours := r.parents[p]; ours && made == mode {
		mode = was
	}
	if mode != was && r.others(now) {
		r.conflict(p)
	}
	if err := r.dir(p, at); err != nil {
		return err
	}
	if mode != was {
		r.add(steps.Step{Do: steps.Mode, Path: []byte(p), Mode: mode, Was: mark(now)})
		r.seen.Removed(p, State{Kind: Directory, Mode: was})
		r.seen.Made(p, State{Kind: Directory, Mode: mode})
	}
	return nil
}
