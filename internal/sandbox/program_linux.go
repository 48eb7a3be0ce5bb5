package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

// maxSealed is the largest copy; budget bounds all of them together.
const maxSealed = 256 << 20

// fileID changes whenever a file's content does.
type fileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

func idOf(st *unix.Stat_t) fileID {
	return fileID{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim}
}

// sums compares programs with their plans. It caches digests of files that a run's user cannot write.
type sums struct {
	now func() time.Time
	mu  sync.Mutex
	of  map[fileID]palyra.Digest
}

func newSums(now func() time.Time) *sums { return &sums{now: now, of: map[fileID]palyra.Digest{}} }

// verify makes sure that the file at the executable's path is the plan's. The program is started by that path: the
// plan says that the run's user can replace neither the file nor the directories that lead to it. fixed means that
// the run sees it read-only, whoever owns it: then a change by somebody else shows in its times.
func (s *sums) verify(ctx context.Context, exe palyra.Executable, who identity, fixed bool) error {
	f, st, err := openRegular(exe.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	id := idOf(st)
	digest, known := s.get(id)
	may := mayWrite(st, who) && !fixed
	if !known || may {
		if digest, err = sum(ctx, f, io.Discard, math.MaxInt64); err != nil {
			return err
		}
	}
	var after unix.Stat_t
	if err := unix.Lstat(exe.Path, &after); err != nil || idOf(&after) != id || digest != exe.Digest {
		return executableChanged(exe.Path, err)
	}
	if !may && s.settled(st.Ctim) {
		s.put(id, digest)
	}
	return nil
}

// settled reports whether a change now would show in a file's times: changes within one tick of the
// clock look the same.
func (s *sums) settled(changed unix.Timespec) bool {
	const tick = 2 * time.Second
	return s.now().Sub(time.Unix(changed.Unix())) > tick
}

func (s *sums) get(id fileID) (palyra.Digest, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.of[id]
	return d, ok
}

func (s *sums) put(id fileID, d palyra.Digest) {
	const most = 512
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) >= most {
		clear(s.of) // rare, and cheaper than keeping an order
	}
	s.of[id] = d
}

// mayWrite reports whether a user could change a file. Owners can always make it writable; a group
// bit may stand for an ACL, and counts for everybody.
func mayWrite(st *unix.Stat_t, who identity) bool {
	return who.uid == 0 || int(st.Uid) == who.uid || st.Mode&0o022 != 0
}

// seal copies a program that the call could write to a place where it cannot: an ELF program into memory, a script,
// which its interpreter opens by name, into the private directory. The copy is what is compared with the plan.
func seal(ctx context.Context, exe palyra.Executable, r *privateDir) (path string, sealed *os.File, err error) {
	f, err := openForCopy(exe)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err == nil && string(magic[:]) == "#!" {
		path, err = sealScript(ctx, f, exe, r)
		return path, nil, err
	}
	sealed, err = sealMemory(ctx, f, exe)
	return exe.Path, sealed, err
}

// sealCopy copies a program of either kind into memory.
func sealCopy(ctx context.Context, exe palyra.Executable) (*os.File, error) {
	f, err := openForCopy(exe)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return sealMemory(ctx, f, exe)
}

func openForCopy(exe palyra.Executable) (*os.File, error) {
	f, st, err := openRegular(exe.Path)
	if err != nil {
		return nil, err
	}
	if st.Size > maxSealed {
		err := palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge, "%s is too large to be run from a copy: %d bytes of at most %d",
			show(exe.Path), st.Size, int64(maxSealed)).
			WithRemedy("install it where the call cannot write")
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sealMemory copies a program into an unnamed file that nobody can write any more, the daemon included.
func sealMemory(ctx context.Context, f *os.File, exe palyra.Executable) (*os.File, error) {
	name := palyra.Clip(filepath.Base(exe.Path), 64)
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3: executable anyway
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: seal: %w", err)
	}
	m := os.NewFile(uintptr(fd), name)
	if err := copyExact(ctx, f, m, exe); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: seal: %w", err), m.Close())
	}
	return m, nil
}

// sealScript copies a script into the private directory. Until its bytes are known to be the plan's
// only the daemon can read them: somebody who led us to another file learns nothing from it.
func sealScript(ctx context.Context, f *os.File, exe palyra.Executable, r *privateDir) (string, error) {
	path := filepath.Join(r.path, exeDir, filepath.Base(exe.Path))
	m, err := sealMemory(ctx, f, exe)
	if err != nil {
		return "", err
	}
	defer m.Close()
	if _, err := m.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("sandbox: seal: %w", err)
	}
	// A process forked while this is open for writing would hold it open until it execs, and the script could not be
	// run meanwhile. f has been read completely by now: a slow file system would otherwise block every start.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", fmt.Errorf("sandbox: seal: %w", err)
	}
	defer out.Close()
	if _, err := io.Copy(out, m); err != nil {
		return "", errors.Join(fmt.Errorf("sandbox: seal: %w", err), os.Remove(path))
	}
	if err := out.Chmod(0o555); err != nil {
		return "", fmt.Errorf("sandbox: seal: %w", err)
	}
	if os.Geteuid() != 0 { // for root the run's user cannot write it
		err = os.Chmod(filepath.Dir(path), 0o500)
	}
	return path, err
}

// copyExact copies the program, and refuses it when the copy differs from the plan's digest.
func copyExact(ctx context.Context, f *os.File, to io.Writer, exe palyra.Executable) error {
	digest, err := sum(ctx, f, to, maxSealed)
	if err != nil {
		return err
	}
	if digest != exe.Digest {
		return executableChanged(exe.Path, nil)
	}
	return nil
}

// sum returns the digest of what it copies from f, at most so many bytes, because a file may be growing.
func sum(ctx context.Context, f io.Reader, to io.Writer, most int64) (palyra.Digest, error) {
	h := sha256.New()
	buf := make([]byte, 256<<10)
	for size := int64(0); ; {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if size += int64(n); size > most {
			return "", errors.New("sandbox: a program grew while it was copied")
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return "", fmt.Errorf("sandbox: copy a program: %w", err)
		}
		switch {
		case errors.Is(err, io.EOF):
			return palyra.Digest("sha256:" + hex.EncodeToString(h.Sum(nil))), nil
		case err != nil:
			return "", fmt.Errorf("sandbox: read a program: %w", err)
		case ctx.Err() != nil:
			return "", ctx.Err()
		}
	}
}

// openRegular opens a program for reading. Its kind is checked before the open: opening a device or
// a pipe can do harm.
func openRegular(path string) (*os.File, *unix.Stat_t, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, executableChanged(path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, nil, executableChanged(path, nil)
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, nil, palyra.Errorf(palyra.Denied, palyra.ReasonNotExecutable, "%s cannot be read, so it cannot be compared with the plan",
			show(path)).
			WithCause(err)
	}
	return f, &st, nil
}
