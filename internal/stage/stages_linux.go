package stage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/cell"
	"palyra/internal/owner"
	"palyra/internal/preimage"
	"palyra/internal/subpath"
	"palyra/internal/tally"
)

// The directories of a stage, and the list of what is being kept.
const (
	Upper    = cell.StageUpper // what the run wrote
	Work     = cell.StageWork  // the overlay's own
	listName = "keeping"
	markName = "clock"
)

// passMode lets others pass and not look.
const passMode = 0o711

// Stages is the directory that stages are in.
type Stages struct {
	dir    *os.File
	path   string
	limits Limits
	log    *slog.Logger
	sizes  *tally.Tally    // what each stage has, by its name: as of the last look
	past   *preimage.Store // where what held stages replace goes; nil: it is forgotten
	Admit  Admit           // asked before changes become a workspace's; nil: everything is admitted

	mu      sync.Mutex
	live    map[string]bool
	spares  map[[2]int64]*Stage     // made ahead, by uid and gid
	keeping map[beneath.Ident]*turn // by workspace
	flushes map[string]*time.Timer  // that are to come, by workspace
}

// turn is whose turn it is in a workspace.
type turn struct {
	sync.Mutex
	users int
}

// alone waits until nobody else keeps in the same workspace: two runs that end
// together see each other's changes. It returns what ends the turn.
func (s *Stages) alone(workspace beneath.Ident) (done func()) {
	s.mu.Lock()
	if s.keeping == nil {
		s.keeping = map[beneath.Ident]*turn{}
	}
	t := s.keeping[workspace]
	if t == nil {
		t = &turn{}
		s.keeping[workspace] = t
	}
	t.users++
	s.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.keeping, workspace)
		}
	}
}

// Open makes the directory where it is missing, and refuses one that is not the caller's alone.
func Open(path string, l Limits, log *slog.Logger) (*Stages, error) {
	dir, err := owner.Dir(path, passMode)
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	l = l.filled()
	return &Stages{
		dir: dir, path: path, limits: l, sizes: tally.New(l.All), log: log, live: map[string]bool{},
		spares: map[[2]int64]*Stage{},
	}, nil
}

// Remember has what is replaced by held stages go to p, under the names of their calls.
func (s *Stages) Remember(p *preimage.Store) { s.past = p }

// Admit says which of the paths of a workspace that a call changed may not be changed now, because other runs that are
// under way must find them as they are: nothing is kept then, as with a conflict. Until done is called its answer holds.
type Admit func(call, workspace string, paths []string) (refused []string, done func())

// Close gives the directory back. It is removed when nothing is in it. A second one does nothing.
func (s *Stages) Close() error {
	s.mu.Lock()
	spares := s.spares
	s.spares = nil
	s.mu.Unlock()
	for _, g := range spares {
		g.Drop()
	}
	_ = os.Remove(s.path)
	return beneath.Ignore(s.dir.Close(), os.ErrClosed)
}

// Stage is the upper layer of one run.
type Stage struct {
	of         *Stages
	name       string
	path       string
	workspace  string
	id         owner.Identity
	root       beneath.Ident // of the workspace
	clock      *os.File
	files      []file        // that the run left, once they were to be kept
	partial    bool          // its list is not done: Recover goes on
	began      unix.Timespec // changes from then on are others'
	at         time.Time     // the same by the clock that nobody sets
	placed     map[string]placed
	parents    map[string]uint32     // directories that were made for what was placed, with the modes they got
	quarantine Quarantine            // nil: what is new is kept, whatever it is called
	past       *preimage.Store       // where what is replaced goes; nil: it is forgotten
	as         string                // under this name
	archived   bool                  // the stage lies there now
	call       string                // whose run it is; empty: its changes cannot be held
	payer      string                // in whose share it is counted
	isHeld     bool                  // it waits, or waited, to be settled
	stirs      map[beneath.Mark]bool // directories of the workspace that were opened to be read, as they looked when they were shut again
	beside     *Stage                // over a repository outside of the workspace, settled with this one; nil: none
	may, lasts func(string) bool     // which paths of that may be changed, and of which nothing puts back what goes
	looking    sync.Mutex            // of who adds up what is there
	ended      atomic.Bool           // nobody adds it up any more
}

// Guard has new paths that must not come to be in the workspace go to q instead.
func (g *Stage) Guard(q Quarantine) { g.quarantine = q }

// Charge says in whose share the stage is counted. The error, a LimitError, says that there is no room for it: a run that
// has less than its share on stages, with what is held, may always begin.
func (g *Stage) Charge(payer string) error {
	if g.payer = payer; !g.of.sizes.Charge(g.name, payer) {
		return tooMuchInAll(g.of.limits.All)
	}
	if g.beside != nil {
		return g.beside.Charge(payer)
	}
	return nil
}

// Make makes a stage for a workspace, which is an absolute path without links.
func (s *Stages) Make(workspace string, id owner.Identity) (*Stage, error) {
	g := s.takeSpare(id)
	if g != nil {
		if g.id = id; g.fit(workspace) == nil {
			return g, nil
		}
		g.Drop() // somebody may have removed it meanwhile
	}
	g, err := s.blank(id)
	if err == nil {
		err = g.fit(workspace)
	}
	if err != nil {
		g.Drop()
		return nil, fmt.Errorf("stage: make: %w", err)
	}
	return g, nil
}

// mostSpares is for how many owners stages are made ahead.
const mostSpares = 8

// Prepare makes the directories of an owner's next stage ahead: they take a large part of the start of a short run.
func (s *Stages) Prepare(id owner.Identity) {
	s.mu.Lock()
	have := s.spares[ids(id)] != nil || len(s.spares) == mostSpares
	s.mu.Unlock()
	if have {
		return
	}
	g, err := s.blank(id)
	if err == nil && s.keepSpare(g) {
		return
	}
	g.Drop() // whoever needs one is told why it cannot be made
}

func ids(id owner.Identity) [2]int64 { return [2]int64{id.UID, id.GID} }

func (s *Stages) keepSpare(g *Stage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spares == nil || s.spares[ids(g.id)] != nil || len(s.spares) == mostSpares {
		return false
	}
	s.spares[ids(g.id)] = g
	return true
}

func (s *Stages) takeSpare(id owner.Identity) *Stage {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.spares[ids(id)]
	delete(s.spares, ids(id))
	return g
}

// blank makes the directories of a stage, which is nobody's yet but its owner's. The top one stays the daemon's.
// With an error the stage is to be dropped.
func (s *Stages) blank(id owner.Identity) (*Stage, error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // cannot fail
	name := hex.EncodeToString(random[:])
	g := &Stage{of: s, name: name, path: filepath.Join(s.path, name), id: id, placed: map[string]placed{}, parents: map[string]uint32{}}
	s.use(name, true)
	if err := unix.Mkdirat(int(s.dir.Fd()), name, 0o700); err != nil {
		return g, err
	}
	top, err := g.top()
	if err != nil {
		return g, err
	}
	defer func() { _ = unix.Close(top) }()
	for _, sub := range []string{Upper, Work, preimage.Old} {
		if err := mkdirAt(top, sub, id, 0o700); err != nil {
			return g, err
		}
	}
	fd, err := unix.Openat(top, markName, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return g, err
	}
	g.clock = os.NewFile(uintptr(fd), markName)
	if os.Geteuid() == 0 { // the owner passes; nobody looks
		err = errors.Join(unix.Fchown(top, 0, int(id.GID)), unix.Fchmod(top, 0o710))
	}
	return g, err
}

func (g *Stage) top() (int, error) {
	return unix.Openat(int(g.of.dir.Fd()), g.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// fit makes a blank stage that of a workspace. What the run sees of the workspace's own directory is the upper layer's.
func (g *Stage) fit(workspace string) error {
	g.workspace = workspace
	var st unix.Stat_t
	err := g.asOwner(func() error {
		ws, err := beneath.OpenTree(workspace)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(ws) }()
		return unix.Fstat(ws, &st)
	})
	if err != nil {
		return err
	}
	top, err := g.top()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(top) }()
	for _, sub := range []string{Upper, Work, preimage.Old} { // it may have lain there for long
		if err := mustBeEmpty(top, sub); err != nil {
			return err
		}
	}
	g.root, g.parents[""] = beneath.IdentOf(&st), st.Mode&modeBits|0o700
	if err := beneath.ChmodAt(top, Upper, g.parents[""]); err != nil {
		return err
	}
	if err := unix.UtimesNanoAt(top, Upper, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return g.begin()
}

func mustBeEmpty(top int, sub string) error {
	dir, err := beneath.OpenDir(top, sub)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if names, err := dir.Readdirnames(1); len(names) > 0 || !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%s of a new stage is not empty", sub), err)
	}
	return nil
}

// Begin says that the run begins now: what changes in the workspace from here on was changed by others. The moment
// is one that the kernel gives to files, so that what changed before it is older, and what changes after it is not.
func (g *Stage) Begin() error {
	if g.beside != nil {
		if err := g.beside.begin(); err != nil {
			return err
		}
	}
	return g.begin()
}

// begin is Begin for one stage.
func (g *Stage) begin() error {
	const most = 20 * time.Millisecond // the longest tick that a kernel has, and some
	fd := int(g.clock.Fd())
	var first, now unix.Stat_t
	if err := errors.Join(unix.Ftruncate(fd, 1), unix.Fstat(fd, &first)); err != nil {
		return err
	}
	for start := time.Now(); ; {
		if _, err := unix.Pwrite(fd, []byte{0}, 0); err != nil {
			return err
		}
		if err := unix.Fstat(fd, &now); err != nil {
			return err
		}
		if beneath.Later(now.Ctim, first.Ctim) || time.Since(start) > most {
			break
		}
	}
	g.began, g.at = now.Ctim, time.Now()
	return nil
}

// changesSince is when changes count from. A clock that was set back meanwhile gives new changes old times.
func (g *Stage) changesSince() unix.Timespec {
	wall := time.Now().Round(0)
	back := g.at.Add(time.Since(g.at)).Round(0).Sub(wall)
	if back <= time.Millisecond {
		return g.began
	}
	return unix.NsecToTimespec(unix.TimespecToNsec(g.began) - back.Nanoseconds())
}

// Path is where the stage lies, for who mounts it: Upper and Work are below.
func (g *Stage) Path() string { return g.path }

func (g *Stage) asOwner(f func() error) error { return owner.Do(g.id, f) }

// Drop removes the stage with all that is in it. What resists stays for Recover.
func (g *Stage) Drop() {
	if g.beside != nil {
		g.beside.Drop()
		g.beside = nil
	}
	if g.clock != nil {
		_ = g.clock.Close()
		g.clock = nil
	}
	switch {
	case g.partial:
		g.of.use(g.name, false)
	case g.archived:
		g.trimArchived()
		g.of.use(g.name, false)
	case g.isHeld: // it waits, or was settled
		g.of.dropSettled(g.call)
	default:
		g.of.discard(g.name)
	}
}

// dropSettled removes a held stage once there is word of what became of it.
func (s *Stages) dropSettled(call string) {
	if _, missing, err := beneath.LookAt(int(s.dir.Fd()), wordPrefix+call); err == nil && !missing {
		s.discard(heldPrefix + call)
	}
}

func (s *Stages) discard(name string) {
	err := s.remove(name)
	for range 10 { // a cell that is being ended may still be at work there
		if err == nil {
			break
		}
		<-time.After(20 * time.Millisecond)
		err = s.remove(name)
	}
	if err != nil {
		s.log.Warn("a stage could not be removed", "stage", name, "err", err)
	}
	s.use(name, false)
}

func (s *Stages) use(name string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.live[name] = true
		s.sizes.Add(name)
		return
	}
	delete(s.live, name)
	if !s.Held(strings.TrimPrefix(name, heldPrefix)) {
		s.sizes.Remove(name)
	}
}

// remove takes a stage away: what belongs to somebody by that one's rights. The
// list goes first: half a stage is not kept.
func (s *Stages) remove(name string) error {
	return beneath.RemoveKnown(owner.As, int(s.dir.Fd()), name, cell.StageBlank, listName)
}

// Recover finishes what an earlier daemon had begun to keep, and removes all that
// it left but what is held. What cannot be finished is logged and kept for the next time.
func (s *Stages) Recover(ctx context.Context) error {
	names, err := s.names()
	if err != nil {
		return fmt.Errorf("stage: recover: %w", err)
	}
	for _, name := range names {
		s.mu.Lock()
		ours := s.live[name]
		s.mu.Unlock()
		call, held := strings.CutPrefix(name, heldPrefix)
		held = held && subpath.PlainID(call)
		if ours || !held && (len(name) != 32 || strings.Trim(name, "0123456789abcdef") != "") {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.finish(name); err != nil {
			s.log.Error("the changes of a run could not be kept whole after a crash", "stage", name, "err", err)
			continue
		}
		if held {
			s.dropSettled(call)
			if h, err := s.readHeld(call); err == nil {
				s.sizes.Fix(name, h.Payer, h.Bytes)
			}
		} else {
			s.discard(name)
		}
	}
	return nil
}

// names lists what is in the directory of stages.
func (s *Stages) names() ([]string, error) {
	f, err := beneath.OpenDir(int(s.dir.Fd()), ".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return f.Readdirnames(-1)
}

// mkdirAt makes a directory that belongs to the workspace's owner.
func mkdirAt(top int, name string, id owner.Identity, mode uint32) error {
	if err := unix.Mkdirat(top, name, 0o700); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := unix.Fchownat(top, name, int(id.UID), int(id.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return beneath.ChmodAt(top, name, mode)
}
