package sandbox

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"

	"palyra"
	"palyra/internal/cell"
)

// Trial is one probe of a tier from inside. It needs no grant: the only program that it can run is
// Palyra's own (Config.Own).
type Trial struct {
	Call      palyra.CallID
	Path      string   // a file of the workspace that the program may cover
	Argv      []string // with the program's name
	Workspace string   // also where it runs
	Private   string   // for tiers without rooms
	UID, GID  int64
	Limits    palyra.Limits
	Seals     []string
	Network   bool // with the guard's doors, and no host granted
}

// Tried is how a trial ended.
type Tried struct {
	Exit
	Stdout []byte // its beginning
	Flows  []palyra.EgressFlow
}

const (
	trialOutput = 64 << 10
	trialDrain  = 200 * time.Millisecond
)

// Try runs Palyra's own probe program in a tier, exactly as the tier would run a
// granted one. The end of the context ends it.
func (r *Runner) Try(ctx context.Context, tier palyra.Tier, t Trial) (Tried, error) {
	if !r.enter() {
		return Tried{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping")
	}
	defer r.busy.Done()
	b, err := r.backend(tier)
	if err != nil {
		return Tried{}, err
	}
	l := &runStart{Runner: r, backend: b, call: t.Call}
	defer l.clean()
	if err := l.prepareTrial(ctx, t); err != nil {
		return Tried{}, err
	}
	l.handed = true
	proc, err := b.Start(ctx, l.job)
	if err != nil {
		return Tried{}, err
	}
	stop := context.AfterFunc(ctx, func() { proc.Stop(stopWall, 0) })
	defer stop()
	out := l.listen()
	exit, err := proc.Wait()
	_ = l.own.out.SetReadDeadline(time.Now().Add(trialDrain)) // another process may hold it open
	stdout := <-out
	l.closeGateway()
	return Tried{Exit: exit, Stdout: stdout, Flows: l.flows}, err
}

// prepareTrial makes the job of a trial.
func (l *runStart) prepareTrial(ctx context.Context, t Trial) (err error) {
	l.job = Job{
		Call: t.Call, Path: t.Path, Argv: t.Argv, Env: []string{"PATH=" + cell.SearchPath}, Cwd: t.Workspace, Workspace: t.Workspace,
		UID: t.UID, GID: t.GID, Limits: t.Limits, Seals: t.Seals, Private: t.Private,
	}
	if walled(l.backend) {
		l.job.Private = ""
		l.job.Env = append(l.job.Env, "HOME="+cell.RoomHome, "TMPDIR="+cell.RoomTmp)
	}
	if t.Network && walled(l.backend) && l.Guard != nil {
		if l.gateway, err = l.Guard.Open(ctx, nil, palyra.Plan{}); err != nil {
			return err
		}
		l.job.Doors, l.job.Open = l.gateway.Doors(), l.gateway.Serve
		l.job.Env = append(l.job.Env, l.gateway.Env()...)
	}
	if l.job.Sealed, err = sealCopy(ctx, l.Own); err != nil {
		return err
	}
	var theirs [3]*os.File
	l.own, theirs, err = openPipes(false)
	l.job.Stdin, l.job.Stdout, l.job.Stderr = theirs[0], theirs[1], theirs[2]
	return err
}

// listen reads what a trial prints.
func (l *runStart) listen() <-chan []byte {
	out := make(chan []byte, 1)
	errs := l.own.err
	go func() { _, _ = io.Copy(io.Discard, errs) }() // until it is closed
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, io.LimitReader(l.own.out, trialOutput))
		_, _ = io.Copy(io.Discard, l.own.out)
		out <- b.Bytes()
	}()
	return out
}
