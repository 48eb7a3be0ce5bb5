package bubble

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/foreignfile"
	"palyra/internal/gitlink"
	"palyra/internal/owner"
	"palyra/internal/preimage"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cells"
	"palyra/internal/stage"
)

// staging is the part of a backend that deals with stages.
type staging struct {
	all  *stage.Stages
	past *preimage.Store // what runs replaced; nil: it is not kept
	no   string          // why there are none
	far  *foreignfile.Scans

	mu    sync.Mutex
	tried map[bool]string // by whether root's: why a room with a stage could not be built; "": it was
}

func (s *staging) open(b *Backend) {
	s.tried, s.far = map[bool]string{}, foreignfile.New(b.fleet.Go)
	if b.config.Stages == "" {
		s.no = "not configured"
		return
	}
	limits := stage.Limits{Entries: b.config.StageNames, Bytes: b.config.StageBytes, All: b.config.AllStages}
	var err error
	if s.all, err = stage.Open(b.config.Stages, limits, b.fleet.Log); err != nil {
		s.no = "no place for stages"
		b.fleet.Log.Warn("runs write to their workspaces directly: there is no place for stages", "err", err)
		return
	}
	s.all.Admit, b.Stages = b.admit, s.all
	if b.config.Undo == "" {
		return
	}
	if s.past, err = preimage.Open(b.config.Undo); err != nil {
		s.past = nil
		b.fleet.Log.Error("replaced files of runs cannot be put back: there is no place for them", "err", err)
		return
	}
	s.all.Remember(s.past)
}

func (s *staging) close() error {
	if s.all == nil {
		return nil
	}
	err := s.all.Close()
	if s.past != nil {
		err = errors.Join(err, s.past.Close())
	}
	return err
}

// recoverStages finishes and removes the stages that an earlier daemon left.
func (b *Backend) recoverStages(ctx context.Context) error {
	if b.stages.all == nil {
		return nil
	}
	if p := b.stages.past; p != nil {
		if err := p.Recover(ctx); err != nil {
			b.fleet.Log.Warn("leftovers of kept runs lie with the files that they replaced", "err", err)
		}
	}
	b.Past()
	return b.stages.all.Recover(ctx)
}

// Stageable implements sandbox.Staging. Whether the kernel can is tried once, by building a room.
func (b *Backend) Stageable(ctx context.Context, workspace string, uid, gid int64) string {
	s := &b.stages
	if b.no != nil {
		return "tier C cannot be used"
	}
	if s.all == nil {
		return s.no
	}
	if why := b.unstageable(workspace, uid, gid); why != "" {
		return why
	}
	if s.far.Has(workspace, uid, gid) {
		return foreignOwner
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	why, known := s.tried[uid == 0]
	if !known {
		if why = b.tryStage(ctx, uid, gid); ctx.Err() == nil {
			s.tried[uid == 0] = why
		}
	}
	return why
}

// unstageable returns what makes a workspace unfit for an overlay.
func (b *Backend) unstageable(workspace string, uid, gid int64) string {
	var st, place unix.Stat_t
	if unix.Lstat(workspace, &st) != nil || unix.Lstat(b.config.Stages, &place) != nil {
		return "not there"
	}
	if int64(st.Uid) != uid || int64(st.Gid) != gid {
		return "the workspace is of another owner or group"
	}
	var fs unix.Statfs_t
	if unix.Statfs(workspace, &fs) != nil || !clocked(fs.Type) {
		return "its file system"
	}
	if mounted, err := b.templates.Below(workspace); err != nil || len(mounted) > 0 {
		return "file systems are mounted in it"
	}
	for _, dir := range []string{workspace, filepath.Join(workspace, ".git")} {
		if foreign(dir, uid, gid) {
			return foreignOwner
		}
	}
	return ""
}

const foreignOwner = "files of another owner or group are in it"

// mostLooked is how many names of a directory are checked for their owners before every run.
const mostLooked = 512

// foreign reports whether an entry of a directory has another owner or group: on a layer it could
// not be changed. Deeper ones are not looked for every time.
func foreign(dir string, uid, gid int64) bool {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(mostLooked)
	for _, n := range names {
		var st unix.Stat_t
		if unix.Fstatat(int(f.Fd()), n, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && (int64(st.Uid) != uid || int64(st.Gid) != gid) {
			return true
		}
	}
	return false
}

// clocked reports whether a file system takes its times from the kernel's own clock, by which
// changes of others are noticed, and can be the lower layer of an overlay.
func clocked(kind int64) bool {
	switch kind {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC:
		return true
	}
	return false
}

// tryStage builds a room with a stage, over an empty directory.
func (b *Backend) tryStage(ctx context.Context, uid, gid int64) string {
	dir, err := os.MkdirTemp(b.config.Stages, "try-")
	if err != nil {
		return "no place for stages"
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if b.fleet.UID == 0 {
		err = os.Chown(dir, int(uid), int(gid))
	}
	if err == nil {
		w := b.want(sandbox.Job{Workspace: dir, UID: uid, GID: gid, Staged: true})
		var k *keeper
		if k, err = b.build(ctx, w); err == nil {
			k.discard()
			return ""
		}
	}
	b.fleet.Log.Warn("runs write to their workspaces directly: no stage can be mounted",
		"uid", uid, "err", err, "cause", palyra.AsError(err).Cause)
	return "overlay cannot be mounted"
}

// makeStage makes a stage.
func (k *keeper) makeStage() error {
	if !k.want.stage && k.want.layer == "" {
		return nil
	}
	all := k.b.stages.all
	switch {
	case all == nil:
		return unstaged(errors.New(k.b.stages.no))
	case k.want.lends:
		return k.lend()
	case k.want.layer != "":
		return k.share()
	}
	var err error
	if k.stage, err = all.Make(k.want.room.Workspace, k.owner()); err != nil {
		return unstaged(err)
	}
	repository := k.want.room.Repository
	if repository.Path == "" {
		return nil
	}
	may := func(path string) bool { return gitlink.Writes(repository.Dir, path) }
	lasts := func(path string) bool { return gitlink.Lasts(repository.Dir, path) }
	if err = k.stage.Beside(repository.Path, may, lasts); err != nil {
		k.unstage()
		return unstaged(err)
	}
	return nil
}

// fixed lists the paths of the repository that a room with a stage over it shows read-only, beside those of the room's
// own. What of them is not there and is made all the same is not kept.
func (k *keeper) fixed() []string {
	paths, repository := bwrap.ReadOnlyProc(), k.want.room.Repository
	if k.want.cage != nil && repository.Path != "" { // which no cage names
		return append(paths, repository.Path)
	}
	if k.stage == nil || repository.Path == "" {
		return paths
	}
	for _, p := range gitlink.Fixed(repository.Dir) {
		p = filepath.Join(repository.Path, p)
		var st unix.Stat_t
		if unix.Lstat(p, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK {
			paths = append(paths, p)
		}
	}
	return paths
}

func (k *keeper) owner() owner.Identity {
	return owner.Identity{UID: k.want.room.UID, GID: k.want.room.GID}
}

// place puts the files onto the stage that the run must find on it.
func (k *keeper) place(ctx context.Context) error {
	if k.stage == nil {
		return nil
	}
	err := k.stage.Place(ctx, k.want.bound)
	if err == nil {
		return nil
	}
	if changed := (*stage.ChangedError)(nil); errors.As(err, &changed) {
		return palyra.PlanChanged(bwrap.Show(changed.Path)).WithCause(err)
	}
	return unstaged(err)
}

// measured is the stage that the run's limits are about. That of an agent is measured for the agent.
func (k *keeper) measured() *stage.Stage {
	if k.want.lends && k.layer != nil {
		return k.layer.stage
	}
	return k.stage
}

// charge counts the stage in the share of who pays for the run.
func (k *keeper) charge(payer string) error {
	g := k.measured()
	if g == nil {
		return nil
	}
	if err := g.Charge(payer); err != nil {
		return sandbox.StagesFull().WithCause(err)
	}
	return nil
}

func (k *keeper) unstage() {
	if k.stage != nil {
		k.stage.Drop()
		k.stage = nil
	}
}

// dropWithin is how long the end of a run waits for its stage to be removed.
const dropWithin = 2 * time.Second

// dropAfter is how long a stage that nothing was changed on stays. Until then its template takes the room's mounts down:
// whoever removes directories of an overlay meanwhile turns in circles with it.
const dropAfter = 20 * time.Millisecond

// unstageSoon is unstage for a run whose end is waited for: another run, which is alive, may be
// using the directories that are removed. A stage that nothing was changed on is not waited for.
func (k *keeper) unstageSoon(e *stage.Settled) {
	g, done := k.stage, make(chan struct{})
	k.stage = nil
	blank := len(e.Changes) == 0 && e.Kept == 0 && e.Lost == ""
	k.b.fleet.Go(func() {
		if blank {
			cells.Pause(dropAfter, nil)
		}
		g.Drop()
		close(done)
		k.b.stages.all.Prepare(k.owner())
	})
	if blank {
		return
	}
	late := time.NewTimer(dropWithin)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// unstaged is the refusal of a run whose plan says that it is staged, where that is not possible.
func unstaged(err error) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonSpawnFailed,
		"the writes of the run cannot be kept apart from the workspace, as its plan says").
		WithRemedy("see the daemon's log, and propose the call anew: it is then judged by what holds now").WithCause(err)
}

// notStaged explains a cell that could not mount the stage. Plans of later runs say that they write
// to their workspaces directly.
func (b *Backend) notStaged(r cell.Report, cause error) error {
	if r.Errno == int(unix.ENODEV) || r.Errno == int(unix.EPERM) || r.Errno == int(unix.EINVAL) {
		b.fleet.Log.Warn("a stage could not be mounted", "err", cause)
	}
	return unstaged(cause)
}

// stageShare is the largest part of a run's time that goes into measuring its stage, and stageEvery
// the shortest time between two measurements.
const (
	stageShare = 20
	stageEvery = 500 * time.Millisecond
)

// boundStage ends a run whose stage exceeds the limits.
func (k *keeper) boundStage(p *cells.Process) {
	g := k.measured() // the keeper drops it when the run has ended
	if g == nil {
		return
	}
	go func() {
		for pause := stageEvery; ; {
			select {
			case <-p.Done():
				return
			case <-time.After(pause):
			}
			begun := time.Now()
			err := g.Over()
			if over := (*stage.LimitError)(nil); errors.As(err, &over) {
				k.over.Store(over.Limit())
				p.Stop(over.Limit(), 0)
				return
			}
			pause = max(stageEvery, stageShare*time.Since(begun))
		}
	}()
}

// nameStage sets the call of the stage: under its name the changes are held, and the replaced files kept.
func (k *keeper) nameStage() {
	err := k.stage.Assign(string(k.call))
	if past := k.b.stages.past; err == nil && past != nil {
		err = k.stage.Remember(past, string(k.call))
	}
	if err != nil {
		k.b.fleet.Log.Warn("the changes of a run can neither be held nor put back", "call", k.call, "err", err)
	}
}
