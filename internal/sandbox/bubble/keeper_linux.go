package bubble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cells"
	"palyra/internal/seal"
	"palyra/internal/seal/committed"
	"palyra/internal/stage"
)

// keeper is a cell in a room, which waits for its one job once the room is finished.
type keeper struct {
	*cells.Keeper
	b        *Backend
	want     *want
	body     *body
	counters cell.Counters    // of its cgroups
	shows    []identity       // the files that the room showed when it was built
	hides    []string         // hidden paths of the system
	snapshot *seal.Snapshot   // of the sealed paths in it; nil: none are sealed
	call     palyra.CallID    // of the run
	base     *base            // of the run
	commits  *committed.Watch // state of its repositories; nil: it has none
	stage    *stage.Stage     // holds the run's changes until they are kept; nil: the run writes to the workspace
	layer    *layer           // the stage of an agent, which the room has; nil: it has none
	rule     stage.Weigh      // judges them; nil: they are kept
	held     settling         // settles changes that were held, instead of the stage's; nil: the stage's are
	over     atomic.Value     // the stage's limit that the run exceeded: a string
	patrol   *patrol          // sweeps during the run; nil: it does not
	copies   int              // mounts of the workspace that the cell hands over
	doors    []*os.File
	watching cell.Watching
	unused   func()  // ends that the call may have items in quarantine; nil: it cannot have any
	building bool    // the cell has not reported that the room is built
	record   *record // holds the snapshot; nil: none
	since    time.Time
	bytes    int64 // memory while it waits, roughly
}

// roomRange are the addresses that lead to the room's own network.
const roomRange = "198.18.0.0/15"

// triesToBuild is how often a room is begun anew because its workspace changed meanwhile.
const triesToBuild = 3

func (k *keeper) scan(ctx context.Context) (err error) {
	if len(k.want.seals) > 0 {
		outside := k.want.room.Repository
		k.snapshot, err = k.b.looks.scan(ctx, k.want.place+"\x00"+outside.Path+"\x00"+outside.Dir, k.want.room.Workspace, k.want.seals,
			seal.Limits{Closed: k.b.config.closed(), Kept: k.b.config.kept(), Repository: outside})
	}
	return err
}

// enter starts bubblewrap.
func (k *keeper) enter() error {
	w, no := k.b.current()
	if no != nil {
		return no
	}
	k.hides = w.Places.Hidden()
	inner, err := k.b.fleet.Open(func(c *cells.Keeper, control, logs *os.File) (cells.Body, error) {
		body, err := k.start(w, c, control, logs)
		if err != nil {
			return nil, err
		}
		return body, nil
	})
	if err != nil {
		return err
	}
	k.Keeper, k.body = inner, inner.Body.(*body)
	return nil
}

// start runs bubblewrap as the workspace's owner, in the cgroups of the run.
func (k *keeper) start(w *bwrap.Program, c *cells.Keeper, control, logs *os.File) (*body, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("bubble: start: %w", err)
	}
	defer func() { _ = null.Close() }()
	info, err := newInfo()
	if err != nil {
		return nil, fmt.Errorf("bubble: start: %w", err)
	}
	attr := bwrap.Attr(k.want.room.UID, k.want.room.GID)
	attr.Setsid = true
	start, err := w.Command(k.room(), c.Fleet.Image, control, info, markText(c.Mark))
	if err == nil {
		defer start.Close()
		var p *os.Process
		if p, err = c.StartProcess(start.Path, start.Argv, &os.ProcAttr{
			Dir: "/", Env: start.Env, Files: append([]*os.File{null, logs, logs}, start.Files...), Sys: attr,
		}); err == nil {
			return &body{bwrap: p, info: info, mark: c.Mark}, nil
		}
		err = cells.SpawnFailed("bubblewrap cannot be started").WithCause(fmt.Errorf("bubble: start: %w", err))
	}
	_ = info.Close()
	return nil, err
}

// markText is the form of a mark on a cell's command line.
func markText(m uint64) string { return fmt.Sprintf("%016x", m) }

// furnish tells the cell how to finish the room.
func (k *keeper) furnish(ctx context.Context) error {
	h, err := k.Handles()
	if err != nil {
		return cells.SpawnFailed("the cgroups of the run cannot be opened").WithCause(err)
	}
	defer h.Close()
	k.counters = h.Counters
	k.watching = k.b.watching(k.Cgroups().Memory == "")
	r := cell.Room{
		Version: cell.Version, Workspace: k.want.room.Workspace, Private: k.want.room.Private(), Listeners: k.want.doors,
		Hide: shown(k.want.room.UID, k.want.room.GID), Hostname: bwrap.Hostname,
		ReadOnly: k.fixed(), Watching: k.watching, Filter: k.b.filter, Extra: h.Extra,
	}
	files := h.Files
	switch {
	case k.stage != nil:
		r.Stage = bwrap.StagePath
		if r.Repository = k.want.room.Repository.Path; r.Repository != "" {
			r.RepositoryStage = bwrap.RepositoryStagePath
		}
	case k.want.lends:
		r.Stage, r.Copies = bwrap.StagePath, firstCopies
	case k.layer != nil:
		mount, err := k.layer.take(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = mount.Close() }()
		r.Extra, r.Copies, files = append(slices.Clone(r.Extra), cell.ExtraWorkspace), nextCopies, append(slices.Clone(files), mount)
	}
	k.copies = r.Copies
	if k.snapshot != nil {
		r.Seals = k.snapshot.Mounts()
	}
	if len(r.Listeners) > 0 {
		r.Range = roomRange
	}
	f, err := cell.WriteRoom(r)
	if err != nil {
		return cells.SpawnFailed("the room cannot be written down").WithCause(err)
	}
	fds := []int{int(f.Fd())}
	for _, x := range files {
		fds = append(fds, int(x.Fd()))
	}
	err = k.Conn.Send(cell.Order{Kind: cell.OrderBuild}, fds...)
	_ = f.Close()
	if err != nil {
		return k.whyNot(ctx, err)
	}
	return nil
}

// shown returns the hidden paths of /proc that exist and could be read: the kernel keeps the rest
// from everybody but root, and each cover costs time.
func shown(uid, gid int64) []string {
	return slices.DeleteFunc(bwrap.HiddenProc(), func(path string) bool {
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil {
			return true
		}
		return uid != 0 && st.Uid == 0 && st.Mode&0o007 == 0 && (st.Mode&0o070 == 0 || int64(st.Gid) != gid)
	})
}

// built waits until the room is built.
func (k *keeper) built(ctx context.Context) error {
	said, err := k.Next(ctx)
	if err != nil {
		return k.whyNot(ctx, err)
	}
	if said.Kind == cell.ReportFailed {
		cell.CloseAll(said.Files)
		return k.b.explain(said.Report)
	}
	if err := k.arrived(said); err != nil {
		return err
	}
	k.building = false
	if err := k.body.findProcess(); err != nil {
		return cells.SpawnFailed("who the first process of the room is cannot be told").WithCause(err)
	}
	return nil
}

// arrived handles the cell's report of a finished room.
func (k *keeper) arrived(said cells.Said) error {
	if said.Kind != cell.ReportBuilt || said.Version != cell.Version || len(said.Files) != len(k.want.doors)+k.copies {
		cell.CloseAll(said.Files)
		return cells.Unavailable("palyra-cell speaks another version").WithRemedy(cells.CellRemedy)
	}
	k.doors = said.Files[:len(k.want.doors):len(k.want.doors)]
	if k.layer != nil {
		k.layer.add(said.Files[len(k.want.doors):])
	}
	return nil
}

// occupied is arrived for a room whose job was ordered ahead. When its report is read the job may
// be done and process 1 gone; the body looks for that again when it has to.
func (k *keeper) occupied(said cells.Said) error {
	_ = k.body.findProcess()
	return k.arrived(said)
}

// whyNot finds out why a room was not built: bubblewrap gives the reason only in the log.
func (k *keeper) whyNot(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return notBegun(ctx)
	}
	w, no := k.b.current()
	if no == nil && w.Places.Again(k.hides) { // bubblewrap cannot cover a path that is gone
		return cells.SpawnFailed("/opt or /usr/local changed while the room was built").
			WithRemedy("try again when nobody changes them").WithCause(errors.Join(errChanged, err))
	}
	if no == nil {
		no = w.Try(ctx, k.want.room.UID, k.want.room.GID)
	}
	if no != nil {
		return no
	}
	if palyra.AsError(err).Reason != palyra.ReasonSpawnFailed {
		err = cells.SpawnFailed("the room could not be built").WithCause(err)
	}
	return err
}

// notBegun is the refusal of a call that was given up.
func notBegun(ctx context.Context) error {
	return cells.SpawnFailed("the call ended before the program was started").WithCause(ctx.Err())
}

// fresh makes sure that a warm cell still fits its job.
func (k *keeper) fresh(ctx context.Context) error {
	if k.Dead() {
		k.b.fleet.Log.Warn("an idle cell ended", "pid", k.body.Pid())
		return errAgain
	}
	if !slices.Equal(k.shows, k.want.identities()) {
		return errAgain
	}
	if w, no := k.b.current(); no != nil || !slices.Equal(k.hides, w.Places.Hidden()) {
		return errAgain
	}
	if k.stage != nil && (k.stage.Begin() != nil || !k.stage.Fresh()) {
		return errAgain
	}
	if k.snapshot == nil {
		return nil
	}
	stale, err := k.snapshot.Stale(ctx)
	if stale || err != nil { // a scan reports the fault
		return errAgain
	}
	return nil
}

// handDoors gives the sockets of the room's doors to their servers.
func (k *keeper) handDoors(j sandbox.Job) error {
	doors := k.doors
	k.doors = nil
	if len(doors) == 0 {
		return nil
	}
	return j.Open(doors)
}

// discard ends a keeper without a program.
func (k *keeper) discard() {
	cell.CloseAll(k.doors)
	k.doors = nil
	k.forget()
	if k.Keeper != nil {
		k.Discard()
	}
	k.unstage()
}

// Harmless implements cells.Ender: the filter on process 1 allows it to make neither files nor
// processes, and bubblewrap only waits for it.
func (b *body) Harmless() []int {
	if pid := b.first(); pid != 0 {
		return []int{pid, b.Pid()}
	}
	return nil
}

// Ended implements cells.Ender: with process 1 the kernel ends everything in the room, and that
// process is not gone before all the others are.
func (b *body) Ended(within time.Duration) bool {
	b.mu.Lock()
	fd, err := -1, error(nil)
	switch {
	case b.gone:
		b.mu.Unlock()
		return b.pid != 0
	case b.pid != 0:
		fd, err = unix.FcntlInt(uintptr(b.fd), unix.F_DUPFD_CLOEXEC, 0) // Wait closes the other one
	}
	b.mu.Unlock()
	if fd < 0 || err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	for end := time.Now().Add(within); ; {
		left := time.Until(end)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, max(0, int(left.Milliseconds())))
		if err == nil || !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}
