package undo

import (
	"context"
	"errors"
	"strings"

	"palyra"
	"palyra/internal/owner"
	"palyra/internal/preimage"
	"palyra/internal/sandbox"
	"palyra/internal/stage"
)

// Kept is where what calls replaced lies, and what puts it back.
type Kept struct {
	stages *stage.Stages
	past   *preimage.Store
}

// NewKept returns what is kept in past and is put back by way of stages.
func NewKept(s *stage.Stages, p *preimage.Store) *Kept { return &Kept{s, p} }

// bound has what is added take its room from u.
func (k *Kept) bound(u *Undo) { k.past.Bound(u) }

// sealWith has what is kept sealed. Stranded is told of entries of which something that was opened is left.
func (k *Kept) sealWith(s Sealer, stranded func(string, error)) { k.past.SealWith(s, stranded) }

// seal seals an entry, if it is there and is not sealed.
func (k *Kept) seal(ctx context.Context, name string) error { return k.past.Seal(ctx, name) }

// unsealed are the entries that are not sealed.
func (k *Kept) unsealed() (out []string, err error) {
	names, err := k.past.Names()
	for _, n := range names {
		if is, lookErr := k.past.Open(n); is || lookErr != nil {
			out = append(out, n)
		}
	}
	return out, err
}

// close gives the directories back.
func (k *Kept) close() error { return errors.Join(k.stages.Close(), k.past.Close()) }

func (k *Kept) names() ([]string, error) { return k.past.Names() }

func (k *Kept) forget(name string) error { return k.past.Forget(name) }

func (k *Kept) head(name string) (head, error) {
	m, err := k.past.Head(name)
	return head{m.Workspace, m.At, int64(m.Paths), m.Bytes}, err
}

// reversed is what putting an entry back changes.
func (k *Kept) reversed(name string) ([]palyra.Change, error) {
	m, err := k.past.Read(name)
	if err != nil {
		return nil, err
	}
	all := make([]stage.Change, 0, len(m.Changes))
	for _, c := range m.Changes {
		all = append(all, stage.Change{Path: string(c.Path), Was: c.Now, Now: c.Was})
	}
	return sandbox.ChangesOf(all), nil
}

// reversal is a stage on which an entry is put back.
type reversal struct {
	past  *preimage.Store
	stage *stage.Stage
}

// prepare puts an entry onto a stage. A workspace that is not as it was left is a differing.
func (k *Kept) prepare(ctx context.Context, name string) (*reversal, error) {
	g, err := k.stages.Revert(ctx, k.past, name)
	if other := (*stage.DiffersError)(nil); errors.As(err, &other) {
		return nil, &differing{other.Paths, other.More}
	}
	if err != nil {
		return nil, err
	}
	return &reversal{k.past, g}, nil
}

// compare looks whether the workspace is as an entry left it; what is not is a differing. Nothing is copied.
func (k *Kept) compare(ctx context.Context, name string) error {
	err := k.stages.Compare(ctx, k.past, name)
	if other := (*stage.DiffersError)(nil); errors.As(err, &other) {
		return &differing{other.Paths, other.More}
	}
	return err
}

func (r *reversal) drop() { r.stage.Drop() }

// keep makes what is on the stage the workspace's, and remembers what that replaces. Why says what somebody did in its
// way.
func (r *reversal) keep(ctx context.Context, as string) (all []palyra.Change, why string, err error) {
	if err := r.stage.Remember(r.past, as); err != nil {
		return nil, "", err
	}
	out, err := r.stage.Keep(ctx, nil, nil)
	if err == nil && len(out.Refused) > 0 {
		err = errors.New("undo: not put back: " + strings.Join(out.Refused, ", "))
	}
	switch {
	case err != nil:
	case r.stage.Unfinished():
		err = errors.New("undo: " + out.Lost)
	case out.InUse:
		err = inUse(out.Conflicts)
	case out.Kept == 0 && out.Lost != "": // nothing was begun, or all of it taken back
		err = &NoRoomError{out.Lost}
	}
	why = out.Lost
	if len(out.Conflicts) > 0 {
		why = strings.Join(out.Conflicts, ", ")
	}
	return sandbox.ChangesOf(out.Changes), why, err
}

// size is how much what changes replace takes on disk.
func (k *Kept) size(all []palyra.Change) int64 {
	olds := make([]preimage.Former, 0, len(all))
	for _, c := range all {
		olds = append(olds, preimage.Former{Change: stage.Change{Path: string(c.Path), Was: stateOf(c.Was), Now: stateOf(c.Now)}})
	}
	return preimage.Size(olds)
}

// add writes down what is about to be replaced; what it returns is told whether it was.
func (k *Kept) add(name, workspace string, uid, gid int64, all []Old, lose bool) (settle func(bool) error, err error) {
	olds := make([]preimage.Former, 0, len(all))
	for _, o := range all {
		path, err := o.Path.Name()
		if err != nil {
			return nil, err
		}
		olds = append(olds, preimage.Former{
			Change: stage.Change{Path: path, Was: stateOf(o.Was), Now: stateOf(o.Now)}, Content: o.Content, AnyMode: o.AnyMode,
		})
	}
	done, err := k.admit(name, workspace, olds)
	if err != nil {
		return nil, err
	}
	a, err := k.past.Add(name, workspace, owner.Identity{UID: uid, GID: gid}, olds, lose)
	if lose && errors.As(err, new(*NoRoomError)) { // as was agreed
		return func(bool) error { done(); return nil }, nil
	}
	if err != nil {
		done()
		return nil, err
	}
	return func(changed bool) error {
		defer done()
		if !changed {
			a.Drop()
			return nil
		}
		return a.Commit()
	}, nil
}

// admit asks whether the files may be replaced now, and has the answer hold until done is called.
func (k *Kept) admit(call, workspace string, olds []preimage.Former) (done func(), err error) {
	if k.stages.Admit == nil {
		return func() {}, nil
	}
	paths := make([]string, 0, len(olds))
	for _, o := range olds {
		paths = append(paths, o.Path)
	}
	refused, done := k.stages.Admit(call, workspace, paths)
	if len(refused) > 0 {
		done()
		return nil, inUse(refused)
	}
	return done, nil
}

// inUse refuses changes of what other runs must find as it is.
func inUse(paths []string) error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict, "nothing was changed: %s: %s", sandbox.InUse, paths[0]).
		WithRemedy("propose it again when that run has ended")
}

// sweep removes what an earlier daemon had begun to add.
func (k *Kept) sweep() error { return k.past.Sweep() }

func stateOf(s *palyra.PathState) stage.State {
	if s == nil {
		return stage.State{}
	}
	return stage.State{Kind: stage.Kind(s.Kind), Mode: s.Mode, Size: s.Size, Digest: string(s.Digest), Target: s.Target.Raw()}
}

// contents reads files of an entry, before and after.
func (k *Kept) contents(ctx context.Context, name string, pick func(path string) bool, most int64, f func(content) bool) error {
	return k.past.Contents(ctx, name, picked(pick), most, given(f))
}

// heldContents is contents of changes that wait for an answer. It reports whether they do.
func (k *Kept) heldContents(ctx context.Context, name string, pick func(path string) bool, most int64, f func(content) bool) (bool, error) {
	err := k.stages.HeldContents(ctx, name, picked(pick), most, given(f))
	if errors.As(err, new(*stage.NotHeldError)) {
		return false, nil
	}
	return true, err
}

func picked(pick func(path string) bool) func(stage.Change) bool {
	return func(c stage.Change) bool { return pick(c.Path) }
}

func given(f func(content) bool) func(preimage.Content) bool {
	return func(c preimage.Content) bool {
		return f(content{c.Path, c.Was.Kind == stage.File, c.Now.Kind == stage.File, c.Before, c.After, c.Why})
	}
}
