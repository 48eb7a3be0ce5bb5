package bwrap

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxTexts is far more than rooms share.
const maxTexts = 256

// texts are file contents that many rooms share, each once in memory, where nobody can change it:
// not even bubblewrap, which gets it and may run as any user.
type texts struct {
	mu    sync.Mutex
	files map[string]*os.File
}

// open opens a text for reading, from its beginning.
func (t *texts) open(text string) (*os.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.files[text]
	if f == nil {
		var err error
		if f, err = fixed(text); err != nil {
			return nil, err
		}
		if len(t.files) >= maxTexts {
			t.forget()
		}
		if t.files == nil {
			t.files = map[string]*os.File{}
		}
		t.files[text] = f
	}
	return os.Open(descriptor(f)) // with a position of its own
}

// forget closes all of them; those that were passed on stay open there.
func (t *texts) forget() {
	for _, f := range t.files {
		_ = f.Close()
	}
	t.files = nil
}

func (t *texts) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget()
}

// fixed puts a text into immutable memory.
func fixed(text string) (*os.File, error) {
	f, err := memoryOf("palyra-room", text)
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// memoryOf puts a text into memory.
func memoryOf(name, text string) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("palyra-room", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("palyra-room", flags)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteString(text); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
