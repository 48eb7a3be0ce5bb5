package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/stage/steps"
)

// What the overlay says of the entries of its upper layer.
const (
	xattrs     = "user.overlay."
	xattrWhole = xattrs + "opaque" // nothing of the lower layer shows through
	xattrFrom  = xattrs + "origin" // it was there in the lower layer
)

// reader turns an upper layer into steps.
type reader struct {
	*Stage
	ctx       context.Context
	upper, ws int
	names     Names
	since     unix.Timespec

	steps  []steps.Step
	taken  []taken
	files  []file // that the run made or changed, whatever becomes of them
	out    Settled
	seen   change.Set
	gone   []found // by the removal that is looked at
	count  int
	text   int // bytes of all paths
	bytes  int64
	old    int64  // bytes on disk of what was there
	buf    []byte // for content that is read
	copied int64  // bytes of files with several names
	most   int64  // bytes of content that may be read; 0: all

	later    bool              // digests are taken when all is found
	unread   []unread          // files without them
	again    bool              // it was read before: what stays is what was to stay then
	firmly   map[string]firm   // what Names said of paths
	unlocked []dirMode         // directories of the stage that were opened to be read
	shut     map[string]uint32 // those that were so when it was read before, with their modes
	opened   []dirMode         // directories of the workspace that were opened to be read
	refused  int               // things that are never kept, whatever they are called
	looks    bool              // nothing on the stage is changed
	theirs   []string          // paths that somebody else changed
}

// dirMode is a directory and its mode.
type dirMode struct {
	path string
	mode uint32
}

// scope is what is known of a directory before its entries are looked at.
type scope struct {
	fresh  bool // the workspace has nothing there, or will have nothing by then
	sealed bool // it lies in something that must stay as it is
}

// dirEntry is one name of a directory of the upper layer.
type dirEntry struct {
	name string
	st   unix.Stat_t
}

// dir reads a directory of the stage.
func (r *reader) dir(rel string, in scope) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	entries, err := r.list(rel)
	if err != nil {
		return err
	}
	if in.fresh && r.quarantine != nil && r.repository(entries) {
		return errRepository
	}
	for _, e := range entries {
		p := beneath.Join(rel, e.name)
		if r.count++; r.count > r.of.limits.Entries {
			return tooMany("%d names", r.of.limits.Entries)
		}
		if r.text += len(p); len(p) > mostPath || r.text > mostNames {
			return tooMany("paths of %d bytes, or of %d together", mostPath, mostNames)
		}
		if err := r.entry(p, &e.st, in); err != nil {
			return err
		}
	}
	return nil
}

// list reads the names of a directory and looks at each.
func (r *reader) list(rel string) ([]dirEntry, error) {
	fd, err := beneath.OpenIn(r.upper, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := listNames(fd, r.of.limits.Entries-r.count)
	if err != nil {
		return nil, err
	}
	entries := make([]dirEntry, 0, len(names))
	for _, n := range names {
		e := dirEntry{name: n}
		if err := unix.Fstatat(fd, n, &e.st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// entry decides about one name.
func (r *reader) entry(p string, st *unix.Stat_t, at scope) error {
	var now unix.Stat_t
	there := false
	if !at.fresh {
		err := beneath.InParent(r.ws, p, func(dir int, name string) error { return unix.Fstatat(dir, name, &now, unix.AT_SYMLINK_NOFOLLOW) })
		if there = err == nil; !there && !errors.Is(err, unix.ENOENT) {
			return r.collide(p, st, at)
		}
	}
	if r.firm(p, st, &now, there, &at) {
		if !r.ours(p, st) {
			r.refuse(p, sealedPath)
		}
		return nil
	}
	white := st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
	if !there && !white && r.quarantine != nil && r.quarantine.New(p) && !r.ours(p, st) {
		r.take(p, st)
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return r.directory(p, st, &now, there, at)
	case unix.S_IFCHR:
		if white {
			return r.whiteout(p, &now, there)
		}
		r.refuse(p, "a device")
	case unix.S_IFBLK:
		r.refuse(p, "a device")
	case unix.S_IFSOCK:
		r.refuse(p, "a socket")
	default:
		return r.file(p, st, &now, there, at.fresh)
	}
	return nil
}

// firm reports whether what is in the workspace stays, whatever the run did there:
// what is sealed, all that lies in it, and directories that are kept. A sealed
// path that was not there is not meant: whoever looks for new ones finds it.
func (r *reader) firm(p string, st, now *unix.Stat_t, there bool, at *scope) bool {
	stays := r.stays(p, there)
	sealed, kept := at.sealed || stays.sealed, stays.kept
	both := there && beneath.IsDir(st) && beneath.IsDir(now)
	if both && !r.whole(p) { // what is in it is looked at
		at.sealed = sealed
		return false
	}
	return sealed || kept
}

// stays is what Names says of a path, or said when the stage was read first.
func (r *reader) stays(p string, there bool) (f firm) {
	if r.again {
		return r.firmly[p]
	}
	if there && r.names != nil {
		f.sealed, f.kept = r.names(p)
	}
	if f != (firm{}) && r.firmly != nil {
		r.firmly[p] = f
	}
	return f
}

// whole reports whether a directory of the stage lets nothing show through.
func (r *reader) whole(p string) (whole bool) {
	_ = beneath.InParent(r.upper, p, func(dir int, name string) error {
		own, err := ownXattrs(beneath.ProcName(dir, name))
		whole = err != nil || slices.Contains(own, xattrWhole)
		return nil
	})
	return whole
}

// ours reports whether an entry of the stage is what was put there before the run.
func (r *reader) ours(p string, st *unix.Stat_t) bool {
	was, placed := r.placed[p]
	if placed && was.source == (beneath.Mark{}) {
		return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
	}
	return r.unchanged(p, st)
}

// sealedPath is why a path is not kept whose name says that it stays.
const sealedPath = "sealed"

func (r *reader) refuse(p, why string) {
	if why != sealedPath {
		r.refused++
	}
	r.out.Refused = change.AppendShort(r.out.Refused, change.Quoted(p)+": "+why)
}

func (r *reader) conflict(p string) {
	r.theirs = append(r.theirs, p)
	r.out.Conflicts = change.AppendShort(r.out.Conflicts, change.Quoted(p))
}

// others reports whether somebody changed a file of the workspace since the run began.
func (r *reader) others(st *unix.Stat_t) bool { return !beneath.Later(r.since, st.Ctim) }

// whiteout: the run removed what was there, unless it is the mark that was put in the
// place of a file which was not to be.
func (r *reader) whiteout(p string, at *unix.Stat_t, there bool) error {
	was, ours := r.placed[p]
	switch {
	case !there || ours && was.source == beneath.Mark{}:
		return nil
	case ours && beneath.MarkOf(at) != was.source: // the run had the copy, and somebody changed the file
		r.conflict(p)
		return nil
	}
	return r.clear(p, at)
}

// clear takes away what is in the workspace at a path, unless others changed it.
func (r *reader) clear(p string, at *unix.Stat_t) error {
	r.gone = r.gone[:0]
	free, err := r.untouched(p, at)
	if err == nil && free {
		free, err = r.removes()
	}
	if err != nil {
		return err
	}
	if !free {
		r.conflict(p)
		return nil
	}
	r.add(steps.Step{Do: steps.Away, Path: []byte(p), Was: mark(at)})
	return nil
}

// untouched looks through all that a removal would take.
func (r *reader) untouched(p string, at *unix.Stat_t) (bool, error) {
	if r.others(at) && !r.stirs[beneath.MarkOf(at)] {
		return false, nil
	}
	if r.stays(p, true) != (firm{}) {
		r.refuse(p, sealedPath)
		return false, nil
	}
	if r.text += len(p); r.text > mostNames {
		return false, tooMany("paths of %d bytes together", mostNames)
	}
	r.gone = append(r.gone, found{p, *at})
	if !beneath.IsDir(at) {
		return true, nil
	}
	if r.ajar(p, at) != nil {
		return false, nil // nobody could say what is in it
	}
	fd, err := beneath.OpenIn(r.ws, p, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false, nil
	}
	defer func() { _ = unix.Close(fd) }()
	names, err := listNames(fd, r.of.limits.Entries-r.count)
	if err != nil {
		return false, err
	}
	for _, n := range names {
		if r.count++; r.count > r.of.limits.Entries {
			return false, tooMany("%d names", r.of.limits.Entries)
		}
		var st unix.Stat_t
		if err := unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return false, nil
		}
		if free, err := r.untouched(p+"/"+n, &st); err != nil || !free {
			return false, err
		}
	}
	return true, nil
}

// file is a regular file, a symbolic link or a pipe that the run made or changed.
func (r *reader) file(p string, st, at *unix.Stat_t, there, fresh bool) error {
	if r.unchanged(p, st) {
		return nil
	}
	if err := r.note(p, st); err != nil {
		return err
	}
	was, ours := r.placed[p]
	had, err := r.clean(p, st)
	if err == nil {
		err = r.apart(p, st)
	}
	if err != nil {
		return err
	}
	switch {
	case !there && !fresh && (had && r.stirred(beneath.Parent(p)) || ours && was.source != beneath.Mark{}): // somebody removed it
		r.conflict(p)
		return nil
	case there && beneath.IsDir(at):
		if err := r.clear(p, at); err != nil {
			return err
		}
	case there && r.others(at):
		r.conflict(p)
		return nil
	}
	if free, err := r.replaces(p, st, at, there && !beneath.IsDir(at)); err != nil || !free {
		return err
	}
	put := steps.Step{Do: steps.Put, Path: []byte(p), New: &[2]uint64{uint64(st.Dev), st.Ino}}
	if there && !beneath.IsDir(at) {
		put.Was = mark(at)
	}
	r.add(put)
	return nil
}

// stirred reports whether somebody changed what a directory of the workspace holds. A file that was there before
// the run, by what the overlay says of it, can have been there under another name.
func (r *reader) stirred(rel string) bool {
	fd, err := beneath.OpenIn(r.ws, rel, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return true
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || r.others(&st)
}

// unchanged reports whether a file of the stage is the copy that was put there.
func (r *reader) unchanged(p string, st *unix.Stat_t) bool {
	was, ours := r.placed[p]
	if !ours || was.source == (beneath.Mark{}) {
		return false
	}
	now := beneath.MarkOf(st)
	if now == was.copy {
		return true
	}
	if now.Mode != was.copy.Mode || now.Size != was.copy.Size || was.Digest == "" {
		return false
	}
	f, _, err := beneath.OpenRegular(r.upper, p)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return err == nil && "sha256:"+hex.EncodeToString(h.Sum(nil)) == was.Digest
}

func (r *reader) add(s steps.Step) { r.steps = append(r.steps, s) }

// mark is the mark of what a step takes away, replaces or gives a mode.
func mark(st *unix.Stat_t) *beneath.Mark {
	m := beneath.MarkOf(st)
	return &m
}
