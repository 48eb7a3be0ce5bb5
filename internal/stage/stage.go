// Package stage keeps what a run writes away from its workspace until the run is over.
//
// Words: a stage is the upper layer of an overlay whose lower layer is the workspace; what a run writes is in the
// stage and nowhere else. A bound file is one whose content was checked: its copy is put into the stage before the
// overlay is mounted, so that the run finds what was checked whatever becomes of the file in the workspace. To keep
// is to make the changes of a run the workspace's, to drop is to forget them.
//
// Promises. A copy is compared as it is written: the bytes that were hashed are
// the bytes that lie in the stage. What a run left is hostile: it is read with
// the rights of the workspace's owner, by descriptor, without following a link and
// within bounds, and only once nothing of the run lives. Other runs may live, in the
// same workspace: modes are changed through descriptors of what was looked at, and
// never of what a link leads to. Nothing is kept where
// somebody else changed the same path since the run began: none of it is kept
// then, the conflict is told, and the run's files can be set aside. Where somebody changes a path later, while the changes
// are put into the workspace, it is the same: that path stays theirs, and what was done until then is
// taken back, the last step first. So it is where a step fails, as on a full disk: the reason is told then (Settled.Lost). What
// cannot be, because somebody went on working on what was put there, or because a daemon died in between, stays and
// is told (Settled.Lost); what it replaced is remembered
// like that of any run. For that, files are exchanged or moved aside, never
// replaced, and what was displaced is compared with what was seen when the run's
// changes were read: by device, number, mode, size and time of writing, in
// directories by the time of change of all that is in them. What differs goes back to its
// name, or, where that is taken once more, gets a name beside it that is told.
// Set-id bits, devices and sockets are never
// kept, nor is a path that the caller says is sealed and that is there already; a new one
// that is to be in quarantine goes there without having been in the workspace.
// Keeping that a crash of the daemon cut off is finished by Recover: the list of what is
// to be done is written before the first change, and every step can be done twice.
// Stages that nobody had begun to keep are removed by Recover, but those that are held:
// what is on them was flushed, and they are found under their call's name, by the next
// daemon too. What is kept of them later is what was weighed: a held stage is read again,
// and conflicts are found from the beginning of the run on.
//
// What it does not do. It mounts nothing and judges nothing. Nothing is flushed: when the machine itself stops, a
// run's changes may be there in part, as those of a run that writes to the workspace directly may. Who has a file
// open, or works in a directory, while it is displaced goes on in what will be removed: what is written after the
// comparison is lost. So is a change that gives a file its old size and time of writing between the last look and
// the exchange. Where a file system cannot exchange two names (EINVAL), one replaces the other, and what is saved
// between the last look and that is lost. A file that is taken back is missing for a moment. Keeping in two
// workspaces of which one lies in the other is not put in turn: the two are to each other as somebody else. Copies
// across file systems lose holes. A file to which a run gave several names is as many files once it is kept.
// Attributes and access lists that a run sets are not kept. Times alone are kept, but are no change that is listed
// or taken back. A directory that its owner shut is opened while it is read, and its time of change is another
// then.
package stage

import (
	"errors"
	"fmt"
	"strconv"

	"palyra/internal/layered"
)

// Bound is a file of the workspace that a run must find as it was checked.
type Bound struct {
	Path   string // below the workspace, clean
	Digest string // "sha256:" and hex; empty: there is no such file
	Link   string // instead of a digest: what the symbolic link of that path says
}

// ChangedError says that a bound file is not what was checked.
type ChangedError struct {
	Path  string
	Cause error
}

// Error implements error.
func (e *ChangedError) Error() string {
	return "stage: " + strconv.Quote(e.Path) + " is not what was checked"
}

// Unwrap returns what was found instead.
func (e *ChangedError) Unwrap() error { return e.Cause }

// LimitError says that a run left more than is kept.
type LimitError struct {
	What string
	Of   string // "bytes" or "names" of one run's, or "all": the bytes of all runs' together
}

// Error implements error.
func (e *LimitError) Error() string { return "stage: more than is kept: " + e.What }

// Limit is the name of the limit.
func (e *LimitError) Limit() string {
	if e.Of == OfAll {
		return "all_stages_bytes"
	}
	return "stage_" + e.Of
}

// errGone: the workspace is another directory than before, or none.
var errGone = errors.New("stage: the workspace is not there any more")

// Names says what of a workspace must stay as it is: a path with all that is in it, or a
// directory that may be written in.
type Names func(path string) (sealed, kept bool)

// Quarantine is where new paths go that must not come to be in the workspace, not even for a moment.
type Quarantine interface {
	New(path string) bool                               // a path that was not there must not be, by its name
	Repository(names []string) bool                     // nor must a new directory with such entries
	Take(dir int, name, path string, mode uint32) error // moves an entry of a directory away
}

// Ruling is what is to become of a run's changes.
type Ruling int

// The rulings.
const (
	RulingDrop Ruling = iota // they are forgotten; so they are by any other that is not below
	RulingKeep               // they become the workspace's
	RulingHold               // they stay on the stage, until Settle says which
	RulingLose               // as RulingKeep, also where what they replace cannot be kept, or takes the room of what was lately
)

// Tree is a workspace to be read. Links are followed that lead on in it, and nothing leads out. Names are relative
// to it and clean.
type Tree = layered.Files

// Found is what a run did: all changes, how many times what is never kept, and the workspace before and after, which
// can be read for as long as whoever is asked about it has not answered.
type Found struct {
	Changes       []Change
	NeverKept     int
	Replaced      int64 // bytes on disk of what they would replace, with the list of it
	Lasting       bool  // objects of a repository outside of the workspace go, which nothing puts back
	Before, After Tree
}

// Weigh rules about what a run did. It is asked once all of that is known and nothing of it is the workspace's, and
// nobody else keeps in the workspace until it answers.
type Weigh func(Found) Ruling

// NotHeldError says that no changes of a call wait to be settled.
type NotHeldError struct{ Call string }

// Error implements error.
func (e *NotHeldError) Error() string { return "stage: no changes of the call are held" }

// Settled is what became of a run's changes.
type Settled struct {
	Changes    []Change // what the run did, by path, whatever became of it
	Kept       int      // changes that are the workspace's now
	Conflicts  []string // paths that somebody else changed since the run began: nothing was kept
	InUse      bool     // nobody changed them: other runs that are under way must find them as they are
	Refused    []string // paths that are never kept, and why
	Changed    []string // bound files that are not in the workspace any more as they were checked; the run had the copies
	Aside      int      // files of the run's that were not kept, and lie elsewhere (SetAside)
	Remembered bool     // what was replaced is kept, and Revert can put it back
	Dropped    bool     // they are not wanted: nothing was kept
	Held       bool     // nothing is kept yet: they wait for Settle
	Lost       string   // why the changes are not kept, or only in part, and which; empty: they are
	Over       string   // the limit of one run that they are over, where that is why; nothing was kept then
}

// Limits bound what is kept of one run, and what all have together.
type Limits struct {
	Entries int   // names; 500,000
	Bytes   int64 // of content; 4 GiB
	All     int64 // bytes of all stages, those that are held included; 16 GiB
}

const (
	defaultEntries = 500_000
	defaultBytes   = 4 << 30
	defaultAll     = 16 << 30
	OfAll          = "all"    // LimitError.Of
	mostPath       = 4_000    // bytes of a path below the workspace: one system call takes it
	mostNames      = 64 << 20 // bytes of all paths
	mostBound      = 256 << 20
	nameBytes      = 1 << 10 // what a name counts for among the bytes of all stages: files without content take room too
)

func (l Limits) filled() Limits {
	if l.Entries <= 0 {
		l.Entries = defaultEntries
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.All <= 0 {
		l.All = defaultAll
	}
	return l
}

func tooMany(format string, args ...any) error {
	return &LimitError{fmt.Sprintf(format, args...), "names"}
}

func tooMuchInAll(bytes int64) error {
	return &LimitError{fmt.Sprintf("%d bytes of all runs together", bytes), OfAll}
}

func tooMuchHeld(all int64) error {
	return &LimitError{fmt.Sprintf("changes that wait for answers: %d bytes of all callers, and a quarter of one", all), OfAll}
}

func tooMuch(bytes int64) error { return &LimitError{fmt.Sprintf("%d bytes", bytes), "bytes"} }
