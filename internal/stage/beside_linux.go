package stage

import (
	"context"
	"slices"
	"strings"

	"palyra/internal/change"
	"palyra/internal/gitfile"
	"palyra/internal/layered"
)

// A run may have a second stage beside that of its workspace: over a git repository outside, whose work tree the
// workspace is. Its changes are named as if the repository were the workspace's own, which has a file of that name.
const (
	besideAt     = gitfile.Own
	besideSuffix = "-repository" // behind the call's name: whose second stage it is

	stays = "it changed names of the repository outside the workspace that stay as they are: "
)

// Beside gives a stage a second one, over a repository, before the run begins. It is charged, begun and dropped with the
// first, and its changes are weighed and settled together with those: all are kept, or none. may says which paths of it
// runs may change: one that changes another loses all its changes; lasts, of which of them nothing puts back what goes.
func (g *Stage) Beside(repository string, may, lasts func(path string) bool) error {
	repo, err := g.of.Make(repository, g.id)
	if err != nil {
		return err
	}
	g.beside, g.may, g.lasts = repo, may, lasts
	return nil
}

// BesidePath is where the second stage lies; empty: there is none.
func (g *Stage) BesidePath() string {
	if g.beside == nil {
		return ""
	}
	return g.beside.path
}

// keepBoth is Keep for a run with a second stage. What was read of the repository stays what it is until the
// workspace's changes are in place, which come first: without the others they are uncommitted work, while a commit
// without them would be taken for the wish to undo it. Where somebody else changes the repository in that moment, or the
// daemon dies, it is that.
func (g *Stage) keepBoth(ctx context.Context, names Names, weigh Weigh) (out Settled, err error) {
	asked, ruling := false, RulingDrop
	theirs, failed := g.beside.keep(ctx, nil, func(f Found) Ruling {
		asked = true
		if strange := g.strange(f.Changes); len(strange) > 0 {
			out, err = g.forgets(ctx, names, stays+strings.Join(strange, ", "))
			return RulingDrop
		}
		out, err = g.keep(ctx, names, func(mine Found) Ruling {
			if ruling = RulingKeep; weigh != nil {
				ruling = weigh(g.join(mine, f))
			}
			return ruling
		}, true)
		if err != nil || len(out.Conflicts) > 0 || out.Lost != "" {
			return RulingDrop
		}
		return ruling
	}, false)
	switch {
	case !asked && failed == nil && len(theirs.Conflicts) == 0: // nothing of the repository changed
		return g.keep(ctx, names, weigh, false)
	case !asked && failed == nil:
		out, err = g.forgets(ctx, names, "")
		out.Conflicts = inRepository(theirs.Conflicts)
	case failed != nil && out.Held:
		g.of.discard(g.name)
		out.Held = false
	}
	out.add(theirs)
	if err == nil {
		err = failed
	}
	return out, err
}

// forgets reads a stage that is not kept: what was done is told all the same.
func (g *Stage) forgets(ctx context.Context, names Names, why string) (Settled, error) {
	out, err := g.keep(ctx, names, func(Found) Ruling { return RulingDrop }, false)
	out.Dropped, out.Lost = false, why
	return out, err
}

// strange are the changes that no run may make.
func (g *Stage) strange(all []Change) (names []string) {
	for _, c := range all {
		if !g.may(c.Path) {
			names = change.AppendShort(names, change.Quoted(c.Path))
		}
	}
	return names
}

// add tells what became of the changes of a second stage.
func (s *Settled) add(theirs Settled) {
	for _, c := range theirs.Changes {
		s.Changes = append(s.Changes, besideChange(c))
	}
	slices.SortFunc(s.Changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	s.Kept += theirs.Kept
	s.Refused = append(s.Refused, inRepository(theirs.Refused)...)
	if s.Lost != "" || len(s.Conflicts) > 0 {
		return
	}
	switch {
	case theirs.Lost != "":
		s.Lost = "those of the repository outside the workspace: " + theirs.Lost
	case len(theirs.Conflicts) > 0:
		s.Lost = "somebody else changed the repository outside the workspace meanwhile, so that what was done there is not in it: " +
			strings.Join(theirs.Conflicts, ", ")
	}
}

// besideChange names a change of a second stage.
func besideChange(c Change) Change {
	c.Path = besideAt + "/" + c.Path
	return c
}

func inRepository(names []string) (out []string) {
	for _, n := range names {
		out = append(out, n+" of the repository")
	}
	return out
}

// join is what a run did on both stages.
func (g *Stage) join(mine, theirs Found) Found {
	both := Found{
		NeverKept: mine.NeverKept + theirs.NeverKept, Replaced: mine.Replaced, Changes: slices.Clone(mine.Changes),
		Before: layered.Join(besideAt, mine.Before, theirs.Before), After: layered.Join(besideAt, mine.After, theirs.After),
	}
	for _, c := range theirs.Changes {
		both.Lasting = both.Lasting || c.Was.Kind != Nothing && c.Was.Kind != Directory && g.lasts(c.Path)
		both.Changes = append(both.Changes, besideChange(c))
	}
	slices.SortFunc(both.Changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return both
}

// settleBeside goes on with the second stage of a call whose first one is settled.
func (s *Stages) settleBeside(ctx context.Context, call string, ruling Ruling, out *Settled) error {
	if !s.Held(call + besideSuffix) {
		return nil
	}
	if out.Dropped || out.Lost != "" || len(out.Conflicts) > 0 {
		ruling = RulingDrop
	}
	theirs, err := s.settle(ctx, call+besideSuffix, ruling, nil, nil)
	if ruling != RulingDrop {
		out.add(theirs)
	}
	return err
}

// ofCall is the call of a name that stages and words have.
func ofCall(name string) string { return strings.TrimSuffix(name, besideSuffix) }
