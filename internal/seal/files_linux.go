package seal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/gitfile"
)

// maxRaces is how often an open is repeated because of concurrent renames.
const maxRaces = 64

// tree is a workspace, held open.
type tree struct {
	fd   int
	id   ident
	mnt  uint64 // id of its mount; 0 where the kernel does not tell
	uid  uint32 // of the directory
	gid  uint32
	euid int
	sure bool // its file system keeps directories' times reliably
	firm bool // and directories keep their inode numbers

	own *[]gitfile.Reference // references of the owner's git configuration; nil: not read yet
}

// openTree opens a workspace by its path, no part of which may be a link.
func openTree(path string) (*tree, error) {
	fd, err := openHow(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if errors.Is(err, unix.ENOSYS) {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "this kernel cannot open a path without following links").
			WithRemedy("sealed paths need Linux 5.8 or newer, and openat2 allowed in containers")
	}
	if err != nil {
		return nil, fmt.Errorf("seal: open workspace: %w", err)
	}
	return newTree(fd)
}

// newTree takes over a descriptor.
func newTree(fd int) (*tree, error) {
	t := &tree{fd: fd, euid: os.Geteuid()}
	t.sure, t.firm = reliable(fd)
	st, err := t.look(fd, "")
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("seal: stat workspace: %w", err)
	}
	t.id, t.mnt, t.uid, t.gid = st.id, st.mnt, st.uid, st.gid
	return t, nil
}

// open opens the workspace of s: the held one, if there is one.
func (s *Snapshot) open() (*tree, error) {
	if s.hold == nil {
		t, err := openTree(s.workspace)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			err = denied("the workspace %q is not there any more", s.workspace).WithCause(errors.Join(ErrGone, err))
		}
		return t, err
	}
	fd, err := unix.FcntlInt(s.hold.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("seal: open workspace: %w", err)
	}
	return newTree(fd)
}

// holdOn keeps the workspace open.
func (s *Snapshot) holdOn() error {
	t, err := s.open()
	if err != nil {
		return err
	}
	if t.id != s.root {
		t.close()
		return denied("the workspace %q has become another directory", s.workspace).WithCause(ErrGone)
	}
	s.hold = os.NewFile(uintptr(t.fd), s.workspace)
	return nil
}

func (t *tree) close() { _ = unix.Close(t.fd) }

// open opens a path below the workspace: through no link, never outside, on the same mount.
func (t *tree) open(path string, flags int) (int, error) {
	path = cmp.Or(path, ".")
	return openHow(t.fd, path, flags, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS|unix.RESOLVE_NO_XDEV)
}

func openHow(dir int, path string, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Resolve: resolve}
	for races := 0; ; {
		fd, err := unix.Openat2(dir, path, &how)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && races < maxRaces:
			races++
		default:
			return fd, err
		}
	}
}

// status holds the attributes of a file.
type status struct {
	id           ident
	mnt          uint64
	mode         uint32
	links        uint32
	uid, gid     uint32
	size         uint64
	mtime, ctime stamp
	born         stamp // zero where the file system does not know
}

func (s *status) dir() bool { return s.mode&unix.S_IFMT == unix.S_IFDIR }

// look returns the status of a name in dir, or of dir itself. It follows no link, and does not wait
// for a mounted network file system: it uses what the kernel has cached.
func (t *tree) look(dir int, name string) (status, error) {
	s, err := statx(dir, name, unix.AT_STATX_DONT_SYNC)
	if err == nil && !t.sure && s.mnt == t.mnt {
		return statx(dir, name, unix.AT_STATX_SYNC_AS_STAT)
	}
	return s, err
}

func statx(dir int, name string, flags int) (status, error) {
	flags |= unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var x unix.Statx_t
	for {
		err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME|unix.STATX_MNT_ID, &x)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return status{}, err
		}
	}
	s := status{
		id: ident{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino}, mode: uint32(x.Mode), links: x.Nlink, uid: x.Uid, gid: x.Gid, size: x.Size,
		mtime: stamp{x.Mtime.Sec, x.Mtime.Nsec}, ctime: stamp{x.Ctime.Sec, x.Ctime.Nsec},
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		s.born = stamp{x.Btime.Sec, x.Btime.Nsec}
	}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		s.mnt = x.Mnt_id
	}
	return s, nil
}

// chmod changes the mode of fd, which may be open for reference only.
func chmod(fd int, mode uint32) error {
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode&0o7777)
}

// reliable reports of a file system whether it changes a directory's ctime with every entry, by the
// kernel's own clock; and whether a directory keeps its inode number, which it does not where an
// overlay copies it up from a lower layer.
func reliable(fd int) (times, numbers bool) {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false, false
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC:
		return true, true
	case unix.OVERLAYFS_SUPER_MAGIC:
		return true, false
	}
	return false, false
}
