package cell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// seals make a memfd immutable: nobody, not even its writer, can change it between its two readings.
const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// WriteSpec checks s and returns it as a sealed memfd.
func WriteSpec(s Spec) (*os.File, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	f, err := document("palyra-spec", encodeSpec(&s))
	if err != nil {
		return nil, fmt.Errorf("cell: spec: %w", err)
	}
	return f, nil
}

// WriteImage checks s and returns what the first process of a room is given of it, as a sealed memfd.
func WriteImage(s Spec) (*os.File, error) {
	if err := errors.Join(s.Check(), s.checkImage()); err != nil {
		return nil, err
	}
	f, err := document("palyra-spec", imageOf(&s).bytes())
	if err != nil {
		return nil, fmt.Errorf("cell: image: %w", err)
	}
	return f, nil
}

// Given checks s and returns what a launcher that is ahead already, by an OrderBecome with that Spec, is given of it, as
// a sealed memfd: it goes with LineRun and the descriptors of a ruleset, stdin, stdout and stderr before it, and that of a
// sealed program behind. What cannot be changed any more must be the same in both.
func Given(s, ahead *Spec) (*os.File, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if !bytes.Equal(s.Filter, ahead.Filter) || (s.Identity == nil) != (ahead.Identity == nil) ||
		s.Identity != nil && *s.Identity != *ahead.Identity || s.Cover {
		return nil, errAhead
	}
	rest := *s
	rest.Filter, rest.Identity, rest.Rlimits = nil, nil, nil
	set := 0
	for _, l := range s.Rlimits {
		same := func(a Rlimit) bool { return a.Resource == l.Resource }
		switch i := slices.IndexFunc(ahead.Rlimits, same); {
		case i < 0:
			rest.Rlimits = append(rest.Rlimits, l)
		case ahead.Rlimits[i] == l:
			set++
		default:
			return nil, errAhead
		}
	}
	if set != len(ahead.Rlimits) {
		return nil, errAhead
	}
	f, err := document("palyra-spec", LauncherImage(&rest, false))
	if err != nil {
		return nil, fmt.Errorf("cell: image: %w", err)
	}
	return f, nil
}

var errAhead = errors.New("cell: image: the launcher became somebody else")

// WriteRoom checks r and returns it as a sealed memfd.
func WriteRoom(r Room) (*os.File, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	f, err := document("palyra-room", encodeRoom(&r))
	if err != nil {
		return nil, fmt.Errorf("cell: room: %w", err)
	}
	return f, nil
}

// document puts b into a memfd and seals it.
func document(name string, b []byte) (*os.File, error) {
	if len(b) > MaxSpec {
		return nil, fmt.Errorf("%d bytes, more than %d", len(b), MaxSpec)
	}
	return SealedText(name, b)
}

// SealedText returns a file in memory with a text that nobody can change any more.
func SealedText(name string, b []byte) (*os.File, error) {
	f, err := memory(name)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(b); err == nil {
		err = control(f, func(fd uintptr) error { _, err := unix.FcntlInt(fd, unix.F_ADD_SEALS, seals); return err })
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// memory makes an empty memfd, which cannot be executed where the kernel supports that.
func memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// ReadSpec reads and checks what WriteSpec wrote; the caller still owns f. It neither uses nor
// moves the position of f, which both readers of a cell share.
func ReadSpec(f *os.File) (Spec, error) {
	b, err := content(f)
	if err != nil {
		return Spec{}, fmt.Errorf("cell: spec: %w", err)
	}
	return DecodeSpec(b)
}

// ReadRoom reads and checks what WriteRoom wrote; the caller still owns f.
func ReadRoom(f *os.File) (Room, error) {
	b, err := content(f)
	if err != nil {
		return Room{}, fmt.Errorf("cell: room: %w", err)
	}
	return DecodeRoom(b)
}

// content returns the bytes of a sealed document.
func content(f *os.File) ([]byte, error) {
	var have int
	var st unix.Stat_t
	err := control(f, func(fd uintptr) (err error) {
		if have, err = unix.FcntlInt(fd, unix.F_GET_SEALS, 0); err != nil {
			return err
		}
		return unix.Fstat(int(fd), &st)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a memfd: %w", err)
	case have&seals != seals:
		return nil, errors.New("not sealed")
	case st.Size <= 0 || st.Size > MaxSpec:
		return nil, fmt.Errorf("%d bytes", st.Size)
	}
	b := make([]byte, st.Size)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, st.Size), b); err != nil {
		return nil, err
	}
	return b, nil
}

// control calls do with f's descriptor without changing f's mode.
func control(f syscall.Conn, do func(fd uintptr) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var did error
	if err := raw.Control(func(fd uintptr) { did = do(fd) }); err != nil {
		return err
	}
	return did
}
