package sandbox

import (
	"context"
	"os"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox/cage"
	"palyra/internal/stage"
)

// Backend is a native tier's driver. The common part of all tiers is in Runner.
type Backend interface {
	// Executor names the backend in attestations: "sandbox_tier_b".
	Executor() string
	// Tier is the tier of the backend.
	Tier() palyra.Tier
	// Probe returns what would hold for a run with these limits on this host, or an error with the
	// reason why the tier cannot be used, and the remedy. It is called for every plan.
	Probe(ctx context.Context, l palyra.Limits) (palyra.Enforcement, error)
	// Start starts a job. It returns when the program runs; with an error nothing ran.
	Start(ctx context.Context, j Job) (Process, error)
	// Recover ends and removes what an earlier daemon left behind.
	Recover(ctx context.Context) error
	// Close releases everything that is kept ready.
	Close() error
}

// Job is a program to run, resolved and checked.
type Job struct {
	Call       palyra.CallID
	Cage       *cage.Cage // holds a script of a skill; nil: it is none
	Payer      string     // in whose share it is counted of what all runs have together
	Path       string     // program, absolute
	Sealed     *os.File   // not nil: run this immutable copy instead
	Covers     []Cover    // files of the run's own, laid over paths of its room; only where the tier has a room
	Argv       []string
	Env        []string
	Cwd        string
	UID, GID   int64                  // user to run as; other than the daemon's only where that is root
	Workspace  string                 // may be read, written and executed from
	Repository palyra.Repository      // outside of the workspace, which is a work tree of it; only where the tier has a room
	Private    string                 // the run's own directory: home and tmp below it are writable, exe is not
	Mounts     []palyra.Mount         // further paths that it may see; only where the tier has a room
	Files      []palyra.RoomFile      // small files laid into the room
	Staged     bool                   // its writes to the workspace are kept apart until it has ended
	Bound      []stage.Bound          // files that it must find in the workspace as they were checked; only with Staged
	Renames    []string               // directories of the workspace that it may rename; only with Staged
	Weigh      stage.Weigh            // judges its changes; nil: they are kept; only with Staged
	Layer      palyra.CallID          // the agent on whose stage it works; the call itself: it is that agent; empty: on none
	Seals      []string               // names below the workspace that must be as before when the run is over
	Lives      bool                   // it runs until it is stopped, perhaps for hours
	Unix       bool                   // may use unix sockets of the file system
	Doors      []cell.Listener        // sockets to be made in the run's own network, listened on from outside
	Open       func([]*os.File) error // takes them over, in the order of Doors, before the program runs
	// Before is called when the room is as the program will find it, with its covers; with an error nothing runs. Nil: it is not.
	Before   func(context.Context) error
	Limits   palyra.Limits
	Terminal bool     // Stdin is a terminal to be made the controlling one
	Stdin    *os.File // Start closes the three in every case, Sealed and the files of Covers
	Stdout   *os.File
	Stderr   *os.File
	Expect   palyra.Enforcement // the plan's promise; less is refused
}

// Cover is a file that the run finds at a path of its room instead of what is there. It can read it, and neither change
// nor remove nor rename it.
type Cover struct {
	Path  string   // of the room, absolute, with no link in it; a file must be there
	File  *os.File // whose content it is from the beginning to the end, whatever its offset; nobody may change it any more
	Below string   // a mount of the room, as the workspace is: directories between it and Path cannot be renamed either
}

// MaxCovers is the most Covers of a job.
const MaxCovers = 512

// Process is a started job.
type Process interface {
	// Signal sends a signal, by name, to the program's process group.
	Signal(name string) error
	// Resize changes the size of its terminal.
	Resize(rows, cols int) error
	// Stop ends the whole tree: SIGTERM, then after grace SIGKILL until nothing
	// is left. The reason of the first Stop comes back in Exit.
	Stop(reason string, grace time.Duration)
	// Wait returns when nothing of the tree is left. An error means that the
	// cell was lost; the tree was then ended by other means.
	Wait() (Exit, error)
}

// Exit is how a job ended.
type Exit struct {
	Code        int              // exit code of the program
	Signal      string           // name of the signal that ended it: "SIGKILL"
	Limit       string           // limit that the cell killed it for: memory, processes, cpu, file_size
	Stopped     string           // the reason given to Stop
	Left        int              // processes that had to be killed after the program's own end
	Remnants    []palyra.Remnant // further remnants
	Quarantined []string         // sealed paths that the run made, relative to the workspace; they were moved away
	More        int64            // number of further ones
	Changed     []string         // sealed paths that somebody else changed meanwhile: the run could not
	Effects     stage.Settled    // what became of the changes of a staged job
	Needed      []string         // of a script in a cage: what it opened of what that names, as KIND:WHAT
	Usage       palyra.Usage
	Enforcement palyra.Enforcement // what really held
}

// Walled is a backend whose runs have a file system and a network of their own.
type Walled interface {
	// Room reports that they do.
	Room() bool
}

// HeldRun is a run that has ended, and whose changes are held.
type HeldRun struct {
	Call      palyra.CallID
	Workspace string
	Seals     []string // as those of its job
}

// Staging is a backend that can stage runs.
type Staging interface {
	// Stageable returns why it cannot for this workspace, in few words; "": it can.
	Stageable(ctx context.Context, workspace string, uid, gid int64) (why string)
	// Settle does what the ruling says with the held changes of a run, and looks for what a run leaves, as at its end. It can be
	// called again, also of a run whose changes were never held, and says what became of them; where nothing is known of
	// them the error is a stage.NotHeldError. With any other error nothing was done, or what the exit says was, and the
	// workspace could not be looked through.
	Settle(ctx context.Context, run HeldRun, ruling stage.Ruling) (Exit, error)
	// DropHeld drops the held changes of calls that nobody waits for, and forgets what became of those of others.
	DropHeld(ctx context.Context, waits func(palyra.CallID) bool) error
	// Forget forgets what became of the changes of a call, once that is on record.
	Forget(call palyra.CallID)
}

// Lender is a backend whose runs can work on the stage of an agent.
type Lender interface {
	// Layer returns the agent on whose stage a call works, and its workspace as it is there, which the caller closes; no
	// agent: on none. The error says why the call cannot work there.
	Layer(p palyra.Proposal, workspace string) (palyra.CallID, *os.File, error)
}

// agentSocket is the socket's path, as a command finds it below PALYRA_HOME.
const agentSocket = cell.RoomPalyra + "/run/agent.sock"

// EgressGuard is the only way out of a run's own network.
type EgressGuard interface {
	// Mode is how the guard decides: strict, preflight or none.
	Mode() palyra.NetworkMode
	// Mechanisms names what holds for the network of a run, and what the configuration opens.
	Mechanisms() []string
	// Open makes a gateway for a run, or refuses the hosts that its plan names.
	Open(ctx context.Context, c *palyra.Call, p palyra.Plan) (Gateway, error)
}

// Gateway lets one run reach the hosts of its plan.
type Gateway interface {
	// Doors lists the sockets it needs inside. Equal plans need equal doors.
	Doors() []cell.Listener
	// Serve takes the sockets over and answers on them. It does not block.
	Serve(sockets []*os.File) error
	// Env returns the variables that lead programs to it, which are secret.
	Env() []string
	// Flows returns the connections so far; more says how many are not listed.
	Flows() (flows []palyra.EgressFlow, more int64)
	// Close ends every connection and returns them all.
	Close() (flows []palyra.EgressFlow, more int64)
}

// Lending is a gateway that puts lent secrets into what leaves.
type Lending interface {
	// Lent returns what the run's room gets for the secrets that are lent to it.
	Lent() (Lent, error)
	// Stand returns what stands in the run for a value that is lent to it; such a placeholder stands for itself.
	Stand(value []byte) (placeholder string, ok bool)
}

// Lent is what a room gets for lent secrets: the authority that opens TLS on the way to bound hosts, where programs look
// for authorities.
type Lent struct {
	Covers     []Cover
	Mechanisms []string // of the plan's promise, that hold by this
}

// Ports publishes ports of runs.
type Ports interface {
	// Open takes the ports that a plan publishes, and finds those that the run may reach; beside are the other sockets of
	// its network. Nil: neither.
	Open(c *palyra.Call, p palyra.Plan, beside []cell.Listener) (Link, error)
}

// Link leads to the published ports of one run, and from it to those of its session.
type Link interface {
	// Doors lists the sockets it needs inside.
	Doors() []cell.Listener
	// Serve takes the sockets over and answers on them. It does not block, and closes them in every case.
	Serve(sockets []*os.File) error
	// Close frees the ports and ends every connection.
	Close()
}

// Agents answers runs that are agents themselves.
type Agents interface {
	// Serve takes over a listening unix socket of a run's room: a client that connects there as uid
	// is the call's principal. stop ends its work.
	Serve(c *palyra.Call, uid int64, socket *os.File) (stop func(), err error)
}

// Streams connects a run to those who follow it.
type Streams interface {
	// Output gets what the run prints, in order for each stream, up to the delivered part of its
	// head. It does not block for long.
	Output(call palyra.CallID, c palyra.Chunk)
	// Feed returns the caller's input to the run; false means that nobody can feed it any more.
	Feed(call palyra.CallID) (<-chan palyra.Feed, bool)
}
