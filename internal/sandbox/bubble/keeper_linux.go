package bubble

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cage"
	"palyra/internal/sandbox/cells"
	"palyra/internal/sandbox/refusal"
	"palyra/internal/sandbox/template"
	"palyra/internal/seal"
	"palyra/internal/seal/committed"
	"palyra/internal/stage"
)

// keeper is a room, whose first process waits for its one job.
type keeper struct {
	*cells.Keeper
	b        *Backend
	want     *want
	template *template.Template // that the room was made from; nil: none yet
	release  func()             // gives the template back, once
	room     int                // its number there
	counters cell.Counters      // of its cgroups
	snapshot *seal.Snapshot     // of the sealed paths in it; nil: none are sealed
	call     palyra.CallID      // of the run
	base     *base              // of the run
	commits  *committed.Watch   // state of its repositories; nil: it has none
	stage    *stage.Stage       // holds the run's changes until they are kept; nil: the run writes to the workspace
	layer    *layer             // the stage of an agent, which the room has; nil: it has none
	rule     stage.Weigh        // judges them; nil: they are kept
	held     settling           // settles changes that were held, instead of the stage's; nil: the stage's are
	over     atomic.Value       // the stage's limit that the run exceeded: a string
	patrol   *patrol            // sweeps during the run; nil: it does not
	doors    []*os.File
	view     *os.File    // the workspace as the room of a caged script has it on its stage; nil: it is the workspace
	seen     *cage.Watch // what such a script needs; nil: it is none
	watching cell.Watching
	news     news
	unused   func()  // ends that the call may have items in quarantine; nil: it cannot have any
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

// news is what a template says of a room while its program runs.
type news struct {
	mu   sync.Mutex
	over func(limit string) // ends the run
	last string             // a limit that was passed before there was anybody to end it
	gone chan cell.Usage    // what was seen of the run
}

// hear takes a report of the template.
func (n *news) hear(r cell.Report) {
	if r.Kind == cell.ReportGone {
		n.gone <- r.Usage // it has room for one, and gets one
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last = r.Limit; n.over != nil {
		n.over(r.Limit)
	}
}

// enter has the room made, in the cgroups of the run, and finishes it.
func (k *keeper) enter(ctx context.Context) error {
	k.news.gone = make(chan cell.Usage, 1)
	inner, err := k.b.fleet.OpenRoom(func(c *cells.Keeper, control, _ *os.File) (cells.Body, error) {
		made, err := k.make(ctx, c, control)
		if err != nil {
			return nil, err
		}
		k.room, k.doors = made.Room, made.Doors
		if k.want.cage != nil && len(made.Copies) == 1 {
			k.view = made.Copies[0]
		} else if k.layer != nil {
			k.layer.add(made.Copies)
		}
		return template.NewFirst(made.First, k.release), nil
	})
	if err != nil {
		return err
	}
	k.Keeper = inner
	if err := k.confine(ctx); err != nil {
		return err
	}
	return nil
}

// make tells the template how the room differs from it.
func (k *keeper) make(ctx context.Context, c *cells.Keeper, control *os.File) (made cell.Made, err error) {
	h, err := c.Handles()
	if err != nil {
		return made, refusal.SpawnFailed("the cgroups of the run cannot be opened").WithCause(err)
	}
	k.counters = h.Counters
	k.watching = k.b.watching(c.Cgroups().Memory == "")
	filter, err := k.b.filterOf(k.want, c, k.watching)
	if err != nil {
		return made, err
	}
	r := cell.Room{
		Version: cell.Version, Workspace: k.want.room.Workspace, Private: k.want.room.Private(), Listeners: k.want.doors,
		Hide: k.b.host.shown(k.want.room.UID, k.want.room.GID), ReadOnly: k.fixed(), Watching: k.watching,
		Rlimits: c.RoomRlimits(), Landlock: k.b.landlock(k.want), Filter: filter, Extra: h.Extra,
	}
	if c := k.want.cage; c != nil {
		r.Held, r.Open = true, c.Open()
	}
	files := h.Files
	switch {
	case k.stage != nil:
		r.Stage = inStages(k.stage.Path())
		if k.want.cage != nil {
			r.Copies = 1
		}
		if r.Repository = k.want.room.Repository.Path; r.Repository != "" {
			r.RepositoryStage = inStages(k.stage.BesidePath())
		}
	case k.want.lends:
		r.Stage, r.Copies = inStages(k.layer.stage.Path()), firstCopies
	case k.layer != nil:
		mount, err := k.layer.take(ctx)
		if err != nil {
			return made, err
		}
		defer func() { _ = mount.Close() }()
		r.Extra, r.Copies, files = append(slices.Clone(r.Extra), cell.ExtraWorkspace), nextCopies, append(slices.Clone(files), mount)
	}
	if k.snapshot != nil {
		r.Seals = k.snapshot.Mounts()
	}
	if len(r.Listeners) > 0 {
		r.Range = roomRange
	}
	made, said, err := k.template.Build(ctx, r, control, files, k.news.hear)
	switch {
	case err != nil:
		return made, k.b.templates.WhyNot(ctx, k.want.room, k.template.Hides, err)
	case said.Kind == cell.ReportFailed:
		return made, k.b.explain(said)
	}
	return made, nil
}

// inStages is the path of a stage in a template.
func inStages(stage string) string { return filepath.Join(bwrap.StagesPath, filepath.Base(stage)) }

// errUnconfined means that a room was built and ended, or lost its cgroups, before it was anybody's. Nothing ran in it.
var errUnconfined = errors.New("bubble: the room is gone")

// confine has the first process enter its cgroups and give up what building took.
func (k *keeper) confine(ctx context.Context) error {
	if err := k.Enclose(func() bool { return !k.Body.(*template.First).Ended(0) }); err != nil {
		return refusal.SpawnFailed("the room cannot be put into the cgroups of the run").WithCause(errors.Join(errUnconfined, err))
	}
	ways, err := k.Ways(k.want.room.UID)
	if err != nil {
		return refusal.SpawnFailed("the cgroups of the run cannot be opened for its room").WithCause(err)
	}
	defer cells.CloseWays(ways)
	if err := k.Conn.Send(cell.Order{Kind: cell.OrderConfine}, ways...); err != nil {
		return refusal.SpawnFailed("the first process of the room is gone").WithCause(err)
	}
	said, err := k.Next(ctx)
	switch {
	case err != nil:
		return k.b.templates.WhyNot(ctx, k.want.room, k.template.Hides, err)
	case said.Kind == cell.ReportFailed:
		return k.b.explain(said.Report)
	case said.Kind != cell.ReportReady || said.Version != cell.Version:
		return refusal.Unavailable("palyra-cell speaks another version").WithRemedy(refusal.CellRemedy)
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

// fresh makes sure that a warm room still fits its job.
func (k *keeper) fresh(ctx context.Context) error {
	if k.Dead() {
		k.b.fleet.Log.Warn("an idle room ended", "pid", k.Body.Pid())
		return errAgain
	}
	if !k.template.Fresh(k.want.room) {
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

// cover lays the run's own files over paths of its room, and the copy of a sealed program.
func (k *keeper) cover(ctx context.Context, j sandbox.Job) error {
	for _, c := range j.Covers {
		said, err := k.template.CoverData(ctx, k.room, c.Path, c.Below, c.File)
		if err == nil && said.Kind == cell.ReportFailed {
			err = refusal.Cause(said)
		}
		if err != nil {
			return refusal.SpawnFailed("%s cannot be covered in the room", bwrap.Show(c.Path)).
				WithRemedy("try again when nobody moves or removes it").WithCause(err)
		}
	}
	if j.Sealed == nil {
		return nil
	}
	said, err := k.template.Cover(ctx, k.room, j.Path, j.Sealed)
	switch {
	case err != nil:
		return refusal.SpawnFailed("the copy of the program cannot be put in its place").WithCause(err)
	case said.Kind == cell.ReportFailed:
		return k.b.explain(said)
	}
	return nil
}

// watchAfter is how long a program runs before its template begins to look after it. Most end sooner, and the template
// would take the processor from them. Its first look comes with the order, and others follow as often as they are to.
const watchAfter = 10 * time.Millisecond

// follow has the run held to the limits that the kernel does not hold by itself.
func (k *keeper) follow(w cell.Watch, p *cells.Process) {
	k.news.mu.Lock()
	k.news.over = p.Exceed
	if k.news.last != "" {
		p.Exceed(k.news.last)
	}
	k.news.mu.Unlock()
	later := time.AfterFunc(watchAfter, func() {
		select {
		case <-p.Done():
			return
		default:
		}
		if err := k.template.Watch(k.room, w); err != nil {
			p.Stop("unwatched", 0) // the template is gone, and the room with it
		}
	})
	k.b.fleet.Go(func() {
		<-p.Done()
		later.Stop()
	})
}

// account completes the last report of the run: by its cgroups, or else by what was seen of it.
func (k *keeper) account(r *cell.Report) {
	k.Account(r)
	if k.Group != nil {
		return
	}
	late := time.NewTimer(goneWithin)
	defer late.Stop()
	select {
	case seen := <-k.news.gone:
		r.Usage.CPUMS, r.Usage.PeakMemory = max(r.Usage.CPUMS, seen.CPUMS), max(r.Usage.PeakMemory, seen.PeakMemory)
		r.Usage.Processes = max(r.Usage.Processes, seen.Processes)
	case <-late.C:
	}
}

// goneWithin is how long the end of a run waits for what its template saw of it.
const goneWithin = 100 * time.Millisecond

// discard ends a keeper without a program.
func (k *keeper) discard() {
	cell.CloseAll(k.doors)
	k.doors = nil
	k.unseen()
	k.forget()
	if k.Keeper != nil {
		k.Discard()
	} else if k.template != nil {
		k.release() // there is no room that would
	}
	k.unstage()
}
