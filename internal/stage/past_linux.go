package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/fault"
	"palyra/internal/owner"
	"palyra/internal/quarantine"
)

// Past is the directory of what runs replaced or removed, so that it can be put back.
// It is the daemon's alone, and on the file system of the stages.
type Past struct {
	dir   *os.File
	path  string
	space Space
}

// Space is how much there may be in a Past.
type Space interface {
	// Take takes space for bytes under a name, or says for people why there is none. Lose: what is new may go for it.
	Take(name string, bytes int64, lose bool) error
	Settled(name string) // what space was taken for is there now, or will not be
}

// unbounded is as much space as the disk has.
type unbounded struct{}

func (unbounded) Take(string, int64, bool) error { return nil }

func (unbounded) Settled(string) {}

// Bound has what is added to p take its space from s.
func (p *Past) Bound(s Space) { p.space = s }

// OpenPast makes the directory where it is missing, and refuses one that is not the
// caller's alone.
func OpenPast(path string) (*Past, error) {
	dir, err := owner.Dir(path, 0o700)
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	return &Past{dir: dir, path: path, space: unbounded{}}, nil
}

// Close gives the directory back. A second one does nothing.
func (p *Past) Close() error { return beneath.Ignore(p.dir.Close(), os.ErrClosed) }

const (
	manifestName = "changes" // the file that says what a run changed
	block        = 4096      // what a file or a directory takes of a disk at least
)

// Manifest is what is remembered of one run.
type Manifest struct {
	Version   int         `json:"version"`
	Workspace string      `json:"workspace"`
	Dev       uint64      `json:"dev"`
	Ino       uint64      `json:"ino"`
	UID       int64       `json:"uid"`
	GID       int64       `json:"gid"`
	At        time.Time   `json:"at"`
	Bytes     int64       `json:"bytes"`           // that it takes on disk, by what was replaced or removed
	Paths     int         `json:"paths,omitempty"` // how many changes there are
	Lost      string      `json:"lost,omitempty"`  // why these are not all that the run did
	Changes   []PastEntry `json:"changes"`
}

// PastEntry is one change, and where what was there lies.
type PastEntry struct {
	Path []byte `json:"path"`
	Was  State  `json:"was"`
	Now  State  `json:"now"`
	Step int    `json:"step"`           // of the list, which took it away
	Rest []byte `json:"rest,omitempty"` // below what that step took
	Left *mark  `json:"left,omitempty"` // what the run left, as it was seen when it was put there; of files that were not read
}

// Remember has Keep put what it replaces or removes under a name in p.
func (g *Stage) Remember(p *Past, name string) error {
	if !quarantine.PlainID(name) {
		return fmt.Errorf("stage: remember: %q is no name", name)
	}
	g.past, g.as = p, name
	return nil
}

// stored is how much what a run replaces takes on disk, once it is remembered.
func (r *reader) stored() int64 {
	n := r.old + 3*block // the directories, and the list
	for _, c := range r.out.Changes {
		n += listed(&c)
	}
	return n
}

// listed is how much a change takes in a manifest, at most.
func listed(c *Change) int64 {
	return int64(512 + 2*(len(c.Path)+len(c.Was.Target)+len(c.Now.Target)))
}

// remember writes down what the steps will change. Where that cannot be, they are done only if it may be lost.
func (k *keeper) remember(r *reader, lose bool) error {
	g := k.stage
	if g.past == nil {
		return nil
	}
	m := k.manifest(r)
	err := g.past.space.Take(g.as, m.Bytes, lose)
	if err == nil {
		if failure := g.writeManifest(m); failure != nil {
			g.past.space.Settled(g.as)
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
func (k *keeper) manifest(r *reader) Manifest {
	g := k.stage
	m := Manifest{
		Version: 1, Workspace: g.workspace, Dev: g.root.dev, Ino: g.root.ino, UID: g.id.UID, GID: g.id.GID,
		At: time.Now().UTC(), Bytes: r.stored(), Changes: make([]PastEntry, 0, len(r.out.Changes)),
	}
	took := map[string]int{}
	for i, s := range r.steps {
		if s.Was != nil && s.Do != stepMode {
			took[string(s.Path)] = i
		}
	}
	for _, c := range r.out.Changes {
		e := PastEntry{Path: []byte(c.Path), Was: c.Was, Now: c.Now, Step: -1}
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

func (g *Stage) writeManifest(m Manifest) error {
	m.Paths = len(m.Changes)
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > mostList {
		return tooMany("a list of %d bytes", len(text))
	}
	return g.writeWhole(manifestName, text)
}

// archive moves the stage to what is remembered: what was there lies in it.
func (g *Stage) archive() bool {
	if g.past == nil {
		return false
	}
	fault.Point("stage.archived/lost")
	err := unix.Fchmodat(int(g.of.dir.Fd()), g.name, 0o700, 0)
	if err == nil {
		err = unix.Renameat2(int(g.of.dir.Fd()), g.name, int(g.past.dir.Fd()), g.as, unix.RENAME_NOREPLACE)
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
	if err := g.past.trim(g.as); err != nil {
		g.of.log.Warn("leftovers of a stage lie with the files that it replaced", "workspace", g.workspace, "err", err)
	}
}

// trim removes what of a stage is not needed to put things back.
func (p *Past) trim(name string) error {
	top, err := beneath.OpenDir(int(p.dir.Fd()), name)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	var errs []error
	for _, sub := range []string{listName, backName, markName, Work, heldName, Upper} { // the last one says that there is more
		errs = append(errs, clearOut(int(top.Fd()), sub))
	}
	return errors.Join(errs...)
}

// Recover removes what an earlier daemon that died had still to remove of kept runs.
func (p *Past) Recover(ctx context.Context) error {
	names, err := p.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, missing, err := beneath.LookAt(int(p.dir.Fd()), name+"/"+Upper); err == nil && !missing {
			errs = append(errs, p.trim(name))
		}
	}
	return errors.Join(errs...)
}

// preserve copies what is taken away to the stage, where it cannot be moved there.
func (k *keeper) preserve(dir int, name string, i int) error {
	as := strconv.Itoa(i) + ".copy"
	if _, missing, err := beneath.LookAt(k.away, as); err != nil || !missing { // an earlier daemon came as far
		return err
	}
	part := strconv.Itoa(i) + ".part"
	if err := clearOut(k.away, part); err != nil {
		return err
	}
	if err := beneath.CopyTree(dir, name, k.away, part); err != nil {
		return err
	}
	return unix.Renameat(k.away, part, k.away, as)
}

// Names lists what is remembered.
func (p *Past) Names() ([]string, error) {
	d, err := beneath.OpenDir(int(p.dir.Fd()), ".")
	if err != nil {
		return nil, fmt.Errorf("stage: past: %w", err)
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("stage: past: %w", err)
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { return !quarantine.PlainID(n) }), nil
}

// Forget removes what is remembered under a name.
func (p *Past) Forget(name string) error {
	if !quarantine.PlainID(name) {
		return fmt.Errorf("stage: past: %q is no name", name)
	}
	if err := removeIn(int(p.dir.Fd()), name); err != nil {
		return fmt.Errorf("stage: forget: %w", err)
	}
	return nil
}
