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
	"palyra/internal/owner"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cells"
	"palyra/internal/stage"
)

// staging is what a backend knows about stages.
type staging struct {
	all *stage.Stages
	no  string // why there are none

	mu    sync.Mutex
	tried map[bool]string // by whether root's: why a room with one could not be built; nothing: it was
}

func (s *staging) open(b *Backend) {
	s.tried = map[bool]string{}
	if b.config.Stages == "" {
		s.no = "not configured"
		return
	}
	var err error
	if s.all, err = stage.Open(b.config.Stages, stage.Limits{Entries: b.config.StageNames, Bytes: b.config.StageBytes}, b.fleet.Log); err != nil {
		s.no = "no place for stages"
		b.fleet.Log.Warn("runs write to their workspaces directly: there is no place for stages", "err", err)
	}
}

func (s *staging) close() error {
	if s.all == nil {
		return nil
	}
	return s.all.Close()
}

// recoverStages finishes and removes what an earlier daemon left.
func (b *Backend) recoverStages(ctx context.Context) error {
	if b.stages.all == nil {
		return nil
	}
	return b.stages.all.Recover(ctx)
}

// Stageable implements sandbox.Staging. That the kernel can is tried once, by
// building a room.
func (b *Backend) Stageable(ctx context.Context, workspace string, uid, gid int64) string {
	s := &b.stages
	if b.no != nil || s.all == nil {
		return s.no
	}
	if why := unstageable(b.config.Stages, workspace, uid, gid); why != "" {
		return why
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

// unstageable says what of a workspace an overlay cannot stand.
func unstageable(stages, workspace string, uid, gid int64) string {
	var st, place unix.Stat_t
	if unix.Lstat(workspace, &st) != nil || unix.Lstat(stages, &place) != nil {
		return "not there"
	}
	if int64(st.Uid) != uid || int64(st.Gid) != gid {
		return "the workspace is of another owner or group"
	}
	var fs unix.Statfs_t
	if unix.Statfs(workspace, &fs) != nil || !clocked(fs.Type) {
		return "its file system"
	}
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || len(bwrap.MountsBelow(string(info), workspace)) > 0 {
		return "file systems are mounted in it"
	}
	return ""
}

// clocked file systems take their times from the kernel's own clock, by which
// changes of others are told, and can be the lower layer of an overlay.
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
	b.fleet.Log.Warn("runs write to their workspaces directly: no stage can be mounted", "uid", uid, "err", err, "cause", palyra.AsError(err).Cause)
	return "overlay cannot be mounted"
}

// room is what bubblewrap is to build for the keeper.
func (k *keeper) room() bwrap.Room {
	r := k.want.room
	if k.stage != nil {
		r.Stage = k.stage.Path()
	}
	return r
}

// makeStage makes a stage with what the run must find on it.
func (k *keeper) makeStage(ctx context.Context) error {
	if !k.want.stage {
		return nil
	}
	all := k.b.stages.all
	if all == nil {
		return unstaged(errors.New(k.b.stages.no))
	}
	var err error
	if k.stage, err = all.Make(k.want.room.Workspace, owner.Identity{UID: k.want.room.UID, GID: k.want.room.GID}); err != nil {
		return unstaged(err)
	}
	if err = k.stage.Place(ctx, k.want.bound); err == nil {
		return nil
	}
	k.unstage()
	if changed := (*stage.ChangedError)(nil); errors.As(err, &changed) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "changed since the plan was judged: %s", bwrap.Show(changed.Path)).
			WithRemedy("look at what changed and propose the call anew").WithCause(err)
	}
	return unstaged(err)
}

func (k *keeper) unstage() {
	if k.stage != nil {
		k.stage.Drop()
		k.stage = nil
	}
}

// dropWithin is how long the end of a run waits for its stage to be removed.
const dropWithin = 2 * time.Second

// unstageSoon is unstage for a run whose end is waited for: another one, which lives, may have its
// hands in what is removed.
func (k *keeper) unstageSoon() {
	g, done := k.stage, make(chan struct{})
	k.stage = nil
	k.b.fleet.Go(func() {
		defer close(done)
		g.Drop()
	})
	late := time.NewTimer(dropWithin)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// unstaged is the refusal of a run whose plan says that its writes are kept
// apart, where they cannot be.
func unstaged(err error) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonSpawnFailed, "what the run writes cannot be kept apart from the workspace, as its plan says").
		WithRemedy("see the daemon's log, and propose the call anew: it is then judged by what holds now").WithCause(err)
}

// notStaged explains a cell that could not mount the stage. Plans of the next runs say
// that they write to their workspaces directly.
func (b *Backend) notStaged(r cell.Report, cause error) error {
	if r.Errno == int(unix.ENODEV) || r.Errno == int(unix.EPERM) || r.Errno == int(unix.EINVAL) {
		b.fleet.Log.Warn("a stage could not be mounted", "err", cause)
	}
	return unstaged(cause)
}

// stageShare is which part of the time of a run at most goes into looking at how much
// it has on its stage, and stageEvery how often that is done at most.
const (
	stageShare = 20
	stageEvery = 500 * time.Millisecond
)

// boundStage ends a run that has more on its stage than is kept.
func (k *keeper) boundStage(p *cells.Process) {
	g := k.stage // the keeper lets go of it when the run has ended
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
				k.over.Store("stage_" + over.Of)
				p.Stop("stage_"+over.Of, 0)
				return
			}
			pause = max(stageEvery, stageShare*time.Since(begun))
		}
	}()
}

// keepStage makes the changes of a run the workspace's. What it could not keep, and
// why, is in the exit; an error says that it is not known what is kept. What is sealed and
// new was taken to the quarantine instead.
func (k *keeper) keepStage(x *sandbox.Exit, ran bool) (taken []string, err error) {
	if k.stage == nil {
		return nil, nil
	}
	defer k.unstageSoon()
	if !ran {
		return nil, nil
	}
	if k.base != nil && k.snapshot != nil {
		k.base.sweeping.Lock() // of what the two have in common
		fresh, err := k.snapshot.Fresh(k.b.config.Quarantine, k.call)
		k.base.sweeping.Unlock()
		if err != nil {
			return nil, err
		}
		defer func() {
			taken = fresh.Made()
			fresh.Close()
		}()
		k.stage.Guard(fresh)
	}
	if limit, over := k.over.Load().(string); over {
		x.Limit = limit
	}
	x.Effects, err = k.stage.Keep(context.Background(), k.firm()) // its time is its own, once it is its turn
	if len(x.Effects.Refused) > 0 {
		k.b.fleet.Log.Warn("changes of a run were not kept", "workspace", k.want.room.Workspace, "call", k.call, "paths", x.Effects.Refused)
	}
	if err == nil {
		k.setAside(x)
		return nil, nil
	}
	k.b.fleet.Log.Error("the changes of a run could not be kept", "workspace", k.want.room.Workspace, "call", k.call, "err", err)
	x.Effects.Lost = lostWhy(err)
	return nil, nil
}

// mostLost is how many files that were not set aside are named.
const mostLost = 16

// setAside keeps a run's files that somebody else's changes kept out of the workspace.
func (k *keeper) setAside(x *sandbox.Exit) {
	if len(x.Effects.Conflicts) == 0 && x.Effects.Lost == "" {
		return
	}
	n, lost, err := k.stage.SetAside(k.b.config.Quarantine, string(k.call), k.b.config.kept())
	x.Effects.Aside = n
	for _, i := range lost[:min(len(lost), mostLost)] {
		x.Remnants = append(x.Remnants, palyra.Remnant{Kind: palyra.RemnantNotKept, Path: i.Loss()})
	}
	if more := len(lost) - mostLost; more > 0 {
		x.Remnants[len(x.Remnants)-1].More = int64(more)
	}
	x.Remnants = append(x.Remnants, k.b.trim(k.call)...)
	if err != nil {
		k.b.fleet.Log.Error("what a run changed and was not kept could not be set aside whole", "call", k.call, "err", err)
	}
}

// lostWhy is why nothing was kept, for people.
func lostWhy(err error) string {
	if over := (*stage.LimitError)(nil); errors.As(err, &over) {
		return "the run left more than is kept: " + over.What
	}
	return "they could not be read or put into the workspace"
}

// firm is what of the workspace stays, whatever a run did to it: what the room held
// in place by mounts.
func (k *keeper) firm() stage.Names {
	if k.snapshot == nil {
		return nil
	}
	held := map[string]bool{}
	for _, m := range k.snapshot.Mounts() {
		held[filepath.Clean(m.Path)] = m.ReadOnly
	}
	return func(path string) (sealed, kept bool) {
		readOnly, is := held[path]
		return is && readOnly, is && !readOnly
	}
}
