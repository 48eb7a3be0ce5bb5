package sandbox

import (
	"context"
	"os"
	"time"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/stage"
)

// Backend is a native tier's driver. What is the same for all of them is in
// Runner.
type Backend interface {
	// Executor names the backend in attestations: "sandbox_tier_b".
	Executor() string
	// Tier is the tier it gives.
	Tier() palyra.Tier
	// Probe says what would hold for a run with these limits on this host, or
	// why the tier cannot be used, with the remedy. It is asked for every plan.
	Probe(ctx context.Context, l palyra.Limits) (palyra.Enforcement, error)
	// Start starts a job. It returns when the program runs; with an error
	// nothing ran.
	Start(ctx context.Context, j Job) (Process, error)
	// Recover ends and removes what an earlier daemon left behind.
	Recover(ctx context.Context) error
	// Close gives back what is kept ready.
	Close() error
}

// Job is a program to run, resolved and checked.
type Job struct {
	Call      palyra.CallID
	Path      string   // program, absolute
	Sealed    *os.File // not nil: run this copy, which nothing can change, instead
	Argv      []string
	Env       []string
	Cwd       string
	UID, GID  int64                  // who to run as; other than the daemon only where that is root
	Workspace string                 // may be read, written and executed from
	Private   string                 // the run's own directory: home and tmp below it are writable, exe is not
	Mounts    []palyra.Mount         // more that it may see; only where the tier has a room of its own
	Files     []palyra.RoomFile      // small files laid into the room
	Staged    bool                   // what it writes to the workspace is kept apart until it has ended
	Bound     []stage.Bound          // what it must find in the workspace as it was checked; only with Staged
	Renames   []string               // directories of the workspace that it may rename; only with Staged
	Weigh     stage.Weigh            // rules about what it changed; nil: it is kept; only with Staged
	Seals     []string               // names below the workspace that must be as before when the run is over
	Lives     bool                   // it runs until it is stopped, for hours perhaps
	Unix      bool                   // may use unix sockets of the file system
	Doors     []cell.Listener        // sockets to be made in the run's own network, listened on from outside
	Open      func([]*os.File) error // takes them over, in the order of Doors, before the program runs
	Limits    palyra.Limits
	Terminal  bool     // Stdin is a terminal to be made the controlling one
	Stdin     *os.File // the three are Start's to close, in every case, as is Sealed
	Stdout    *os.File
	Stderr    *os.File
	Expect    palyra.Enforcement // what the plan promised; less is refused
}

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
	Signal      string           // that ended it, by name: "SIGKILL"
	Limit       string           // that made the cell kill it: memory, processes, cpu, file_size
	Stopped     string           // the reason given to Stop
	Left        int              // processes that had to be killed after the program's own end
	Remnants    []palyra.Remnant // what else somebody should know of
	Quarantined []string         // sealed paths that the run made, relative to the workspace; they are not there any more
	More        int64            // that it made beyond those
	Changed     []string         // sealed paths that somebody else changed meanwhile: the run could not
	Effects     stage.Settled    // what became of the changes of a staged job
	Usage       palyra.Usage
	Enforcement palyra.Enforcement // what really held
}

// Walled is a backend whose runs have a file system and a network of their own.
type Walled interface {
	// Room says so.
	Room() bool
}

// Staging is a backend that can keep apart what a run writes to its workspace.
type Staging interface {
	// Stageable says why it cannot for this workspace, in few words; nothing: it can.
	Stageable(ctx context.Context, workspace string, uid, gid int64) (why string)
	// Settle keeps or drops the changes of a call that are held. It can be asked again; where
	// nothing is known of them the error is a stage.NotHeldError.
	Settle(ctx context.Context, call palyra.CallID, keep bool) (stage.Settled, []palyra.Remnant, error)
	// DropHeld forgets the held changes of calls that nobody waits for.
	DropHeld(ctx context.Context, waits func(palyra.CallID) bool) error
}

// agentSocket is where a command looks for it below PALYRA_HOME.
const agentSocket = cell.RoomPalyra + "/run/agent.sock"

// EgressGuard is the only way out of a run's own network.
type EgressGuard interface {
	// Mode is how the guard decides: strict, preflight or none.
	Mode() palyra.NetworkMode
	// Mechanisms names what holds for the network of a run, and what the
	// configuration opens.
	Mechanisms() []string
	// Open makes a gateway for a run, or refuses the hosts that its plan names.
	Open(ctx context.Context, c *palyra.Call, p palyra.Plan) (Gateway, error)
}

// Gateway lets one run out as far as its plan says.
type Gateway interface {
	// Doors are the sockets it needs inside. Equal plans need equal doors.
	Doors() []cell.Listener
	// Serve takes the sockets over and answers on them. It does not block.
	Serve(sockets []*os.File) error
	// Env has the variables that lead programs to it, which are secret.
	Env() []string
	// Flows is what went through so far; more says how many flows are not listed.
	Flows() (flows []palyra.EgressFlow, more int64)
	// Close ends every connection and returns what went through.
	Close() (flows []palyra.EgressFlow, more int64)
}

// Agents answers runs that are agents themselves.
type Agents interface {
	// Serve takes over a listening unix socket of a run's room: whoever comes in
	// by it as uid is the call's principal. stop ends what is under way.
	Serve(c *palyra.Call, uid int64, socket *os.File) (stop func(), err error)
}

// Streams connects a run to whoever follows it.
type Streams interface {
	// Output is told what the run prints, in order for each stream, up to what
	// will be delivered of its head. It does not block for long.
	Output(call palyra.CallID, c palyra.Chunk)
	// Feed returns what the caller sends to the run; false means that nobody can
	// feed it any more.
	Feed(call palyra.CallID) (<-chan palyra.Feed, bool)
}
