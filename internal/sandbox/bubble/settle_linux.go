package bubble

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/template"
	"palyra/internal/seal"
	"palyra/internal/stage"
)

// settling is how the changes of a run become the workspace's: those of one that has just ended, or held ones.
// Sealed paths that are new go to q instead; nil: there are none.
type settling func(q stage.Quarantine) (stage.Settled, error)

// keepStage settles the changes of a run. The exit has what was not kept, and why; an error
// means that it is not known what was kept. New sealed paths go to the quarantine instead.
func (k *keeper) keepStage(x *sandbox.Exit, ran bool) (taken []string, err error) {
	if k.stage == nil && k.held == nil {
		return nil, nil
	}
	if k.stage != nil {
		defer func() { k.unstageSoon(&x.Effects) }()
	}
	if !ran {
		return nil, nil
	}
	var q stage.Quarantine
	if k.base != nil && k.snapshot != nil {
		fresh, err := k.fresher()
		if err != nil {
			return nil, err
		}
		defer func() {
			taken = fresh.Made()
			fresh.Close()
		}()
		q = fresh
	}
	if limit, over := k.over.Load().(string); over {
		x.Limit = limit
	}
	settle := k.held
	if settle == nil {
		settle = k.keepNow(x)
	}
	x.Effects, err = settle(q)
	if len(x.Effects.Refused) > 0 {
		k.b.fleet.Log.Warn("changes of a run were not kept", "workspace", k.want.room.Workspace, "call", k.call, "paths", x.Effects.Refused)
	}
	if err == nil || nothingDone(err) {
		return nil, err
	}
	k.b.fleet.Log.Error("the changes of a run could not be kept", "workspace", k.want.room.Workspace, "call", k.call, "err", err)
	if over := (*stage.LimitError)(nil); errors.As(err, &over) && over.Of != stage.OfAll {
		x.Effects.Lost, x.Effects.Over = over.What, over.Limit()
	}
	x.Effects.Lost = cmp.Or(x.Effects.Lost, lostWhy(err))
	return nil, nil
}

// fresher quarantines what a stage has that is new and sealed.
func (k *keeper) fresher() (*seal.Fresh, error) {
	k.base.sweeping.Lock() // because of the paths that both have in common
	defer k.base.sweeping.Unlock()
	return k.snapshot.Fresh(k.b.config.Quarantine, k.call)
}

// keepNow settles the changes of a run that has just ended.
func (k *keeper) keepNow(x *sandbox.Exit) settling {
	return func(q stage.Quarantine) (stage.Settled, error) {
		if q != nil {
			k.stage.Guard(q)
		}
		k.nameStage()
		out, err := k.stage.Keep(context.Background(), k.firm(), k.rule) // it has its own time limit, once it is its turn
		if fullDisk(err) {
			out.Lost = lostWhy(err)
		}
		if (err == nil || out.Lost != "") && !k.stage.Unfinished() {
			x.Remnants = append(x.Remnants, k.b.setAside(k.stage, k.call, &out)...)
		}
		return out, err
	}
}

// mostLost is how many lost files are named.
const mostLost = 16

// setAside keeps those files of a run that changes of others kept out of the workspace. It returns
// the ones that are lost all the same.
func (b *Backend) setAside(g *stage.Stage, call palyra.CallID, e *stage.Settled) (remnants []palyra.Remnant) {
	if len(e.Conflicts) == 0 && e.Lost == "" {
		return nil
	}
	n, lost, err := g.SetAside(b.config.Quarantine, string(call), b.config.kept())
	e.Aside = n
	for _, i := range lost[:min(len(lost), mostLost)] {
		remnants = append(remnants, palyra.Remnant{Kind: palyra.RemnantNotKept, Path: i.Loss()})
	}
	if more := len(lost) - mostLost; more > 0 {
		remnants[len(remnants)-1].More = int64(more)
	}
	if err != nil {
		b.fleet.Log.Error("the changes of a run that were not kept could not be set aside whole", "call", call, "err", err)
	}
	return append(remnants, b.trim(call)...)
}

// Settle implements sandbox.Staging: held changes that are kept come into the workspace as those of a run that has just
// ended do, and what is looked for at its end is looked for again.
func (b *Backend) Settle(ctx context.Context, run sandbox.HeldRun, ruling stage.Ruling) (x sandbox.Exit, err error) {
	if b.stages.all == nil {
		return x, palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable,
			"the place where runs' changes wait cannot be opened: %s", b.stages.no).
			WithRemedy("see the daemon's log, and start it again: the changes are where they were")
	}
	settle := func(q stage.Quarantine) (stage.Settled, error) {
		out, err := b.stages.all.Settle(ctx, string(run.Call), ruling, q, func(g *stage.Stage, e *stage.Settled) {
			x.Remnants = append(x.Remnants, b.setAside(g, run.Call, e)...)
		})
		switch {
		case fullDisk(err):
			err = noSpace(err)
		case errors.Is(err, stage.ErrBusy):
			err = palyra.Errorf(palyra.Unavailable, palyra.ReasonInterrupted, "the changes of the call are being settled already").
				WithRemedy("wait for the call's end").WithCause(err)
		}
		return out, err
	}
	k, err := b.attend(ctx, run, ruling != stage.RulingDrop && b.stages.all.Held(string(run.Call)))
	if fullDisk(err) {
		err = noSpace(err)
	}
	if err != nil {
		return x, err
	}
	k.held = settle
	err = k.finish(&x, true)
	return x, err
}

// noSpace says that held changes wait on because nothing can be written, or that what an earlier daemon began does.
func noSpace(err error) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "there is no space left to keep the changes").
		WithRemedy("make room, and start the daemon again: it finishes what was begun, and what was not waits as before").WithCause(err)
}

func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// attend is a keeper without a room, for changes that come into a workspace: it knows what is there before them.
func (b *Backend) attend(ctx context.Context, run sandbox.HeldRun, comes bool) (k *keeper, err error) {
	w := b.want(sandbox.Job{Workspace: run.Workspace, Seals: run.Seals, Staged: true})
	for n := 1; ; n++ {
		k = &keeper{b: b, want: w, call: run.Call}
		if _, gone := os.Lstat(run.Workspace); !comes || errors.Is(gone, fs.ErrNotExist) {
			return k, nil
		}
		if err = k.scan(ctx); err == nil {
			err = k.begin(ctx, run.Call)
		}
		if err == nil {
			return k, nil
		}
		k.forget()
		if !errors.Is(err, template.ErrChanged) || n == triesToBuild {
			return nil, err
		}
	}
}

// nothingDone reports whether an error means that changes are where they were, or never were.
func nothingDone(err error) bool {
	return errors.As(err, new(*stage.NotHeldError)) || errors.As(err, new(*palyra.Error))
}

// DropHeld implements sandbox.Staging.
func (b *Backend) DropHeld(ctx context.Context, waits func(palyra.CallID) bool) error {
	if b.stages.all == nil {
		return nil
	}
	return b.stages.all.DropHeld(ctx, func(call string) bool { return waits(palyra.CallID(call)) })
}

// Forget implements sandbox.Staging.
func (b *Backend) Forget(call palyra.CallID) {
	if b.stages.all != nil {
		b.stages.all.Forget(string(call))
	}
}

// lostWhy is why nothing was kept, for people.
func lostWhy(err error) string {
	if over := (*stage.LimitError)(nil); errors.As(err, &over) {
		return "too much waits for answers already (" + over.Limit() + "): answer it ('palyra approvals list') and run it again"
	}
	if fullDisk(err) {
		return "the disk is full"
	}
	return "they could not be read or put into the workspace"
}

// firm returns the paths of the workspace that stay whatever a run did: those that mounts of the
// room held in place.
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
