// Package seal protects those paths of a workspace that other programs take orders from: git's
// hooks and configuration, editors' and CI's files, agents' own settings. A run may write anywhere
// in its workspace, but what it writes there must not be executed later, outside any sandbox.
//
// Words: a name says which paths are sealed, at any depth (see Default for the list, Compile for
// the grammar). A path is sealed when a name fits it: nothing may change in or below it. It is kept
// when only the directory itself has to stay. A snapshot is the state of a workspace before a run.
//
// Promises: existing paths are mounted read-only by the cell, after Mounts. New ones that a run makes are found by
// Sweep when the run is dead, and moved out of the way before anybody sees the result; none remains, or Sweep
// returns an error. Everything happens by descriptor below the workspace: no link is followed, no other file system
// is entered, nothing but directories and small sealed files is ever opened. That holds for a daemon that is root
// in a user's tree, whatever that user's programs do meanwhile. A directory that a run closed is opened by its
// owner's right, or the sweep fails. Everything is bounded: where a run made more than can be looked through, the
// directories that it made are moved away whole, and whatever fails, the finds so far are moved.
//
// Names count from the root of the file system on: a directory inside a sealed or kept one is
// refused as a workspace, and one on the way to a sealed path has it sealed. Runs under way at once
// in trees of which one contains the other agree on the state before them (Share), so that none
// takes another's work for something that had always been there.
//
// A sealed path can lead elsewhere: by a link in its place, also of a directory on the way to it, or by git's
// configuration, which names hooks and further configuration. Links stay unchanged (they are restored after the
// run), and where they end in the workspace is sealed as well. A run may continue and end an unfinished operation
// of git (a rebase), but what it leaves of it may run no program that was not there before.
//
// A mount point that somebody outside the run renames or removes is unmounted, and the run may
// write the file that comes in its place. So a sealed path that is another file after the run
// counts as made by it: it is moved away, and a small file is restored.
//
// What it does not do: a sealed path that changed in place was held all the time, and so was
// changed from outside: that is reported and left. Names that only some file systems take for equal
// are compared by simple case folding, not by full normalisation. File systems mounted inside the
// workspace are read-only for the run, because their content is not looked at.
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

// Limits bounds a walk. Zero means the default.
type Limits struct {
	Entries int // files and directories in the workspace; 500,000
	Sealed  int // paths that are sealed or kept; 2,048

	// Closed are absolute paths outside the workspace below which runs leave files: caches, the quarantine
	// itself. A link that leads there is moved away, because those files are not looked at.
	Closed []string

	// Repository is one outside whose work tree the workspace is: its configuration counts like one of a repository inside.
	Repository palyra.Repository

	// Kept is how many bytes of a workspace's sealed paths are kept in quarantine. An item that exceeds it,
	// with the call's other items, is removed, and its size and digest are reported. 0: no limit.
	Kept int64

	settle int64 // seconds, instead of the file system's own; for tests
	links  int   // symbolic links that no name matches; 50,000, less in tests
}

const (
	defaultEntries = 500_000
	defaultSealed  = 2_048
	defaultLinks   = 50_000
	maxMounts      = 4_096 // most mounts of a cell
	maxPath        = 4_000 // bytes of a path below the workspace, within one system call's limit
	maxNameBytes   = 64 << 20
	maxListing     = 128 << 20 // bytes of the names in one directory
	// slack is how long before a walk a directory must have changed for its ctime to show the next change, where the
	// file system counts whole seconds or has its times from elsewhere. tick is the same where it takes them from the
	// kernel's own clock, which advances at least a hundred times a second.
	slack       = 2 * time.Second
	tick        = 50 * time.Millisecond
	sweepFactor = 4 // one pass of a sweep looks at up to so many times the entries that a run may start with
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

// ErrGone is in the chain of Sweep's error when there is nothing to sweep: the workspace was
// removed, or its path leads to another directory.
var ErrGone = errors.New("seal: the workspace is gone")

// ChangedPrefix marks those results of Sweep that existed before and changed, and morePrefix the one with the
// number of unlisted results. Paths are relative: none that a run makes begins like this.
const (
	ChangedPrefix = "/changed: "
	stayPrefix    = "/stays " // of remnants: the kind and a colon follow
	morePrefix    = "/more: "
)

// Changed reports whether a result of Sweep is a path that was changed, not made, and returns the path.
func Changed(result string) (path string, ok bool) { return strings.CutPrefix(result, ChangedPrefix) }

// Remnant reports whether a result of Sweep is a remnant, and returns it.
func Remnant(result string) (palyra.Remnant, bool) {
	text, ok := strings.CutPrefix(result, stayPrefix)
	kind, path, found := strings.Cut(text, ": ")
	return palyra.Remnant{Kind: palyra.RemnantKind(kind), Path: path}, ok && found
}

// stays is the result of Sweep for a remnant, which Remnant reads.
func stays(kind palyra.RemnantKind, path string) string {
	return stayPrefix + string(kind) + ": " + path
}

// More reports whether a result of Sweep is the number of unlisted ones, and returns it.
func More(result string) (n int64, ok bool) {
	text, ok := strings.CutPrefix(result, morePrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Scan walks the workspace and notes the paths that names seal in it. It refuses, with seal_denied, a workspace
// that cannot be sealed: too many entries, or a sealed file with a second name somewhere.
func Scan(ctx context.Context, workspace string, names []string, l Limits) (*Snapshot, error) {
	for _, dir := range l.Closed {
		if !filepath.IsAbs(dir) { // a relative path would close nothing
			return nil, fmt.Errorf("seal: scan: closed directory %q is not an absolute path", dir)
		}
	}
	m, err := Compile(names)
	if err != nil {
		return nil, err
	}
	return scan(ctx, workspace, m, l.filled())
}

// ScanAgain is Scan after an earlier look, was: it finds the same, and reads only directories that
// changed since. Nothing of was changes.
func ScanAgain(ctx context.Context, was *Snapshot) (*Snapshot, error) { return scanAgain(ctx, was) }

// Mounts lists the mounts that hold the sealed paths in place, parents first: the sealed ones
// read-only, and every directory on the way to them unchanged.
func (s *Snapshot) Mounts() []cell.Seal { return s.mounts() }

// Stale reports whether the workspace now needs other mounts than those of s, so that a cell made
// for s cannot be used. It reads only directories that changed. When it reports false, s has become
// the present state of the workspace, and Sweep will compare with that.
func (s *Snapshot) Stale(ctx context.Context) (bool, error) { return s.stale(ctx) }

// Sweep finds what a run made, when nothing of the run lives any more. New sealed paths are moved to
// quarantine/<call>/, or, where that is on another file system, to .palyra/quarantine/<call>/ in the workspace,
// under neutral names and closed to everybody; an index has their paths. The same happens to a file in the place of
// a sealed path; where that was a small file, it is restored. Sweep returns their paths, relative to the workspace,
// and those of sealed paths that changed in place or are missing, with ChangedPrefix. With an error, sealed paths
// may be left: nothing of the run's may be trusted.
func (s *Snapshot) Sweep(ctx context.Context, quarantine string, call palyra.CallID) (made []string, err error) {
	return s.sweep(ctx, quarantine, call)
}

// Hold keeps the workspace of s open until Release, so that Sweep finds it even after somebody
// moved it. Copies of s share it.
func (s *Snapshot) Hold() error { return s.holdOn() }

// Release ends what Hold began, for all copies.
func (s *Snapshot) Release() {
	if s.hold != nil {
		_ = s.hold.Close() // it was only a reference
		s.hold = nil
	}
}

// Record returns s as a small document, from which Load makes a snapshot that can be swept. A
// daemon keeps it in case it dies during a run.
func (s *Snapshot) Record() ([]byte, error) { return s.record() }

// Load reads what Record wrote.
func Load(b []byte) (*Snapshot, error) { return load(b) }

func denied(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied, format, args...)
}
