package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/effects"
	"palyra/internal/stage"
	"palyra/internal/subpath"
)

// Stageable returns why the writes of a run of the plan cannot be kept apart from its workspace
// until it has ended; "": they can.
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
	why = s.Stageable(ctx, p.Workspace.Path, int64(who.uid), int64(who.gid))
	if repository := p.Workspace.Repository.Path; why == "" && repository != "" {
		if why = s.Stageable(ctx, repository, int64(who.uid), int64(who.gid)); why != "" {
			why = "its repository: " + why
		}
	}
	return why
}

// stage has the job run on a stage, where its plan says so, with the files that must lie there as
// they were checked.
func (l *runStart) stage(ctx context.Context) {
	if !l.plan.Staging.Staged() {
		return
	}
	l.job.Payer = l.from.Proposal.Payer()
	if !l.plan.Staging.Own() {
		if l.job.Layer = l.plan.Staging.Of; l.plan.Staging.Review {
			l.job.Layer = l.call
		}
		return
	}
	l.job.Staged = true
	if l.weigher != nil && l.List != nil {
		ctx = context.WithoutCancel(ctx) // a run whose caller is gone is weighed as any other
		l.job.Weigh = func(f stage.Found) stage.Ruling { return l.weigh(ctx, f) }
	}
	l.job.Renames = renames(l.plan)
	for _, in := range l.plan.Inputs {
		if !filepath.IsAbs(in.Path) { // others are of the system, or in a cache and checked again
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

// Layer returns the agent on whose stage a call works, and its workspace as it is there; see Lender.
func (r *Runner) Layer(p palyra.Proposal, workspace string) (palyra.CallID, *os.File, error) {
	for _, b := range r.Backends {
		if l, ok := b.(Lender); ok {
			if of, dir, err := l.Layer(p, workspace); of != "" || err != nil {
				return of, dir, err
			}
		}
	}
	return "", nil, nil
}

// enterLayer finds the workspace on the stage of the agent that the plan names.
func (l *runStart) enterLayer() (err error) {
	if l.plan.Staging.Of == "" {
		return nil
	}
	var of palyra.CallID
	if of, l.layer, err = l.Layer(l.from.Proposal, l.plan.Workspace.Path); err == nil && of != l.plan.Staging.Of {
		err = palyra.PlanChanged("the stage that it works on")
	}
	return err
}

// outside is where a file of the host is that the run finds under a path: in a workspace on an agent's stage, by way of
// its descriptor.
func (l *runStart) outside(path string) string {
	if rel, ok := subpath.Rel(l.plan.Workspace.Path, path); ok && l.layer != nil {
		return filepath.Join(fmt.Sprintf("/proc/self/fd/%d", l.layer.Fd()), rel)
	}
	return path
}

// gitMv matches 'git mv' with its arguments, in the words of a command or in a script.
var gitMv = regexp.MustCompile(`(?:^|[\s;&|(])git\s+mv((?:\s+[^\s;&|<>()]+)+)`)

// mostRenames is how many directories a command may be expected to rename.
const mostRenames = 16

// renames returns the paths below the workspace that a command may rename, by its words. In an overlay a directory
// can be renamed only if it lies on the stage: mv and package managers copy then, git does not.
func renames(p palyra.Plan) (paths []string) {
	texts := append([]string{strings.Join(p.Argv, " ")}, p.Argv...)
	if len(p.Argv) > 0 && filepath.Base(p.Executable.Path) == "git" {
		texts[0] = "git " + strings.Join(p.Argv[1:], " ")
	}
	for _, text := range texts {
		for _, found := range gitMv.FindAllStringSubmatch(text, -1) {
			for _, word := range strings.Fields(found[1]) {
				word = strings.Trim(word, `'"`)
				if !filepath.IsAbs(word) {
					word = filepath.Join(p.Cwd, word)
				}
				rel, ok := subpath.Rel(p.Workspace.Path, filepath.Clean(word))
				if ok && rel != "." && len(paths) < mostRenames && !slices.Contains(paths, rel) {
					paths = append(paths, rel)
				}
			}
		}
	}
	return paths
}

// weigh lists the run's changes, and asks what is to become of them. Changes that cannot be listed
// cannot be judged, and are not kept.
func (l *runStart) weigh(ctx context.Context, f stage.Found) stage.Ruling {
	staged, err := l.List(ctx, l.from, Left{
		Changes: ChangesOf(f.Changes), NeverKept: int64(f.NeverKept), Replaced: f.Replaced, Lasting: f.Lasting, Before: f.Before, After: f.After,
	})
	if err != nil {
		l.Log.Error("the changes of a run cannot be listed, and are dropped", "call", string(l.call), "err", err)
		return stage.RulingDrop
	}
	l.listed = &staged.Effects
	l.carriers(ctx, f)
	switch l.weigher(ctx, staged) {
	case palyra.RulingKeep:
		return rulingOf(true, staged.Facts)
	case palyra.RulingHold:
		return stage.RulingHold
	}
	return stage.RulingDrop
}

// rulingOf is the ruling about changes that were judged. Whoever kept them knew whether they can be undone later.
func rulingOf(keep bool, f palyra.EffectFacts) stage.Ruling {
	switch {
	case !keep:
		return stage.RulingDrop
	case f.NotUndoable || f.PushesOut > 0:
		return stage.RulingLose
	}
	return stage.RulingKeep
}

// Settle keeps or drops the held changes of a run. The result says only what became of them.
func (r *Runner) Settle(ctx context.Context, c *palyra.Call, keep bool) (res palyra.Result) {
	res.Started = r.Now()
	defer func() { res.Finished = r.Now() }()
	if !r.enter() {
		res.Refusal = refusal(palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping"))
		return res
	}
	defer r.busy.Done()
	s, ok := r.backends[stagedIn(c)].(Staging)
	if !ok {
		return notThere(res)
	}
	ruling := stage.RulingDrop
	if c.Keep != nil {
		ruling = rulingOf(keep, c.Keep.Facts)
	}
	exit, err := s.Settle(ctx, HeldRun{c.ID, c.Plan.Workspace.Path, c.Plan.Seals}, ruling)
	switch {
	case errors.As(err, new(*stage.NotHeldError)) && !keep:
		res.Effects = palyra.EffectsDropped
	case errors.As(err, new(*stage.NotHeldError)):
		return notThere(res)
	case err != nil && exit.Effects.Kept == 0:
		r.Log.Error("the changes of a run could not be settled", "call", string(c.ID), "err", err, "cause", palyra.AsError(err).Cause)
		res.Refusal = refusal(palyra.AsError(err))
	default:
		r.report(ctx, c, exit)
		res.Quarantined, res.More, res.Left = exit.Quarantined, exit.More, exit.Remnants
		if err != nil {
			r.Log.Error("the workspace could not be looked through after changes were kept", "call", string(c.ID), "err", err)
			res.Failure, res.ExitCode = refusal(palyra.AsError(err)), palyra.ExitUnknown
		}
		settle(&res, exit.Effects)
	}
	return res
}

// stagedIn is the tier that the stage of a call lies in: what is kept of an agent's work lies where that did.
func stagedIn(c *palyra.Call) palyra.Tier {
	if c.Plan.Tool == palyra.ToolStageKeep {
		return palyra.TierC
	}
	return c.Plan.Tier
}

// notThere is the result where nothing is known of a run's changes.
func notThere(res palyra.Result) palyra.Result {
	res.Effects = palyra.EffectsLost
	res.Failure = refusal(palyra.Errorf(palyra.NotFound, palyra.ReasonEffectsLost, "the changes of the program are not there any more").
		WithRemedy("run it again"))
	return res
}

func refusal(err *palyra.Error) *palyra.Refusal {
	f := palyra.RefusalOf(palyra.LayerTier, err)
	return &f
}

// DropHeld drops the held changes of calls that nobody waits for.
func (r *Runner) DropHeld(ctx context.Context, waits func(palyra.CallID) bool) error {
	var errs []error
	for _, b := range r.Backends {
		if s, ok := b.(Staging); ok {
			errs = append(errs, s.DropHeld(ctx, waits))
		}
	}
	return errors.Join(errs...)
}

// Forget forgets what became of the changes of a call, once that is on record.
func (r *Runner) Forget(c *palyra.Call) {
	if s, ok := r.backends[stagedIn(c)].(Staging); ok {
		s.Forget(c.ID)
	}
}

// settled sets what became of a staged run's changes. Changes that did not become the workspace's
// are a failure, however the program ended.
func (l *runStart) settled(res *palyra.Result, exit Exit) {
	if !l.job.Staged {
		if l.job.Layer != "" {
			res.Effects = palyra.EffectsStaged
		}
		l.swapped(res)
		return
	}
	res.Changed, res.Changes, res.Listed = exit.Effects.Changed, ChangesOf(exit.Effects.Changes), l.listed
	settle(res, exit.Effects)
	l.swapped(res) // in caches, of which it had no copies
}

func settle(res *palyra.Result, e stage.Settled) {
	fail := func(kind palyra.Settlement, err *palyra.Error) {
		f := refusal(err)
		res.Effects = kind
		if res.Failure == nil {
			res.Failure = f
		} else { // what ended it comes first
			res.Failure.Text += "; " + f.Text
		}
		res.ExitCode = cmp.Or(res.ExitCode, palyra.ExitRefused)
	}
	switch {
	case e.InUse:
		fail(palyra.EffectsConflict, palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict,
			"%s, so nothing that the program changed was kept: %s%s", InUse, fewNames(e.Conflicts), setAside(e.Aside)).
			WithRemedy("run it again when the other one has ended; `palyra calls list` names what runs, `palyra calls cancel ID` ends it"))
	case len(e.Conflicts) > 0:
		fail(palyra.EffectsConflict, palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict,
			"somebody else changed the same files while the program ran, so nothing that it changed was kept: %s%s", fewNames(e.Conflicts),
			setAside(e.Aside)).
			WithRemedy("look at what changed, and run it again"))
	case e.Over != "":
		fail(palyra.EffectsLost, palyra.Errorf(palyra.Exhausted, palyra.ReasonEffectsLost,
			"the program changed more than is kept of one run (%s), so nothing that it changed was kept%s", e.Lost, setAside(e.Aside)).
			WithRemedy("leave less in the workspace, or have process.%s raised in the configuration", e.Over))
	case e.Lost != "":
		fail(palyra.EffectsLost, palyra.Errorf(palyra.Unavailable, palyra.ReasonEffectsLost,
			"the changes of the program were not kept, or only in part: %s%s", e.Lost, setAside(e.Aside)).
			WithRemedy("see the daemon's log, look at the workspace, and run it again"))
	case e.Held:
		res.Effects = palyra.EffectsHeld
	case e.Dropped:
		res.Effects = palyra.EffectsDropped
	case e.Kept > 0:
		res.Effects = palyra.EffectsKept
	default:
		res.Effects = palyra.EffectsNone
	}
}

// InUse is why files cannot be changed that nobody changed.
const InUse = "another run that is under way in the workspace must find these files as they are"

// StagesFull refuses or ends a run that has no room any more to write to on a layer of its own.
func StagesFull() *palyra.Error {
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded,
		"all runs together have more on their layers than they may, with what waits for an answer (all_stages_bytes)").
		WithRemedy("answer what waits ('palyra approvals list'), run less at once, or have process.all_stages_bytes raised in the configuration")
}

// ChangesOf turns a run's changes into the words of records.
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
	noun := "files are"
	if files == 1 {
		noun = "file is"
	}
	return fmt.Sprintf("; its own version of %d %s in quarantine, under this call's id ('palyra config path' says where, 'chmod "+
		"u+rx' opens it)",
		files, noun)
}

// swapped reports the inputs that changed during a run without copies of its own: the program that
// ran may not be the approved one.
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
	f := palyra.RefusalOf(palyra.LayerTier, palyra.Errorf(palyra.Conflict, palyra.ReasonInputChanged,
		"changed while the program ran, by itself or by others, so that another text than the approved one may have run: %s", fewNames(names)).
		WithRemedy("look at what changed; a run without terminal and live input, in tier c, gets a copy that nobody can change"))
	res.Failure = &f
}
