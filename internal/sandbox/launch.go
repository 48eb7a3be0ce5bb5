package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/subpath"
)

// runStart is one run on its way. Until the job is handed to the backend every
// descriptor is closed here; afterwards the backend closes those of the job.
type runStart struct {
	*Runner
	backend Backend
	call    palyra.CallID
	from    *palyra.Call
	plan    palyra.Plan
	who     identity
	room    *privateDir
	input   []byte // bound stdin
	feed    <-chan palyra.Feed
	own     ends
	job     Job
	agent   func()  // ends its door as an agent
	gateway Gateway // of a walled run, when there is a guard
	flows   []palyra.EgressFlow
	more    int64 // flows that are not listed
	booked  int64 // bytes of a copy
	inputs  []input
	caches  caches          // that it may write
	ways    *watch          // of the directories above them
	loose   []string        // those that changed meanwhile
	weigher palyra.Weigher  // says what becomes of what it changed; nil: that is kept
	listed  *palyra.Effects // what it changed, in short; nil: that was not weighed
	handed  bool
	serves  bool // a service: whoever started it feeds it
}

// live reports whether whoever called may send bytes that the plan does not bind.
func (l *runStart) live() bool { return l.plan.Stdin == palyra.StdinLive }

// prepare makes everything that the job needs. What fails here fails before
// anything ran.
func (l *runStart) prepare(ctx context.Context) (err error) {
	env, err := environment(l.plan, walled(l.backend))
	if err != nil {
		return err
	}
	if !l.serves {
		err = l.bindStdin()
	}
	if err != nil {
		return err
	}
	if l.who, err = whoRuns(l.plan.Workspace); err != nil {
		return err
	}
	l.job = Job{
		Call: l.call, Path: l.plan.Executable.Path, Argv: l.plan.Argv, Env: env, Cwd: l.plan.Cwd,
		UID: int64(l.who.uid), GID: int64(l.who.gid), Workspace: l.plan.Workspace.Path,
		Mounts: l.plan.Mounts, Files: l.plan.Files, Seals: l.plan.Seals, Unix: l.plan.UnixSockets,
		Limits: l.plan.Limits, Terminal: l.plan.Terminal, Lives: l.serves || l.plan.AgentSocket, Expect: withoutMechanisms(l.plan.Enforcement, l.notTheBackends()...),
	}
	if walled(l.backend) {
		err = l.makeRoom(ctx)
	} else {
		err = l.makePrivateDir()
	}
	if err != nil {
		return err
	}
	slices.Sort(l.job.Env)
	l.stage(ctx)
	if err = l.openProgram(ctx); err != nil {
		return err
	}
	if err = l.openStreams(); err != nil {
		return err
	}
	if err = l.noteInputs(ctx); err != nil {
		return err
	}
	return ctx.Err() // the last look before something runs
}

// notTheBackends are mechanisms that others than the backend see to.
func (l *runStart) notTheBackends() []string {
	names := []string{Sealed, Guarded}
	if l.Guard != nil {
		names = append(names, l.Guard.Mechanisms()...)
	}
	return names
}

// makePrivateDir gives a run that has no file system of its own a private directory.
func (l *runStart) makePrivateDir() (err error) {
	if l.room, err = l.rooms.make(l.call, l.who); err != nil {
		return err
	}
	l.use(l.room.name, true)
	l.job.Private = l.room.path
	l.job.Env = append(l.job.Env, "HOME="+filepath.Join(l.room.path, homeDir), "TMPDIR="+filepath.Join(l.room.path, tmpDir))
	return nil
}

// makeRoom gives a walled run what it finds in its room: its caches, and the
// doors through which alone it reaches others.
func (l *runStart) makeRoom(ctx context.Context) (err error) {
	l.job.Env = append(l.job.Env, "HOME="+cell.RoomHome, "TMPDIR="+cell.RoomTmp)
	l.job.Expect.Mode = "" // of the network: the guard's, not the backend's
	for _, m := range l.plan.Mounts {
		if !m.Writable {
			continue
		}
		if err := makeCache(l.Caches, m.Source, l.who); err != nil {
			return fmt.Errorf("sandbox: cache %s: %w", m.Source, err)
		}
		l.caches.add(m.Source)
	}
	if l.Guard != nil {
		if l.gateway, err = l.Guard.Open(ctx, l.from, l.plan); err != nil {
			return err
		}
		l.job.Doors, l.job.Open = l.gateway.Doors(), l.gateway.Serve
		l.job.Env = append(l.job.Env, l.gateway.Env()...)
	}
	if l.plan.AgentSocket {
		l.openAgentDoor()
	}
	return nil
}

// openAgentDoor adds the door at which the run is an agent.
func (l *runStart) openAgentDoor() {
	others, open := len(l.job.Doors), l.job.Open
	l.job.Doors = append(slices.Clone(l.job.Doors), cell.Listener{Path: agentSocket})
	l.job.Env = append(l.job.Env, "PALYRA_HOME="+cell.RoomPalyra)
	l.job.Open = func(sockets []*os.File) (err error) {
		if len(sockets) != others+1 {
			closeAll(sockets...)
			return fmt.Errorf("sandbox: %d sockets for %d doors", len(sockets), others+1)
		}
		if l.agent, err = l.Agents.Serve(l.from, int64(l.who.uid), sockets[others]); err != nil || open == nil {
			closeAll(sockets[:others]...)
			return err
		}
		return open(sockets[:others])
	}
}

// closeGateway ends what the run had open, once.
func (l *runStart) closeGateway() {
	if l.agent != nil {
		l.agent()
		l.agent = nil
	}
	if l.gateway != nil {
		l.flows, l.more = l.gateway.Close()
		l.gateway = nil
	}
}

// bindStdin takes the bytes the plan binds, and whoever feeds the run.
func (l *runStart) bindStdin() error {
	if l.Streams != nil {
		if feed, ok := l.Streams.Feed(l.call); ok {
			l.feed = feed
		}
	}
	if l.live() {
		if l.feed == nil {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonInterrupted, "the caller that would feed the run is gone").
				WithRemedy("propose the call again and stay connected")
		}
		return nil
	}
	input, err := l.Stdin(l.plan)
	if err != nil {
		return err
	}
	if l.plan.Stdin == "" && len(input) == 0 {
		return nil
	}
	if string(palyra.SumBytes(input)) != l.plan.Stdin {
		return palyra.PlanChanged("stdin")
	}
	l.input = input
	return nil
}

// openProgram makes sure that what will run is what the plan says.
func (l *runStart) openProgram(ctx context.Context) (err error) {
	exe := l.plan.Executable
	exe.Path = hostPath(l.plan.Mounts, exe.Path)
	if l.job.Staged && exe.Sealed && subpath.Within(l.plan.Workspace.Path, exe.Path) { // the copy lies in the room's own layer
		return nil
	}
	if !exe.Sealed {
		return l.sums.verify(ctx, exe, l.who, walled(l.backend))
	}
	if l.booked, err = l.copies.take(exe.Path); err != nil {
		return err
	}
	if l.room == nil { // the backend lays the copy over the path
		l.job.Sealed, err = sealCopy(ctx, exe)
		return err
	}
	l.job.Path, l.job.Sealed, err = seal(ctx, exe, l.room)
	return err
}

// hostPath is the path on the host of what a room shows at path.
func hostPath(mounts []palyra.Mount, path string) string {
	at, real := "", path
	for _, m := range mounts {
		if subpath.Within(m.Target, path) && len(m.Target) > len(at) {
			at, real = m.Target, m.Source+strings.TrimPrefix(path, m.Target)
		}
	}
	return real
}

// openStreams makes the three streams, or the terminal that is all of them.
func (l *runStart) openStreams() (err error) {
	var theirs [3]*os.File
	if l.plan.Terminal {
		rows, cols := 0, 0
		if l.Size != nil {
			rows, cols = l.Size(l.plan)
		}
		l.own, theirs, err = openTerminal(rows, cols, l.who)
	} else {
		l.own, theirs, err = openPipes(l.live() || len(l.input) > 0)
	}
	l.job.Stdin, l.job.Stdout, l.job.Stderr = theirs[0], theirs[1], theirs[2]
	return err
}

// run starts the job and stays with it until nothing of it is left.
func (l *runStart) run(ctx context.Context) palyra.Result {
	started := l.Now()
	l.handed = true
	proc, err := l.backend.Start(ctx, l.job)
	if err != nil {
		return l.refused(started, l.call, notStarted(ctx, l.plan, err))
	}
	p := newPump(l, proc)
	exit, err := p.wait(ctx)
	l.closeGateway()
	if l.Changed != nil && len(exit.Changed) > 0 {
		l.Changed(ctx, l.from, exit.Changed)
	}
	l.leaves(ctx, l.from, &exit)
	res := l.result(started, p, exit, err)
	if l.Swapped != nil && len(l.loose) > 0 {
		l.Swapped(ctx, l.from, l.loose)
	}
	return res
}

// leaves tells what a run left behind.
func (l *runStart) leaves(ctx context.Context, c *palyra.Call, exit *Exit) {
	exit.Remnants = append(exit.Remnants, l.planted()...)
	if l.Left != nil && len(exit.Remnants) > 0 {
		l.Left(ctx, c, exit.Remnants)
	}
}

// clean closes what is still ours and has the room taken away.
func (l *runStart) clean() {
	l.closeGateway()
	l.forgetInputs()
	l.copies.giveBack(l.booked)
	l.own.close()
	if !l.handed {
		l.job.CloseFiles()
	}
	if l.room != nil {
		l.discard(l.room.name)
	}
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // nothing was written that anyone waits for
		}
	}
}

// ours are the variables that a plan may not set: they say where a run's own
// things are.
var ours = []string{"PATH", "HOME", "TMPDIR"}

// environment is the run's, but for the two that depend on its room. A profile,
// which only walled runs have, may bring a PATH.
func environment(p palyra.Plan, walled bool) ([]string, error) {
	var env []string
	seen := map[string]bool{}
	for _, v := range p.Env {
		switch {
		case v.Secret:
			return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "%s is a secret, and there is no vault to take it from", show(v.Name)).
				WithRemedy("propose the call without it")
		case v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.ContainsRune(v.Value, 0) || seen[v.Name]:
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonEnvDenied, "%s cannot be a variable of a run", show(v.Name))
		case slices.Contains(ours, v.Name) && (v.Name != "PATH" || !walled):
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonEnvDenied, "%s is set by the sandbox", v.Name).
				WithRemedy("propose the call without it")
		}
		seen[v.Name] = true
		env = append(env, v.Name+"="+v.Value)
	}
	if !seen["PATH"] {
		env = append(env, "PATH="+cell.SearchPath)
	}
	if !seen["LANG"] {
		env = append(env, "LANG=C.UTF-8")
	}
	if p.Terminal && !seen["TERM"] {
		env = append(env, "TERM=xterm-256color")
	}
	return env, nil
}
