package sandbox

import (
	"context"
	"os"
	"time"

	"palyra"
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
	Call      palyra.ID
	Path      string   // program, absolute
	Sealed    *os.File // not nil: run this copy, which nothing can change, instead
	Argv      []string
	Env       []string
	Cwd       string
	UID, GID  int64  // who to run as; other than the daemon only where that is root
	Workspace string // may be read, written and executed from
	Private   string // the run's own directory: home and tmp below it are writable, exe is not
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
	Code        int    // exit code of the program
	Signal      string // that ended it, by name: "SIGKILL"
	Limit       string // that made the cell kill it: memory, processes, cpu, file_size
	Stopped     string // the reason given to Stop
	Left        int    // processes that had to be killed after the program's own end
	Usage       palyra.Usage
	Enforcement palyra.Enforcement // what really held
}

// Streams connects a run to whoever follows it.
type Streams interface {
	// Output is told what the run prints, in order for each stream, up to what
	// will be delivered of its head. It does not block for long.
	Output(call palyra.ID, c palyra.Chunk)
	// Feed returns what the caller sends to the run; false means that nobody can
	// feed it any more.
	Feed(call palyra.ID) (<-chan palyra.Feed, bool)
}
