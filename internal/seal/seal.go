// Package seal keeps the paths of a workspace as they are that somebody else's
// programs take orders from: git's hooks and configuration, editors' and CI's
// files, agents' own settings. A run may write anywhere in its workspace, but
// what it writes there must not be executed later, outside any sandbox.
//
// Words: a name says which paths are sealed, at any depth (see Default for the
// list, Compile for the grammar). A path is sealed when a name fits it: nothing
// may change in or below it. It is kept when only the directory itself has to
// stay. A snapshot is what a workspace had before a run.
//
// Promises: what exists is mounted read-only by the cell, after Mounts. What a
// run makes anew is found by Sweep when the run is dead, and moved out of the way
// before anybody sees the result; none remains, or Sweep says so with an error.
// Everything happens by descriptor below the workspace: no link is followed, no
// other file system is entered, nothing but directories and small sealed files is
// ever opened. That holds for a daemon that is root in a user's tree, whatever
// that user's programs do meanwhile. A directory that a run shut is opened by its
// owner's right, or the sweep fails. Everything is bounded: where a run made more
// than can be looked through, the directories that it made are moved away whole,
// and whatever fails, what was found so far is moved.
//
// Names count from the root of the file system on: a directory inside a sealed or
// kept one is refused as a workspace, and one on the way to a sealed path has it
// sealed. Runs under way at once in trees of which one contains the other agree
// on what was there before them (Share), so that none takes another's work for
// what had always been there.
//
// What is sealed can lead elsewhere: a link in its place, also of a directory on
// the way to it, or git's configuration, which says where hooks and further
// configuration are. Links stay as they are (they are put back after the run), and
// where they end in the workspace is sealed as well. What git is in the middle of
// (a rebase) may be gone on with and ended by a run, but what it leaves of it runs
// no program that was not there before.
//
// A mount point that somebody outside the run renames or removes is none any
// more, and the run may write what comes in its place. So a sealed path that is
// another file after the run counts as made by it: it is moved away, and a small
// file is put back as it was.
//
// What it does not do: a sealed path that was changed in place was held all the
// time, and so changed from outside: that is reported and left. Names that only
// some file systems hold for equal are compared by simple case folding, not by
// full normalisation. File systems mounted inside the workspace are read-only for
// the run, because their content is not looked at.
//
// Its words are those of docs/words.md.
package seal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"palyra"
	"palyra/internal/cell"
)

// Limits bound a walk. Zero means the default.
type Limits struct {
	Entries int // files and directories in the workspace; 500,000
	Sealed  int // paths that are sealed or kept; 2,048

	// Closed are absolute paths outside the workspace below which there is what runs
	// made: caches, the quarantine itself. A link that leads there is moved away,
	// because what lies there is not looked at.
	Closed []string

	// Kept is how many bytes of a workspace's sealed paths are kept in quarantine. An
	// item that is more, with what its call has there, is removed; its size and digest
	// are told. 0: there is no bound.
	Kept int64

	settle int64 // seconds, instead of what the file system needs; for tests
	links  int   // symbolic links that no name is about; 50,000, less in tests
}

const (
	defaultEntries = 500_000
	defaultSealed  = 2_048
	defaultLinks   = 50_000
	maxMounts      = 4_096 // what a cell takes
	maxPath        = 4_000 // bytes of a path below the workspace: one system call takes it
	maxNameBytes   = 64 << 20
	maxListing     = 128 << 20 // bytes of the names in one directory
	// slack is how long before a walk a directory must have changed for its ctime to
	// tell of the next change, where the file system counts whole seconds or has its
	// times from elsewhere. tick is the same where it takes them from the kernel's own
	// clock, which advances at least a hundred times a second.
	slack       = 2 * time.Second
	tick        = 50 * time.Millisecond
	sweepFactor = 4 // what of a run is looked at in one pass may be more than it was allowed to start with, up to this
)

func (l Limits) filled() Limits {
	if l.Entries <= 0 {
		l.Entries = defaultEntries
	}
	if l.Sealed <= 0 {
		l.Sealed = defaultSealed
	}
	if l.links <= 0 {
		l.links = defaultLinks
	}
	return l
}

// ErrGone is in the chain of Sweep's error when there is nothing to sweep: the
// workspace is not there any more, or its path leads to another directory.
var ErrGone = errors.New("seal: the workspace is gone")

// ChangedPrefix marks those results of Sweep that were there before and are not
// as they were, and morePrefix the one that says how many are not listed. Paths
// are relative: none that a run makes begins like this.
const (
	ChangedPrefix = "/changed: "
	stayPrefix    = "/stays " // of what somebody should know of: the kind and a colon follow
	morePrefix    = "/more: "
)

// Changed reports whether a result of Sweep is a path that was changed, not
// made, and which.
func Changed(result string) (path string, ok bool) { return strings.CutPrefix(result, ChangedPrefix) }

// Remnant reports whether a result of Sweep is something that stays and somebody
// should know of, and what.
func Remnant(result string) (palyra.Remnant, bool) {
	text, ok := strings.CutPrefix(result, stayPrefix)
	kind, path, found := strings.Cut(text, ": ")
	return palyra.Remnant{Kind: palyra.RemnantKind(kind), Path: path}, ok && found
}

// stays is a result that Remnant reads.
func stays(kind palyra.RemnantKind, path string) string {
	return stayPrefix + string(kind) + ": " + path
}

// More reports whether a result of Sweep is the number of those that are not
// listed, and which.
func More(result string) (n int64, ok bool) {
	text, ok := strings.CutPrefix(result, morePrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Scan walks the workspace and notes what names seal in it. A workspace that
// cannot be sealed is refused with seal_denied: too many entries, a sealed file
// that has a second name somewhere.
func Scan(ctx context.Context, workspace string, names []string, l Limits) (*Snapshot, error) {
	for _, dir := range l.Closed {
		if !filepath.IsAbs(dir) { // it would close nothing
			return nil, fmt.Errorf("seal: scan: closed directory %q is not an absolute path", dir)
		}
	}
	m, err := Compile(names)
	if err != nil {
		return nil, err
	}
	return scan(ctx, workspace, m, l.filled())
}

// ScanAgain is Scan for who has looked before, at was: it finds the same, and reads
// only directories that changed since. Nothing of was changes.
func ScanAgain(ctx context.Context, was *Snapshot) (*Snapshot, error) { return scanAgain(ctx, was) }

// Mounts are the mounts that hold the sealed paths in place, parents first: the
// sealed ones read-only, and every directory on the way to them as it is.
func (s *Snapshot) Mounts() []cell.Seal { return s.mounts() }

// Stale reports whether the workspace has come to need other mounts than those
// of s: a cell that was made for s then is of no use. It reads only directories
// that changed. When it reports false, s has become the present state of the
// workspace, and Sweep will compare with that.
func (s *Snapshot) Stale(ctx context.Context) (bool, error) { return s.stale(ctx) }

// Sweep looks for what a run made, when nothing of the run lives any more. New
// sealed paths are moved to quarantine/<call>/, or, where that is on another file
// system, to .palyra/quarantine/<call>/ in the workspace, under neutral names and
// closed to everybody;
// an index tells which was what. The same happens to what stands in the place of
// a sealed path; where that was a small file, it is written again. It returns
// their paths, relative to the workspace, and those of sealed paths that changed
// in place or are missing, with ChangedPrefix. With an error, sealed paths may be
// left: nothing of the run's may be trusted.
func (s *Snapshot) Sweep(ctx context.Context, quarantine string, call palyra.CallID) (made []string, err error) {
	return s.sweep(ctx, quarantine, call)
}

// Hold keeps the workspace of s open until Release, so that Sweep finds it
// wherever somebody moved it in the meantime. Copies of s share it.
func (s *Snapshot) Hold() error { return s.holdOn() }

// Release ends what Hold began, for all copies.
func (s *Snapshot) Release() {
	if s.hold != nil {
		_ = s.hold.Close() // it was open for nothing but being found
		s.hold = nil
	}
}

// Record is s as a small document, from which Load makes a snapshot that can be
// swept: what a daemon leaves for the case that it dies during a run.
func (s *Snapshot) Record() ([]byte, error) { return s.record() }

// Load reads what Record wrote.
func Load(b []byte) (*Snapshot, error) { return load(b) }

func denied(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied, format, args...)
}
