package cell

import (
	"net/netip"
	"strconv"
	"strings"
)

// InsideArg is the first argument of a cell that is process 1 of its own
// namespaces, which bubblewrap made; the second is the mark by which its daemon
// finds it again.
const InsideArg = "inside"

// MaxDoors bounds the sockets of a room: they travel in one packet.
const MaxDoors = 64

// Room is what is left to do inside namespaces that exist already, before
// anything may run there: the cell makes a mount and a network namespace of its
// own inside the given ones, gives the room its private places, seals paths of the
// workspace and opens doors. All of
// it happens by descriptor and without following links. Afterwards the cell has
// a launcher that waits, as any cell has, and no capability and no way back. (The
// launcher keeps what Spec.Cover takes until it becomes the program.)
//
// The run may be ordered right behind the room: it begins once the room is built,
// and not at all when it cannot be.
type Room struct {
	Version   int        `json:"version"`
	Workspace string     `json:"workspace"`       // a mount of the room
	Stage     string     `json:"stage,omitempty"` // a directory of the room with StageUpper and StageWork: what is written to the workspace goes there
	Private   []Private  `json:"private,omitempty"`
	Seals     []Seal     `json:"seals,omitempty"`
	Listeners []Listener `json:"doors,omitempty"`
	Hide      []string   `json:"hide,omitempty"`      // files and directories of the room to lay something empty over; missing ones are passed over
	ReadOnly  []string   `json:"read_only,omitempty"` // files and directories of the room that nothing there may write to; missing ones are passed over
	Watching  Watching   `json:"watching,omitzero"`   // the zero one leaves the bounds as they were found
	Range     string     `json:"range,omitempty"`     // of addresses that lead to the run's own network: "198.18.0.0/15"
	Hostname  string     `json:"hostname,omitempty"`  // empty: as it was found
	// Filter is for the cell itself, on all its threads, from the moment the room
	// is built; struct sock_filter array, empty: none. Calls says what it must
	// let pass.
	Filter []byte `json:"filter,omitempty"`
	// Extra says what the descriptors after the room's own are for, in order.
	Extra []string `json:"extra,omitempty"`
}

// What a Stage has below it: the upper layer of an overlay over the workspace, and what
// the overlay needs for itself. The workspace is its lower layer, which nothing
// in the room can write to. A room whose overlay cannot be mounted fails with
// step StepStage.
const (
	StageUpper = "upper"
	StageWork  = "work"
	StepStage  = "stage"
)

// ExtraCounter is all that Extra may name: a file for Counters, which a Spec then
// names by ExtraPath. It is open for reading only. A cell in a room gets nothing by
// which anybody could be put into a cgroup or taken out of one: it runs under the
// uid of a user, who can take its descriptors from it. It is born in its cgroups.
const ExtraCounter = "counter"

// MaxExtra bounds what Extra may name.
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

// Watching bounds the file watching (inotify) of everything in the room together.
// The kernel counts it for the user outside as well, and the limit of the room's
// own user namespace is what keeps one room from taking all that its user may
// have. It is set before ReadOnly: afterwards nobody in the room could, and nobody
// but the cell may. A room that cannot be bounded fails with step StepWatching.
type Watching struct {
	Instances int64 `json:"instances"`
	Watches   int64 `json:"watches"`
}

// StepWatching is the step of a build that could not bound the watching of files.
// A daemon can do without: such a room is built with the zero Watching, for runs
// whose filter refuses inotify.
const StepWatching = "watching"

// Seal keeps a path of the workspace in place. Every directory on the way to a
// sealed path is one as well, without ReadOnly: a mount point cannot be renamed.
// Parents come before what is in them. Dev and Ino are what was found there; a
// path that is something else by now fails the build with step "seal" and ESTALE.
type Seal struct {
	Path     string `json:"path"` // relative to the workspace
	ReadOnly bool   `json:"read_only,omitempty"`
	Dev      uint64 `json:"dev"`
	Ino      uint64 `json:"ino"`
}

// Private is a directory of the room over which a file system in memory is laid, for
// the run to write to. Bytes and Inodes bound it: names take memory of the kernel
// even where they hold nothing. Keep are mounts and single files of the room below
// Path that stay where they are, as they are; none lies in another.
type Private struct {
	Path   string   `json:"path"`
	Mode   int      `json:"mode"` // permissions, with the sticky bit
	Bytes  int64    `json:"bytes"`
	Inodes int64    `json:"inodes"`
	Keep   []string `json:"keep,omitempty"`
}

// Listener is a socket to be made in the room: in its network at Addr or, with Path, a
// unix socket in its /run, with the directories that lead there.
type Listener struct {
	UDP  bool           `json:"udp,omitempty"`
	Addr netip.AddrPort `json:"addr,omitzero"`
	Path string         `json:"path,omitempty"`
}
