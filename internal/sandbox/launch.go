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
	"palyra/internal/dotenv"
	"palyra/internal/sandbox/cage"
	"palyra/internal/subpath"
	"palyra/secrets"
)

// runStart is one run on its way. Until the job is handed to the backend every descriptor is closed
// here; afterwards the backend closes those of the job.
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
	agent   func()   // ends its door as an agent
	gateway Gateway  // of a walled run, when there is a guard
	lent    []string // mechanisms of the secrets that are lent to it
	link    Link     // of a walled run that publishes ports, or reaches some
	flows   []palyra.EgressFlow
	more    int64 // number of unlisted flows
	booked  int64 // bytes of a copy, as reserved
	inputs  []input
	caches  caches          // those that it may write
	ways    *watch          // watches the directories above its inputs
	loose   []string        // inputs that changed meanwhile
	weigher palyra.Weigher  // decides about its changes; nil: they are kept
	listed  *palyra.Effects // its changes, in short; nil: they were not weighed
	layer   *os.File        // the workspace on the stage of an agent; nil: it works on none
	masks   []dotenv.Found  // that it finds as copies
	carried []palyra.Remnant
	handed  bool
	serves  bool // a service, fed by its starter
}

// live reports whether the caller may send bytes that the plan does not bind.
func (l *runStart) live() bool { return l.plan.Stdin == palyra.StdinLive }

// prepare makes everything that the job needs. A failure here comes before anything ran.
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
		Repository: l.plan.Workspace.Repository,
		Mounts:     l.plan.Mounts, Files: l.plan.Files, Seals: l.plan.Seals, Unix: l.plan.UnixSockets,
		Limits: l.plan.Limits, Terminal: l.plan.Terminal, Lives: l.serves || l.plan.AgentSocket || l.plan.Background(),
		Expect: withoutMechanisms(l.plan.Enforcement, l.notTheBackends()...),
	}
	if cage.Needed(l.plan) {
		if l.job.Cage, err = l.Cage(ctx, l.plan); err != nil {
			return err
		}
		l.plan.Inputs = cage.Files(l.plan.Inputs)
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
	if err = l.enterLayer(); err != nil {
		return err
	}
	if err = l.mask(ctx); err != nil {
		return err
	}
	if err = l.openProgram(ctx); err != nil {
		return err
	}
	if err = l.openStreams(); err != nil {
		return err
	}
	if err = l.noteInputs(ctx); err != nil {
		return err
	}
	return ctx.Err() // the last check before something runs
}

// notTheBackends returns mechanisms that others than the backend apply.
func (l *runStart) notTheBackends() []string {
	names := slices.Concat([]string{Sealed, Guarded, Masked}, secrets.LentMechanisms(l.plan.Enforcement.Mechanisms),
		cage.Own(l.plan.Enforcement.Mechanisms))
	if l.Guard != nil {
		names = append(names, l.Guard.Mechanisms()...)
	}
	return names
}

// makePrivateDir gives a run without a file system of its own a private directory.
func (l *runStart) makePrivateDir() (err error) {
	if l.room, err = l.private.make(l.call, l.who); err != nil {
		return err
	}
	l.use(l.room.name, true)
	l.job.Private = l.room.path
	l.job.Env = append(l.job.Env, "HOME="+filepath.Join(l.room.path, homeDir), "TMPDIR="+filepath.Join(l.room.path, tmpDir))
	return nil
}

// makeRoom gives a walled run its caches, and the doors through which alone it reaches others.
func (l *runStart) makeRoom(ctx context.Context) (err error) {
	tmp := cell.RoomTmp
	if l.job.Cage != nil && subpath.Within(tmp, l.plan.Workspace.Path) { // which is not given as a whole then
		tmp = cell.RoomHome
	}
	l.job.Env = append(l.job.Env, "HOME="+cell.RoomHome, "TMPDIR="+tmp)
	l.job.Expect.Mode = "" // of the network: the guard's, not the backend's
	for _, m := range l.plan.Mounts {
		if m.Writable {
			l.caches.add(m.Source)
		}
	}
	if err := makeCaches(l.Caches, l.caches.dirs, l.who); err != nil {
		return err
	}
	if l.Guard != nil {
		if l.gateway, err = l.Guard.Open(ctx, l.from, l.plan); err != nil {
			return err
		}
		l.job.Doors, l.job.Open = l.gateway.Doors(), l.gateway.Serve
		l.job.Env = append(l.job.Env, l.gateway.Env()...)
	}
	if err := l.takeLent(); err != nil {
		return err
	}
	if l.plan.AgentSocket {
		l.openAgentDoor()
	}
	return l.openPorts()
}

// takeLent furnishes the room for the secrets that are lent to the run. Less than the plan promises is refused.
func (l *runStart) takeLent() (err error) {
	promised := secrets.LentMechanisms(l.plan.Enforcement.Mechanisms)
	var lent Lent
	if g, ok := l.gateway.(Lending); ok && len(promised) > 0 {
		if lent, err = g.Lent(); err != nil {
			return err
		}
	}
	l.job.Covers, l.lent = append(l.job.Covers, lent.Covers...), lent.Mechanisms
	if !slices.Equal(promised, lent.Mechanisms) {
		return palyra.PlanChanged("the secrets it gets")
	}
	return nil
}

// stand is what stands in masked files for values that are lent to the run; nil: nothing is lent.
func (l *runStart) stand() func(name string, value []byte) (string, bool) {
	g, ok := l.gateway.(Lending)
	if !ok || len(l.lent) == 0 {
		return nil
	}
	return func(_ string, value []byte) (string, bool) { return g.Stand(value) }
}

// openAgentDoor adds the door at which the run is an agent.
func (l *runStart) openAgentDoor() {
	l.job.Env = append(l.job.Env, "PALYRA_HOME="+cell.RoomPalyra)
	l.addDoors([]cell.Listener{{Path: agentSocket}}, func(sockets []*os.File) (err error) {
		l.agent, err = l.Agents.Serve(l.from, int64(l.who.uid), sockets[0])
		return err
	})
}

// openPorts adds the doors behind ports that the run publishes, and those at which it reaches its session's.
func (l *runStart) openPorts() error {
	if l.Ports == nil || l.from == nil {
		return nil
	}
	link, err := l.Ports.Open(l.from, l.plan, l.job.Doors)
	if err != nil || link == nil {
		return err
	}
	l.link = link
	l.addDoors(link.Doors(), link.Serve)
	return nil
}

// addDoors adds doors behind those that there are. open takes their sockets over, and closes them in every case.
func (l *runStart) addDoors(more []cell.Listener, open func([]*os.File) error) {
	others, before := len(l.job.Doors), l.job.Open
	l.job.Doors = slices.Concat(l.job.Doors, more)
	l.job.Open = func(sockets []*os.File) error {
		if len(sockets) != others+len(more) {
			closeAll(sockets...)
			return fmt.Errorf("sandbox: %d sockets for %d doors", len(sockets), others+len(more))
		}
		if err := open(sockets[others:]); err != nil || before == nil {
			closeAll(sockets[:others]...)
			return err
		}
		return before(sockets[:others])
	}
}

// closeGateway ends the run's connections, once.
func (l *runStart) closeGateway() {
	if l.agent != nil {
		l.agent()
		l.agent = nil
	}
	if l.link != nil {
		l.link.Close()
		l.link = nil
	}
	if l.gateway != nil {
		l.flows, l.more = l.gateway.Close()
		l.gateway = nil
	}
}

// bindStdin takes the bytes that the plan binds, and the source of live input.
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

// openProgram makes sure that the plan's program is the one that will run.
func (l *runStart) openProgram(ctx context.Context) (err error) {
	exe := l.plan.Executable
	exe.Path = l.outside(hostPath(l.plan.Mounts, exe.Path))
	if l.job.Staged && exe.Sealed && subpath.Within(l.plan.Workspace.Path, exe.Path) { // the copy lies in the room's own layer
		return nil
	}
	if !exe.Sealed {
		return l.sums.verify(ctx, exe, l.who, walled(l.backend))
	}
	if l.booked, err = l.copies.take(exe.Path); err != nil {
		return err
	}
	if l.room == nil { // otherwise the backend lays the copy over the path
		l.job.Sealed, err = sealCopy(ctx, exe)
		return err
	}
	l.job.Path, l.job.Sealed, err = seal(ctx, exe, l.room)
	return err
}

// hostPath is the path on the host of a room's path.
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

// run starts the job and follows it until nothing of it is left.
func (l *runStart) run(ctx context.Context) palyra.Result {
	started := l.Now()
	l.handed = true
	proc, err := l.backend.Start(ctx, l.job)
	if err != nil {
		return l.refused(started, l.call, notStarted(ctx, l.plan, err))
	}
	if l.Started != nil && l.plan.Background() {
		l.Started(l.call)
	}
	p := newPump(l, proc)
	exit, err := p.wait(ctx)
	l.closeGateway()
	exit.Remnants = slices.Concat(exit.Remnants, l.planted(), l.carried)
	l.report(ctx, l.from, exit)
	l.shareCaches(ctx)
	res := l.result(started, p, exit, err)
	if l.Swapped != nil && len(l.loose) > 0 {
		l.Swapped(ctx, l.from, l.loose)
	}
	return res
}

// report says what others changed meanwhile that is sealed, and what a run left behind.
func (r *Runner) report(ctx context.Context, c *palyra.Call, exit Exit) {
	if r.Changed != nil && len(exit.Changed) > 0 {
		r.Changed(ctx, c, exit.Changed)
	}
	if r.Left != nil && len(exit.Remnants) > 0 {
		r.Left(ctx, c, exit.Remnants)
	}
}

// clean closes the remaining descriptors and has the private directory removed.
func (l *runStart) clean() {
	l.closeGateway()
	l.forgetInputs()
	l.copies.giveBack(l.booked)
	l.own.close()
	closeAll(l.layer)
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

// ours are the variables that a plan may not set: they name the run's own directories.
var ours = []string{"PATH", "HOME", "TMPDIR"}

// environment is the run's, without the two that depend on its room. A profile, which only walled
// runs have, may set PATH.
func environment(p palyra.Plan, walled bool) ([]string, error) {
	var env []string
	seen := map[string]bool{}
	for _, v := range p.Env {
		switch {
		case v.Secret:
			return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "%s is a secret, and there is no vault to take it from",
				show(v.Name)).
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
