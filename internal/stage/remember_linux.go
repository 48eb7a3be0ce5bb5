package stage

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/fault"
	"palyra/internal/preimage"
	"palyra/internal/stage/steps"
	"palyra/internal/subpath"
)

// Remember has Keep put what it replaces or removes under a name in p.
func (g *Stage) Remember(p *preimage.Store, name string) error {
	if !subpath.PlainID(name) {
		return fmt.Errorf("stage: remember: %q is no name", name)
	}
	g.past, g.as = p, name
	return nil
}

// stored is how much what a run replaces takes on disk, once it is remembered.
func (r *reader) stored() int64 {
	n := r.old + 3*preimage.Block // the directories, and the list
	for _, c := range r.out.Changes {
		n += preimage.Listed(&c)
	}
	return n
}

// remember writes down what the steps will change. Where that cannot be, they are done only if it may be lost.
func (k *committer) remember(r *reader, lose bool) error {
	g := k.stage
	if g.past == nil {
		return nil
	}
	m := k.manifest(r)
	err := g.past.Space().Take(g.as, m.Bytes, lose)
	if err == nil {
		if failure := g.writeManifest(m); failure != nil {
			g.past.Space().Settled(g.as)
			g.of.log.Error("what a run replaces cannot be written down", "workspace", g.workspace, "err", failure)
			err = errors.New("what they replace cannot be kept for 'palyra undo': it cannot be written down")
		}
	}
	if err != nil && lose {
		g.of.log.Warn("what a run replaces cannot be put back later, as was agreed", "workspace", g.workspace, "err", err)
		g.past, err = nil, nil
	}
	return err
}

// manifest is what the steps will change.
func (k *committer) manifest(r *reader) preimage.Manifest {
	g := k.stage
	m := preimage.Manifest{
		Version: 1, Workspace: g.workspace, Dev: g.root.Dev, Ino: g.root.Ino, UID: g.id.UID, GID: g.id.GID,
		At: time.Now().UTC(), Bytes: r.stored(), Changes: make([]preimage.Replacement, 0, len(r.out.Changes)),
	}
	took := map[string]int{}
	for i, s := range r.steps {
		if s.Was != nil && s.Do != steps.Mode {
			took[string(s.Path)] = i
		}
	}
	for _, c := range r.out.Changes {
		e := preimage.Replacement{Path: []byte(c.Path), Was: c.Was, Now: c.Now, Step: -1}
		for q := c.Path; c.Was.Kind != Nothing && q != ""; q = beneath.Parent(q) {
			if i, ok := took[q]; ok {
				e.Step, e.Rest = i, []byte(c.Path[len(q):])
				break
			}
		}
		m.Changes = append(m.Changes, e)
	}
	return m
}

func (g *Stage) writeManifest(m preimage.Manifest) error {
	text, err := m.Text()
	if err != nil {
		return err
	}
	return g.writeWhole(preimage.ManifestName, text)
}

// archive moves the stage to what is remembered: what was there lies in it.
func (g *Stage) archive() bool {
	if g.past == nil {
		return false
	}
	fault.Point("stage.archived/lost")
	err := unix.Fchmodat(int(g.of.dir.Fd()), g.name, 0o700, 0)
	if err == nil {
		err = unix.Renameat2(int(g.of.dir.Fd()), g.name, g.past.Dir(), g.as, unix.RENAME_NOREPLACE)
	}
	fault.Point("stage.archived/kept")
	if err != nil {
		g.of.log.Error("the files that a run replaced cannot be put back later", "workspace", g.workspace, "err", err)
		return false
	}
	g.archived = true
	return true
}

// trimArchived removes what of a stage is not needed to put things back, once it is among what is remembered.
func (g *Stage) trimArchived() {
	if !g.archived {
		return
	}
	if err := g.past.Trim(g.as); err != nil {
		g.of.log.Warn("leftovers of a stage lie with the files that it replaced", "workspace", g.workspace, "err", err)
	}
}
