package bubble

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/agentstage"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/refusal"
	"palyra/internal/stage"
)

// How many mounts of an agent's workspace its own room hands over, and the room of each of its calls: one is used up by
// every room, and a room that is not finished hands over none.
const (
	firstCopies = 4
	nextCopies  = 2
)

// layer is the stage of an agent that runs: its room and those of its calls have the same mount of it, so that each sees
// at once what the others write.
type layer struct {
	of        *layers
	call      palyra.CallID
	workspace string
	stage     *stage.Stage
	note      agentstage.Note
	copies    chan *os.File // mounts of it that are nowhere yet
	over      chan struct{} // closed with the agent's end

	mu    sync.Mutex
	users int      // rooms that have it
	void  bool     // nothing ran on it
	root  *os.File // for the daemon itself; nil: it is not mounted yet, or no more
}

// layers are those of the agents that run.
type layers struct {
	mu   sync.Mutex
	live map[palyra.CallID]*layer
}

func (b *Backend) agentStages() agentstage.Store { return agentstage.Store{Dir: b.config.Stages} }

// lend makes the stage of an agent, which outlives this daemon from now on.
func (k *keeper) lend() error {
	b := k.b
	g, err := b.stages.all.Make(k.want.room.Workspace, k.owner())
	if err != nil {
		return unstaged(err)
	}
	call := string(k.want.layer)
	var st, upper unix.Stat_t
	err = errors.Join(unix.Lstat(k.want.room.Workspace, &st), unix.Lstat(g.Path()+"/"+stage.Upper, &upper))
	n := agentstage.Note{
		Call: call, Workspace: k.want.room.Workspace, Dev: uint64(st.Dev), Ino: st.Ino, Mode: upper.Mode & 0o3777,
		UID: k.want.room.UID, GID: k.want.room.GID, At: time.Now().UTC(),
	}
	if err == nil {
		n.Since, err = g.Lend(agentstage.Name(call))
	}
	if err == nil {
		err = b.agentStages().Write(n)
	}
	if err != nil {
		g.Drop()
		return unstaged(err)
	}
	k.layer = &layer{
		of: &b.layers, call: k.want.layer, workspace: n.Workspace, stage: g, note: n,
		copies: make(chan *os.File, cell.MaxCopies), over: make(chan struct{}), users: 1,
	}
	b.layers.mu.Lock()
	defer b.layers.mu.Unlock()
	if b.layers.live == nil {
		b.layers.live = map[palyra.CallID]*layer{}
	}
	b.layers.live[k.want.layer] = k.layer
	return nil
}

// share has a room work on the stage of the agent that it works for.
func (k *keeper) share() error {
	l := k.b.layers.find(k.want.layer)
	if l == nil || l.workspace != k.want.room.Workspace || !l.use() {
		return agentOver()
	}
	k.layer = l
	return nil
}

func (s *layers) find(call palyra.CallID) *layer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[call]
}

// agentOver refuses a call of an agent that has ended.
func agentOver() *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonInterrupted, "the agent that the call works for has ended, and its stage with it").
		WithRemedy("start the agent again")
}

func (l *layer) use() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.root == nil {
		return false
	}
	l.users++
	return true
}

// leave gives the layer back. With the last one what is on the stage is flushed, and waits for a person; a stage on which
// nothing ever ran goes.
func (l *layer) leave(b *Backend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	all := b.agentStages()
	var err error
	if l.void {
		l.stage.Drop()
	} else {
		l.note.Ended = time.Now().UTC()
		err = errors.Join(all.Flush(), all.Write(l.note))
	}
	if err != nil {
		b.fleet.Log.Error("the stage of an agent may not outlive the machine's stop", "call", l.call, "err", err)
	}
	l.of.mu.Lock()
	delete(l.of.live, l.call)
	l.of.mu.Unlock()
}

// take gives a mount to a room that is being built.
func (l *layer) take(ctx context.Context) (*os.File, error) {
	late := time.NewTimer(takeWithin)
	defer late.Stop()
	select {
	case f := <-l.copies:
		return f, nil
	case <-ctx.Done():
		return nil, refusal.NotBegun(ctx)
	case <-l.over:
		return nil, agentOver()
	case <-late.C:
		return nil, refusal.SpawnFailed("the stage of the agent cannot be mounted once more").WithRemedy("try again when fewer calls of it run")
	}
}

// takeWithin is how long a room waits for another one to be built, which hands mounts over.
const takeWithin = 30 * time.Second

// add takes mounts over that a room has handed over.
func (l *layer) add(files []*os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range files {
		if l.root == nil && !l.ended() {
			l.root = f
			continue
		}
		select {
		case <-l.over:
			_ = f.Close()
		default:
			select {
			case l.copies <- f:
			default:
				_ = f.Close()
			}
		}
	}
}

func (l *layer) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// endLayer gives the stage of an agent back. With the agent itself it is over: no call of it begins any more.
func (k *keeper) endLayer(ran bool) {
	l := k.layer
	if l == nil {
		return
	}
	k.layer = nil
	defer l.leave(k.b)
	if !k.want.lends {
		return
	}
	l.mu.Lock()
	close(l.over)
	root := l.root
	l.root, l.void = nil, !ran
	l.mu.Unlock()
	for f := root; f != nil; {
		_ = f.Close()
		select {
		case f = <-l.copies:
		default:
			f = nil
		}
	}
}

// Layer implements sandbox.Lender.
func (b *Backend) Layer(p palyra.Proposal, workspace string) (palyra.CallID, *os.File, error) {
	for _, call := range append(slices.Clone(p.Line), p.Room) {
		if call == "" {
			continue
		}
		l := b.layers.find(call)
		if l == nil {
			if _, err := b.agentStages().Read(string(call)); err == nil {
				return "", nil, agentOver()
			}
			continue
		}
		if l.workspace != workspace {
			return "", nil, palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied,
				"an agent whose work is staged works in its own workspace only").
				WithRemedy("leave the workspace out; or run the agent without --staged")
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.root == nil {
			return "", nil, agentOver()
		}
		fd, err := unix.Openat(int(l.root.Fd()), ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", nil, unstaged(err)
		}
		return call, os.NewFile(uintptr(fd), workspace), nil
	}
	return "", nil, nil
}

var _ sandbox.Lender = (*Backend)(nil)
