package quarantine

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/subpath"
)

// WorkspaceName is the file that says which workspace a call's items come from.
const WorkspaceName = "workspace"

// leaving marks the directory of a call that is being removed.
const leaving = ".leaving-"

// stay is the directory of a call.
type stay struct {
	call, workspace string
	bytes           int64
	at              time.Time
}

// stays are the calls of a quarantine, the oldest first, with what used says of each.
func stays(dir string, used func(dir string) int64) (out []stay, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		fi, no := e.Info()
		if no != nil || !e.IsDir() || !subpath.PlainID(e.Name()) {
			continue
		}
		s := stay{call: e.Name(), at: fi.ModTime(), bytes: used(filepath.Join(dir, e.Name()))}
		if f, err := plain(filepath.Join(dir, e.Name(), WorkspaceName)); err == nil {
			text, _ := io.ReadAll(io.LimitReader(f, maxPath))
			_ = f.Close()
			s.workspace = string(text)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b stay) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.call, b.call)) })
	return out, err
}

// Used is what the items of a call take, by its index. Those of an index that tells
// no sizes, as earlier versions wrote it, count as little.
func Used(dir string) (bytes int64) {
	f, err := plain(filepath.Join(dir, IndexName))
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	items, _ := ReadIndex(io.LimitReader(f, maxIndex)) // what can be read of it counts
	for _, i := range items {
		if !i.Removed {
			bytes = sum(bytes, max(i.Bytes, entryCost))
		}
	}
	return bytes
}

// Measured is what the directory of a call takes on the disk, whatever its index says:
// where others can write that, it is no evidence. Once it is more than most, how much more
// is not looked for; what cannot be looked at to its end is taken for that.
func Measured(dir string, most int64) (bytes int64) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	f := os.NewFile(uintptr(fd), dir)
	defer func() { _ = f.Close() }()
	for bytes <= most {
		names, _ := f.Readdirnames(batch / 256)
		if len(names) == 0 {
			break
		}
		for _, name := range names {
			err := walk(fd, name, "", 0, func(_ int, _, _ string, st *unix.Stat_t) error {
				if bytes = sum(bytes, max(st.Blocks*512, entryCost)); bytes > most {
					return errMuch
				}
				return nil
			})
			if shut(fd, name); err != nil && !errors.Is(err, unix.ENOENT) && bytes <= most {
				bytes = sum(most, 1)
			}
		}
	}
	return bytes
}

// shut closes the box of an item, which a look opened.
func shut(dir int, name string) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0)
		_ = unix.Close(fd)
	}
}

// sum adds sizes, none of which is negative; it ends at the greatest there is.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// maxIndex is how much of an index counts.
const maxIndex = 64 << 20

// plain opens a file for reading, whatever somebody put in its place.
func plain(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(fs.ErrInvalid, err, f.Close())
	}
	return f, nil
}

// NoteWorkspace writes down in the directory of a call which workspace its items come from, once.
func NoteWorkspace(dir int, workspace string) error {
	fd, err := unix.Openat(dir, WorkspaceName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(workspace))
	return errors.Join(err, unix.Close(fd))
}

// Usage is how many calls have something in a quarantine, and what that takes.
func Usage(dir string) (calls int, bytes int64) {
	all, _ := stays(dir, Used) // what cannot be seen is not told
	for _, s := range all {
		bytes = sum(bytes, s.bytes)
	}
	return len(all), bytes
}

// Limits bound a quarantine. Zero: there is no bound.
type Limits struct {
	Total     int64 // bytes of everything
	Workspace int64 // of what comes from one workspace
	Measure   bool  // sizes are measured: others can write the index
}

// Trim removes the oldest calls until a quarantine is within its limits: those of the workspace of a call first,
// then whosever. Its own items stay, and those of calls that are busy. It returns which calls it removed.
func Trim(dir, call string, busy func(call string) bool, l Limits) (gone []string, err error) {
	used := Used
	if l.Measure {
		used = func(dir string) int64 { return Measured(dir, l.Total) }
	}
	all, err := stays(dir, used)
	if err != nil {
		return nil, err
	}
	workspace := ""
	if i := slices.IndexFunc(all, func(s stay) bool { return s.call == call }); i >= 0 {
		workspace = all[i].workspace
	}
	var errs []error
	drop := func(limit int64, of func(stay) bool) {
		total := int64(0)
		for _, s := range all {
			if of(s) {
				total = sum(total, s.bytes)
			}
		}
		all = slices.DeleteFunc(all, func(s stay) bool {
			if limit <= 0 || total <= limit || s.call == call || !of(s) || busy(s.call) {
				return false
			}
			if err := Remove(dir, s.call); err != nil {
				errs = append(errs, err)
				return false
			}
			total -= s.bytes
			gone = append(gone, s.call)
			return true
		})
	}
	if workspace != "" {
		drop(l.Workspace, func(s stay) bool { return s.workspace == workspace })
	}
	drop(l.Total, func(stay) bool { return true })
	return gone, errors.Join(errs...)
}

// Remove removes what a call has in a quarantine. What is there has another name
// from the beginning on, so that nothing finds it half there.
func Remove(dir, call string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.Renameat(fd, call, fd, leaving+call)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) { // one that was cut off
		if err = remove(fd, leaving+call); err == nil {
			err = unix.Renameat(fd, call, fd, leaving+call)
		}
	}
	if err != nil {
		return err
	}
	return remove(fd, leaving+call)
}

// Shut closes every directory of an item, as they are closed when they are filled:
// those of earlier versions, and of a daemon that died meanwhile.
func Shut(dir string) error {
	calls, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, c := range calls {
		if !c.IsDir() || !subpath.PlainID(c.Name()) {
			continue
		}
		at := filepath.Join(dir, c.Name())
		items, err := os.ReadDir(at)
		errs = append(errs, err)
		for _, i := range items {
			if i.IsDir() {
				errs = append(errs, unix.Fchmodat(unix.AT_FDCWD, filepath.Join(at, i.Name()), 0, 0))
			}
		}
	}
	return errors.Join(errs...)
}
