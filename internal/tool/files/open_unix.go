//go:build unix

package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/tool"
)

// root is an open workspace. Every path is opened relative to its descriptor.
type root struct {
	ctx  context.Context
	fd   int
	path string
	cfg  Config
	left int64 // bytes that may still be read from files that are to change

	masks masking
}

// openRoot opens the workspace of a plan without following any link: the path was resolved when the
// plan was made, so a link in it now was put there since.
func openRoot(ctx context.Context, ref palyra.WorkspaceRef, cfg Config) (*root, error) {
	var fd int
	var err error
	if dir := tool.LayerOf(ctx); dir != nil {
		fd, err = openat(int(dir.Fd()), ".", oPath|unix.O_DIRECTORY, 0)
	} else {
		fd, err = openNoLinks(unix.AT_FDCWD, ref.Path, oPath|unix.O_DIRECTORY)
	}
	if errors.Is(err, unix.EACCES) {
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied,
			"uid %d, as whom the work is done, cannot reach the workspace %s", ref.Owner, quote(ref.Path)).
			WithRemedy("let its owner pass through the directories above it").WithCause(err)
	}
	if err != nil {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the workspace %s can no longer be opened", quote(ref.Path)).
			WithRemedy("check the directory and propose the call anew").WithCause(err)
	}
	r := &root{ctx: ctx, fd: fd, path: ref.Path, cfg: cfg, left: cfg.MaxFile}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		r.close()
		return nil, fail("look at", ref.Path, err)
	}
	if os.Geteuid() == 0 && int64(st.Uid) != ref.Owner {
		r.close()
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the workspace %s has another owner now", quote(ref.Path)).
			WithRemedy("check the directory and propose the call anew")
	}
	return r, nil
}

func (r *root) close() { _ = unix.Close(r.fd) }

// open opens rel below the root, through no link.
func (r *root) open(rel string, flags int) (int, error) { return openBeneath(r.fd, rel, flags) }

// dir opens a directory below the root, to read or change its entries.
func (r *root) dir(rel string) (*os.File, error) {
	fd, err := r.open(rel, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// regular opens a file below the root for reading and makes sure that it is a regular one. It checks the kind
// before the open as well, because opening a pipe or a device can already have an effect.
func (r *root) regular(rel string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	parent, err := r.open(path.Dir(rel), oPath|unix.O_DIRECTORY)
	if err != nil {
		return nil, st, fail("open", rel, err)
	}
	defer func() { _ = unix.Close(parent) }()
	return regularAt(parent, path.Base(rel), rel)
}

// regularAt is regular for an entry of an open directory.
func regularAt(dir int, name, rel string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, st, fail("open", rel, err)
	}
	if err := kind(rel, &st); err != nil {
		return nil, st, err
	}
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, st, fail("read", rel, err)
	}
	f := os.NewFile(uintptr(fd), rel)
	if err = unix.Fstat(fd, &st); err == nil {
		err = kind(rel, &st)
	}
	if err != nil {
		_ = f.Close()
		return nil, st, fail("read", rel, err)
	}
	return f, st, nil
}

// kind refuses everything but a regular file.
func kind(rel string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFLNK:
		return linked(rel)
	case unix.S_IFDIR:
		return irregular(rel, "a file but a directory")
	}
	return irregular(rel, "a regular file")
}

// readAll reads a file that must not be larger than most, even when it grows meanwhile.
func readAll(f *os.File, rel string, most int64) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fail("read", rel, err)
	}
	b := bytes.NewBuffer(make([]byte, 0, min(max(st.Size(), 0), most)+bytes.MinRead)) // allocated once, with the right size
	if _, err := b.ReadFrom(io.LimitReader(f, most+1)); err != nil {
		return nil, fail("read", rel, err)
	}
	if int64(b.Len()) > most {
		return nil, tooLarge(rel, most)
	}
	return b.Bytes(), nil
}

// openat opens one component, closed on exec, repeated when a signal breaks in.
func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// walkOpen opens rel one component at a time, following no link. It does what
// openat2 does in one step, for kernels that lack it.
func walkOpen(dir int, rel string, flags int) (int, error) {
	names := strings.Split(strings.TrimPrefix(rel, "/"), "/")
	at, err := dir, error(nil)
	if path.IsAbs(rel) {
		if at, err = openat(unix.AT_FDCWD, "/", oPath|unix.O_DIRECTORY, 0); err != nil {
			return -1, err
		}
	}
	for i, name := range names {
		how := oPath | unix.O_DIRECTORY
		if i == len(names)-1 {
			how = flags
		}
		next, err := -1, error(unix.EXDEV)
		if name != ".." {
			next, err = openat(at, name, how|unix.O_NOFOLLOW, 0)
		}
		if err == unix.ENOTDIR && isLink(at, name) {
			err = unix.ELOOP
		}
		if at != dir {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

func isLink(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}
