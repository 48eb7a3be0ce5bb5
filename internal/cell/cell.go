// Package cell is the protocol between palyrad and palyra-cell, the small
// static helper that starts and ends everything that runs natively.
//
// Words: a cell is a supervisor process with one launcher process below it, a copy of it without Go's runtime. Both
// wait, holding nothing, until the daemon sends an Order to run with a Spec; the launcher then confines itself as
// the Spec says and becomes the program. A launcher can also become its program's user ahead (OrderBecome), and has its
// run from the daemon itself. The supervisor stays: it reaps, watches the limits, passes
// signals on, and kills until nothing of the tree is left. A cell serves one run and ends.
//
// A template is a cell in a room that bubblewrap made, in which nothing ever runs: it makes rooms from it, each with
// namespaces of its own. The first process of a room is a copy of the template without Go's runtime, which waits for
// its one run at a socket of its own (a Line), and with which everything in the room ends.
//
// Orders and reports are packets of a SOCK_SEQPACKET socket, a byte or a few on a Line; the Spec, which can be large,
// travels in a sealed memfd beside the program's descriptors. When the socket closes the daemon is gone, and the cell
// ends its tree.
//
// The package is shared by both ends and imports nothing else of Palyra. Its words are those of docs/words.md.
package cell

// Version is that of the protocol. Both ends must have the same.
const Version = 14

// Refused is the exit code when Palyra itself failed, as opposed to the program it was asked to run.
const Refused = 125

// ControlFD is the descriptor on which a cell finds its socket.
const ControlFD = 3

// LaunchFD is the descriptor on which a cell finds its launcher's socket to the daemon, if LaunchArg is among the
// arguments after "supervise".
const (
	LaunchFD  = 4
	LaunchArg = "launch"
)

// The arguments that may follow "supervise" on a cell's command line: the cgroups in which its
// launcher is to be born. TasksArg names the tasks file of a v1 cgroup, which the thread that
// starts the launcher enters first; IntoArg the directory of a v2 one. Both cost the kernel next to
// nothing, whereas moving an existing process waits for a grace period.
const (
	TasksArg = "tasks="
	IntoArg  = "into="
)

// The largest packet and the largest Spec, in bytes.
const (
	MaxPacket = 16 << 10
	MaxSpec   = 8 << 20
)

// OrderKind is the kind of an order.
type OrderKind string

// The orders.
const (
	OrderRun    OrderKind = "run"    // with descriptors: spec, stdin, stdout, stderr and, when Spec.Sealed, the program
	OrderSignal OrderKind = "signal" // to the program's process group
	OrderResize OrderKind = "resize" // of the program's terminal
	OrderStop   OrderKind = "stop"   // SIGTERM to the whole tree, GraceMS later SIGKILL until nothing is left

	// OrderBuild asks a template for a room, by a number of its own: with the descriptors of a sealed Room, of the first
	// process's end of a Line, and of the Room's Extra. The answer is ReportBuilt or ReportFailed with that number.
	OrderBuild OrderKind = "build"
	// OrderCover, with the descriptor of a sealed program or, with Data, of a file, has its content laid over Path in a room,
	// read-only. The answer is ReportCovered or ReportFailed.
	OrderCover OrderKind = "cover"
	// OrderWatch has a room's processes held to the limits of Watch, whenever they begin. What is over one is reported
	// (ReportOver), and ended soon after if nobody else does that.
	OrderWatch OrderKind = "watch"
	// OrderBecome, with the descriptor of a Spec, may come once while a cell waits that has a socket for its launcher:
	// the launcher becomes the Spec's user, under its Rlimits and its Filter, and from then on gets its run from the
	// daemon itself (see Given). There is no report, but a launcher that cannot become that ends the cell with Failed.
	// OrderWatch, with the limits of Watch, then goes before the run.
	OrderBecome OrderKind = "become"
	// OrderConfine, on a Line, is the first order to the first process of a room, with the files of cgroups by which it
	// enters them if it is not there yet: then it gives up every capability and gets the filter of what will run. The
	// answer is ReportReady.
	OrderConfine OrderKind = "confine"
	// OrderLimit, on a Line, ends the tree for the limit that Reason names.
	OrderLimit OrderKind = "limit"
)

// Order is a packet from the daemon.
type Order struct {
	Kind    OrderKind
	Signal  int
	Reason  string
	GraceMS int64
	Rows    uint16
	Cols    uint16
	Room    int    // to a template: which
	Path    string // of OrderCover
	Data    bool   // of OrderCover: the content is not to be executed
	Below   string // of OrderCover: a mount; directories between it and Path cannot be renamed any more
	Watch   *Watch // of OrderWatch
}

// ReportKind is the kind of a report.
type ReportKind string

// The reports, in the order in which they come. After Failed or Ended the cell is gone.
const (
	ReportReady   ReportKind = "ready"   // the cell waits; Launcher is the process to put into a cgroup
	ReportBuilt   ReportKind = "built"   // a room is finished; with a pidfd of its first process, a socket for each door, and its copies
	ReportCovered ReportKind = "covered" // a program is laid over its path
	ReportOver    ReportKind = "over"    // a room is over the limit that Limit names
	ReportGone    ReportKind = "gone"    // a room's first process is reaped; Usage is what was seen while it was watched
	ReportStarted ReportKind = "started" // the program runs
	ReportFailed  ReportKind = "failed"  // the program was not started: Step and Errno say why; nothing ran
	ReportExited  ReportKind = "exited"  // the program itself ended; what it left behind is being killed
	ReportEnded   ReportKind = "ended"   // nothing of the tree is left
)

// Report is a packet from a cell.
type Report struct {
	Kind     ReportKind
	Version  int
	Launcher int
	Room     int    // of a template: which
	Step     string // of a failure: landlock, seccomp, rlimit, uid, cwd, exec, …
	Errno    int
	Text     string
	Code     int    // exit code of the program
	Signal   int    // the signal that ended it
	Limit    string // of Ended: the limit that the cell killed the tree for: memory, processes, cpu, disk
	Stopped  string // of Ended: the Reason of the OrderStop that ended the tree
	Killed   int    // processes that had to be killed after the program's own end
	Usage    Usage
}

// Usage is the cost of the tree, as far as the cell could see.
type Usage struct {
	CPUMS      int64
	PeakMemory int64
	Processes  int64 // most at once
}

// Spec is everything that decides how the program runs. The launcher applies it in this order: terminal or session,
// rlimits, groups and uid, cwd, capabilities, no_new_privs, Landlock, seccomp, exec; ahead of its run, if it is told to: groups
// and uid, capabilities, no_new_privs, seccomp.
type Spec struct {
	Version int      `json:"version"`
	Path    string   `json:"path"`             // program, absolute; not used when Sealed
	Sealed  bool     `json:"sealed,omitempty"` // run the descriptor that came with the order
	Cover   bool     `json:"cover,omitempty"`  // with Sealed, in a room: its content is first laid over Path, read-only, and Path is run
	Argv    []string `json:"argv"`
	Env     []string `json:"env"`
	Cwd     string   `json:"cwd"` // no part of it may be a symbolic link

	Identity *Identity `json:"identity,omitempty"` // nil: the launcher's own
	Terminal bool      `json:"terminal,omitempty"` // stdin becomes the controlling terminal, and Landlock lets it be opened again
	Rlimits  []Rlimit  `json:"rlimits,omitempty"`
	Nice     int       `json:"nice,omitempty"`

	Landlock Landlock `json:"landlock"`
	Filter   []byte   `json:"filter"` // struct sock_filter array, as the kernel takes it

	Watch Watch `json:"watch"`
}

// Identity is the user that the program runs as. A daemon that is root becomes the workspace's
// owner; uid 0 keeps the uid and loses every capability.
type Identity struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// Rlimit is one resource limit; soft and hard are the same.
type Rlimit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// Landlock is a ruleset for the kernel. The masks list the handled, and so denied, rights; Rules
// allow some. The kernel must take all of them: nothing is dropped silently.
type Landlock struct {
	FS     uint64 `json:"fs"`
	Net    uint64 `json:"net,omitempty"`
	Scoped uint64 `json:"scoped,omitempty"`
	Rules  []Rule `json:"rules"`
}

// OwnProcess is the path of a Rule about the program's own process, whoever makes the ruleset.
const OwnProcess = "/proc/self"

// Rule allows Access below Path. A path that does not exist is an error unless Optional. A path
// that others than the system can change is Plain: no part of it may be a symbolic link, or it
// could lead elsewhere by the time it is opened.
type Rule struct {
	Path     string `json:"path"`
	Access   uint64 `json:"access"`
	Optional bool   `json:"optional,omitempty"`
	Plain    bool   `json:"plain,omitempty"`
}

// Watch holds the limits that the supervisor checks every few milliseconds and kills for. Zero
// limits are not watched.
type Watch struct {
	EveryMS   int64    `json:"every_ms"`
	Memory    int64    `json:"memory,omitempty"`    // bytes of summed PSS, where no cgroup bounds it
	Processes int64    `json:"processes,omitempty"` // in the tree, where no cgroup bounds it
	CPUMS     int64    `json:"cpu_ms,omitempty"`    // of the whole tree
	Ceiling   int64    `json:"ceiling,omitempty"`   // of tree and cell together: the number at which the kernel refuses another one
	Disk      int64    `json:"disk,omitempty"`      // bytes that the tree writes to file systems on disk, in all
	Disks     []string `json:"disks,omitempty"`     // directories whose file systems the tree must not fill; with Disk only
	Counters  Counters `json:"counters,omitzero"`   // of a cgroup, where there is one
}

// Counters are files of a cgroup. Empty ones are not read.
type Counters struct {
	OOM       string `json:"oom,omitempty"`        // memory.events or memory.oom_control: an oom_kill line over 0 is "memory"
	PidsMax   string `json:"pids_max,omitempty"`   // pids.events: a max line over 0 is "processes"
	PeakBytes string `json:"peak_bytes,omitempty"` // one number
	PeakPids  string `json:"peak_pids,omitempty"`  // one number
	CPUNanos  string `json:"cpu_nanos,omitempty"`  // one number (v1 cpuacct.usage)
	CPUMicros string `json:"cpu_micros,omitempty"` // cpu.stat with a usage_usec line (v2)
}
