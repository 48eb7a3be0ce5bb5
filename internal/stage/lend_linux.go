package stage

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/owner"
)

// Lend gives the stage a name of the caller's, under which it stays, and says since when changes are others'.
func (g *Stage) Lend(name string) (unix.Timespec, error) {
	dir := int(g.of.dir.Fd())
	if err := unix.Renameat2(dir, g.name, dir, name, unix.RENAME_NOREPLACE); err != nil {
		return g.began, err
	}
	g.of.use(g.name, false)
	g.of.use(name, true)
	g.name, g.path = name, filepath.Join(g.of.path, name)
	return g.began, nil
}

// Lent is a stage that was lent, as it lies there; mode is that of its upper layer when it was made.
func (s *Stages) Lent(name, workspace string, root beneath.Ident, id owner.Identity, mode uint32, began unix.Timespec) *Stage {
	return &Stage{
		of: s, name: name, path: filepath.Join(s.path, name), workspace: workspace, root: root, id: id, began: began, at: time.Now(),
		placed: map[string]placed{}, parents: map[string]uint32{"": mode},
	}
}

// Began has the changes of others count from a moment of the past.
func (g *Stage) Began(at unix.Timespec) { g.began = at }

// Look says what is on a stage, shows it to see (nil: nobody), and names the paths that somebody else changed.
func (g *Stage) Look(ctx context.Context, see Weigh) (out Settled, theirs []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	k := newCommitter(g, g.changesSince())
	r := &reader{Stage: g, ctx: ctx, since: k.Since, most: mostRead, later: true, firmly: map[string]firm{}, looks: true}
	defer k.close()
	if err := errors.Join(k.look(r), g.asOwner(r.relock)); err != nil {
		return r.out, nil, err
	}
	r.weighed(see, false)
	return r.out, r.theirs, nil
}
