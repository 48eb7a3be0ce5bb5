package cells

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox/refusal"
)

// maxCell is far above the size of a cell.
const maxCell = 64 << 20

// image is the one copy of palyra-cell that is ever run.
func image(path, digest string) (*os.File, *palyra.Error) { return Image("palyra-cell", path, digest) }

// Image is a copy of a program of ours, hashed while it was copied, sealed, and executed by descriptor, so that later
// changes of the file do not matter. It must have the digest that was stamped into the daemon.
func Image(name, path, digest string) (*os.File, *palyra.Error) {
	want := strings.ToLower(strings.TrimPrefix(digest, "sha256:"))
	if want == "" {
		return nil, refusal.Unavailable("this palyrad was built without the digest of its %s", name).WithRemedy(refusal.CellRemedy)
	}
	src, err := os.Open(path)
	if err != nil {
		return nil, refusal.Unavailable("%s cannot be opened", name).WithRemedy(refusal.CellRemedy).WithCause(err)
	}
	defer func() { _ = src.Close() }()
	f, sum, err := sealed(name, src)
	if err != nil {
		return nil, refusal.Unavailable("%s cannot be copied into memory", name).
			WithRemedy("allow executable memfds (sysctl vm.memfd_noexec=0 or 1) and see the daemon's log").WithCause(err)
	}
	if sum != want {
		_ = f.Close()
		return nil, refusal.Unavailable("%s is not the one this palyrad was built with", name).WithRemedy(refusal.CellRemedy)
	}
	return f, nil
}

// Again opens an open file once more.
func Again(f *os.File, mode int) (*os.File, error) { return os.OpenFile(Descriptor(f), mode, 0) }

// sealed copies src into an immutable memfd, and returns its SHA-256 in hex.
func sealed(name string, src io.Reader) (*os.File, string, error) {
	f, err := memfd(name)
	if err != nil {
		return nil, "", fmt.Errorf("cells: memfd: %w", err)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(src, maxCell+1))
	if err == nil && n > maxCell {
		err = errors.New("too large")
	}
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		_ = f.Close()
		return nil, "", fmt.Errorf("cells: sealed copy: %w", err)
	}
	return f, hex.EncodeToString(h.Sum(nil)), nil
}

// memfd makes an executable memfd. Kernels before 6.3 do not know the flag and make every memfd executable.
func memfd(name string) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Descriptor is the path of an open file, for opening it again.
func Descriptor(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
