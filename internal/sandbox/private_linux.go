package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/beneath"
)

// privateDirs is the parent of private directories. It is held by descriptor, and they are made and
// removed below that, not by path.
type privateDirs struct {
	dir    *os.File
	path   string
	closed string // a directory above that others cannot pass; "": none
}

// privateMode lets others pass but not list.
const privateMode = 0o711

// openPrivateDirs makes the directory if it is missing and refuses one that others can use.
func openPrivateDirs(path string) (*privateDirs, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("directory %q is not absolute", path)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	path = filepath.Join(parent, filepath.Base(path))
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, unsafeDir(path, "it is not a directory, or a link to one").WithCause(err)
	}
	d := &privateDirs{dir: os.NewFile(uintptr(fd), path), path: path}
	if err := d.secure(); err != nil {
		return nil, errors.Join(err, d.dir.Close())
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil { // another daemon would take its content for left behind
		return nil, errors.Join(palyra.Errorf(palyra.Conflict, palyra.ReasonSecondDaemon,
			"another daemon keeps the private directories of its runs in %s", show(path)).
			WithRemedy("stop that one, or set process.dir to a directory of this daemon's own").WithCause(err), d.dir.Close())
	}
	d.closed = barred(parent)
	return d, nil
}

func (d *privateDirs) secure() error {
	var st unix.Stat_t
	switch err := unix.Fstat(d.fd(), &st); {
	case err != nil:
		return err
	case int(st.Uid) != os.Geteuid():
		return unsafeDir(d.path, fmt.Sprintf("it belongs to uid %d", st.Uid))
	case st.Mode&0o022 != 0:
		return unsafeDir(d.path, "others may write to it")
	}
	return unix.Fchmod(d.fd(), privateMode)
}

func (d *privateDirs) fd() int { return int(d.dir.Fd()) }

func unsafeDir(path, why string) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s cannot hold the private directories of runs: %s", show(path), why).
		WithRemedy("remove it; it is made again")
}

// barred returns the first directory, from path upwards, that other users cannot pass through.
func barred(path string) string {
	for {
		if fi, err := os.Stat(path); err != nil || fi.Mode()&0o001 == 0 {
			return path
		}
		up := filepath.Dir(path)
		if up == path {
			return ""
		}
		path = up
	}
}

// make makes the private directory of a run.
func (d *privateDirs) make(call palyra.CallID, who identity) (*privateDir, error) {
	if d.closed != "" && who.uid != os.Geteuid() {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsafePermissions,
			"uid %d could not reach its private directory: %s is closed to it", who.uid, show(d.closed)).
			WithRemedy("let others pass through it ('chmod o+x %s'), or have the daemon keep runs elsewhere", show(d.closed))
	}
	name, err := privateName(call)
	if err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(d.fd(), name, 0o700); err != nil {
		return nil, fmt.Errorf("sandbox: room: %w", err)
	}
	r := &privateDir{name: name, path: filepath.Join(d.path, name), who: who}
	if err := d.furnish(r); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: room: %w", err), d.remove(name))
	}
	return r, nil
}

// furnish makes the parts of a private directory, and opens the directory itself last.
func (d *privateDirs) furnish(r *privateDir) error {
	dir, err := beneath.OpenDir(d.fd(), r.name)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd, us, them := int(dir.Fd()), os.Geteuid(), r.who
	for _, sub := range []struct {
		name string
		uid  int
		mode uint32
	}{{homeDir, them.uid, 0o700}, {tmpDir, them.uid, 0o700}, {exeDir, us, 0o750}} {
		if err := unix.Mkdirat(fd, sub.name, 0o700); err != nil {
			return err
		}
		if err := beneath.Give(fd, sub.name, sub.uid, them.gid, sub.mode); err != nil {
			return err
		}
	}
	return beneath.Give(d.fd(), r.name, us, them.gid, 0o710)
}

// list returns the names of all private directories.
func (d *privateDirs) list() ([]string, error) {
	f, err := beneath.OpenDir(d.fd(), ".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && isPrivateName(e.Name()) { // anything else is not ours to remove
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// remove removes a private directory with everything in it. Files of the run's user are removed
// with that user's rights.
func (d *privateDirs) remove(name string) error {
	dir, err := beneath.OpenDir(d.fd(), name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox: remove %s: %w", name, err)
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("sandbox: remove %s: %w", name, err)
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, clearOut(int(dir.Fd()), e))
	}
	errs = append(errs, unix.Unlinkat(d.fd(), name, unix.AT_REMOVEDIR))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sandbox: remove %s: %w", name, err)
	}
	return nil
}

// clearOut removes one entry of a private directory.
func clearOut(dir int, name string) error {
	if unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) == nil { // most runs leave it empty
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.Unlinkat(dir, name, 0)
	}
	top, err := beneath.OpenDir(dir, name)
	if err != nil {
		return err
	}
	defer top.Close()
	if err := runAs(identity{int(st.Uid), int(st.Gid)}, func() error { return beneath.Empty(top) }); err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

func (d *privateDirs) close() error { return d.dir.Close() }
