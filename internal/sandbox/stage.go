package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"palyra"
	"palyra/internal/effects"
	"palyra/internal/stage"
	"palyra/internal/subpath"
)

// Stageable says why what a run of the plan writes cannot be kept apart from its
// workspace until it has ended; nothing: it can.
func (r *Runner) Stageable(ctx context.Context, p palyra.Plan) (why string) {
	b, err := r.backend(p.Tier)
	if err != nil {
		return "no such tier"
	}
	s, ok := b.(Staging)
	if !ok {
		return "the tier has no file system of its own"
	}
	who, err := whoRuns(p.Workspace)
	if err != nil {
		return "nobody could run there"
	}
	return s.Stageable(ctx, p.Workspace.Path, int64(who.uid), int64(who.gid))
}

// stage has the job run on a layer of its own, where its plan says so, and says what
// must lie there as it was checked.
func (l *runStart) stage() {
	if !l.plan.Staging.Staged() {
		return
	}
	l.job.Staged = true
	for _, in := range l.plan.Inputs {
		if !filepath.IsAbs(in.Path) { // others are of the system, or in a cache and looked at again
			l.job.Bound = append(l.job.Bound, stage.Bound{Path: filepath.Clean(in.Path), Digest: string(in.Digest)})
		}
	}
	for _, link := range l.plan.Links {
		l.job.Bound = append(l.job.Bound, stage.Bound{Path: filepath.Clean(link.Path), Link: link.Target})
	}
	if exe := l.plan.Executable; exe.Sealed {
		if rel, ok := subpath.Rel(l.plan.Workspace.Path, exe.Path); ok {
			l.job.Bound = append(l.job.Bound, stage.Bound{Path: rel, Digest: string(exe.Digest)})
		}
	}
}

// settled says what became of what a staged run wrote. Changes that are not the
// workspace's are a failure, however the program ended.
func (l *runStart) settled(res *palyra.Result, exit Exit) {
	if !l.job.Staged {
		l.swapped(res)
		return
	}
	e := exit.Effects
	res.Changed, res.Changes = e.Changed, ChangesOf(e.Changes)
	defer l.swapped(res) // in caches, of which it had no copies
	fail := func(kind palyra.Settlement, err *palyra.Error) {
		f := palyra.RefusalOf(palyra.LayerTier, err)
		res.Effects = kind
		if res.Failure == nil {
			res.Failure = &f
		} else { // what ended it comes first
			res.Failure.Text += "; " + f.Text
		}
		res.ExitCode = cmp.Or(res.ExitCode, palyra.ExitRefused)
	}
	switch {
	case len(e.Conflicts) > 0:
		fail(palyra.EffectsConflict, palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict, "somebody else changed the same files while the program ran, so nothing that it changed was kept: %s%s", fewNames(e.Conflicts), setAside(e.Aside)).
			WithRemedy("look at what changed, and run it again"))
	case e.Lost != "":
		fail(palyra.EffectsLost, palyra.Errorf(palyra.Unavailable, palyra.ReasonEffectsLost, "what the program changed was not kept, or only in part: %s%s", e.Lost, setAside(e.Aside)).
			WithRemedy("see the daemon's log, look at the workspace, and run it again"))
	case e.Kept > 0:
		res.Effects = palyra.EffectsKept
	default:
		res.Effects = palyra.EffectsNone
	}
}

// ChangesOf is what a run changed, in words that records have.
func ChangesOf(all []stage.Change) []palyra.Change {
	state := func(s stage.State) *palyra.PathState {
		if s.Kind == stage.Nothing {
			return nil
		}
		out := palyra.PathState{Kind: palyra.PathKind(s.Kind), Mode: s.Mode, Size: s.Size, Digest: palyra.Digest(s.Digest)}
		if s.Kind == stage.Link {
			out.Target = palyra.TextOfPath(s.Target)
		}
		return &out
	}
	out := make([]palyra.Change, 0, len(all))
	for _, c := range all {
		was, now := state(c.Was), state(c.Now)
		out = append(out, palyra.Change{Path: palyra.TextOfPath(c.Path), Kind: effects.KindOf(was, now), Was: was, Now: now})
	}
	return out
}

// setAside says where the run's own versions are.
func setAside(files int) string {
	if files == 0 {
		return ""
	}
	return fmt.Sprintf("; its own versions of %d files are in quarantine, under this call's id ('palyra config path' says where)", files)
}

// swapped says which inputs are not what they were, of a run that had no copies of
// its own: what ran may not be what was approved.
func (l *runStart) swapped(res *palyra.Result) {
	changed := l.lookAgain()
	if l.loose = changed; len(changed) == 0 {
		return
	}
	res.Changed = append(res.Changed, changed...)
	names := make([]string, len(changed))
	for i, path := range changed {
		names[i] = show(path)
	}
	l.Log.Warn("inputs of a run changed while it was under way", "call", string(l.call), "paths", names)
	if res.Failure != nil {
		return
	}
	f := palyra.RefusalOf(palyra.LayerTier, palyra.Errorf(palyra.Conflict, palyra.ReasonInputChanged, "changed while the program ran, by itself or by others, so what ran may not be what was approved: %s", fewNames(names)).
		WithRemedy("look at what changed; a run without terminal and live input, in tier c, gets a copy that nobody can change"))
	res.Failure = &f
}
