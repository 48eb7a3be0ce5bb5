package cell

import (
	"net/netip"
	"strconv"
	"strings"
)

// InsideArg is the first argument of a template, which is process 1 of namespaces that bubblewrap made; the
// second is the mark by which its daemon finds it again.
const InsideArg = "inside"

// MaxDoors is the most listening sockets of a room: they travel in one packet.
const MaxDoors = 128

// Room says how a room differs from its template. Its first process gets user, mount, pid, network, ipc, uts and cgroup
// namespaces of its own, inside the template's; in these the template mounts the room's private places, seals paths of
// the workspace and opens listening sockets. It does all of this by descriptor and without following links. Nothing of
// what it does reaches the template or another room. The first process then waits for OrderConfine, after which it has
// no capability and no way back.
type Room struct {
	Version   int    `json:"version"`
	Workspace string `json:"workspace"`       // a mount of the room
	Stage     string `json:"stage,omitempty"` // a directory of the room with StageUpper and StageWork, where writes to the workspace go
	// Repository is a mount of the room beside the workspace whose writes go to RepositoryStage, as those to the
	// workspace go to Stage; both are empty, or none.
	Repository      string `json:"repository,omitempty"`
	RepositoryStage string `json:"repository_stage,omitempty"`

	Private   []Private  `json:"private,omitempty"`
	Seals     []Seal     `json:"seals,omitempty"`
	Listeners []Listener `json:"doors,omitempty"`
	Hide      []string   `json:"hide,omitempty"`      // paths of the room to cover with something empty; missing ones are passed over
	ReadOnly  []string   `json:"read_only,omitempty"` // paths of the room that nothing there may write to; missing ones are passed over
	// Held: of the workspace only what lies in Open can be changed, in no way: rules of Landlock know nothing of modes, owners
	// and times. Open are paths of the room in the workspace; missing ones are passed over, and stay shut.
	Held     bool     `json:"held,omitempty"`
	Open     []string `json:"open,omitempty"`
	Watching Watching `json:"watching,omitzero"` // the zero value leaves the bounds unchanged
	Range    string   `json:"range,omitempty"`   // of addresses that lead to the run's own network: "198.18.0.0/15"
	Rlimits  []Rlimit `json:"rlimits,omitempty"` // of everything in the room, that its filter does not let anybody set
	// Landlock is the ruleset of what runs, made when the room is built: its rules stand for what their paths name then.
	Landlock Landlock `json:"landlock"`
	// Filter is for everything in the room, from OrderConfine on: a struct sock_filter array, as the kernel takes it.
	Filter []byte `json:"filter"`
	// Extra says what the descriptors after the room's own are for, in order.
	Extra []string `json:"extra,omitempty"`
	// Copies is how many further mounts of the workspace, as the room has it, are handed over behind the sockets of
	// the listeners, for other rooms to have it too (ExtraWorkspace). Only a workspace on a stage is shared.
	Copies int `json:"copies,omitempty"`
}

// MaxCopies is the most Copies of a room.
const MaxCopies = 8

// The directories of a Stage: the upper layer of an overlay over the workspace, and the overlay's
// work directory. The workspace is the lower layer, which nothing in the room can write to. A room
// whose overlay cannot be mounted fails with step StepStage.
const (
	StageUpper = "upper"
	StageWork  = "work"
	StepStage  = "stage"
)

// StageBlank is what a Stage has in it that no run wrote to, once its overlay is gone, in the order in which it can be removed.
var StageBlank = []string{
	StageUpper + "/", StageWork + "/work/incompat/volatile/dirty", StageWork + "/work/incompat/volatile/",
	StageWork + "/work/incompat/", StageWork + "/work/", StageWork + "/",
	"old/", "clock",
}

// SealedPaths is the mechanism by which a run cannot change sealed names. It holds only where some are sealed.
const SealedPaths = "sealed_paths"

// The words in Extra. ExtraCounter is a file for Counters, which a Spec then names by ExtraPath. It is open for reading
// only. A template gets no descriptor that can move a process into or out of a cgroup: it runs under the uid of a
// user, who can take its descriptors from it. ExtraWorkspace, at most one and instead of a
// Stage, is a mount that is nowhere yet: another room's workspace on its stage, to be laid over the workspace.
const (
	ExtraCounter   = "counter"
	ExtraWorkspace = "workspace"
)

// MaxExtra is the longest Extra.
const MaxExtra = 32

// ExtraPath is how a Counter names the i-th of the room's Extra descriptors.
func ExtraPath(i int) string { return extraPrefix + strconv.Itoa(i) }

const extraPrefix = "extra/"

// ExtraIndex reads what ExtraPath wrote.
func ExtraIndex(path string) (int, bool) {
	digits, ok := strings.CutPrefix(path, extraPrefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	return i, err == nil && i >= 0 && i < MaxExtra && ExtraPath(i) == path
}

// Watching bounds the file watching (inotify) of everything in the room together. The kernel counts
// it for the user outside as well; the limit of the room's own user namespace keeps one room from
// taking everything that its user may have. It is set before ReadOnly: afterwards nobody in the
// room can change it. A room that cannot be bounded fails with step StepWatching.
type Watching struct {
	Instances int64 `json:"instances"`
	Watches   int64 `json:"watches"`
}

// StepWatching is the step of a build that could not bound the watching of files. A daemon can do
// without: it then builds the room with the zero Watching, for runs whose filter refuses inotify.
const StepWatching = "watching"

// Seal keeps a path of the workspace in place. Every directory on the way to a sealed path is sealed as well,
// without ReadOnly: a mount point cannot be renamed. Parents come before their children. Dev and Ino identify the
// file that was found there; another file at the path fails the build with step "seal" and ESTALE.
type Seal struct {
	Path     string `json:"path"` // relative to the workspace
	ReadOnly bool   `json:"read_only,omitempty"`
	Dev      uint64 `json:"dev"`
	Ino      uint64 `json:"ino"`
}

// Private is a directory of the room that a file system in memory is mounted over, for the run to write to. Bytes
// and Inodes bound it: names take memory of the kernel even when the files are empty. Keep lists mounts and single
// files of the room below Path that stay in place, unchanged; none lies in another.
type Private struct {
	Path   string   `json:"path"`
	Mode   int      `json:"mode"` // permissions, with the sticky bit
	Bytes  int64    `json:"bytes"`
	Inodes int64    `json:"inodes"`
	Keep   []string `json:"keep,omitempty"`
}

// Listener is a socket to be made in the room: in its network at Addr or, with Path, a
// unix socket in its /run, with the directories that lead there. With Dial, which numbers
// them, it listens nowhere: it is for connections from outside to what listens in the room, to
// addresses of IPv4 or, below zero, of IPv6, where the kernel has that.
type Listener struct {
	UDP  bool           `json:"udp,omitempty"`
	Addr netip.AddrPort `json:"addr,omitzero"`
	Path string         `json:"path,omitempty"`
	Dial int            `json:"dial,omitempty"`
}
