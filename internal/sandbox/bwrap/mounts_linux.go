package bwrap

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// Mounts is this process's list of mounts, which the kernel writes anew each time that it is read. It says once, to
// whoever has the file open, that the list changed; so it is read only then. The zero value is ready.
type Mounts struct {
	mu   sync.Mutex
	open bool
	fd   int // not an os.File: Go's poller would hear of changes instead
	text string
}

// maxMountText is far more than the mounts of any machine take.
const maxMountText = 64 << 20

// Text returns the list, in the form of /proc/self/mountinfo.
func (m *Mounts) Text() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.open {
		if err := m.openAt("/proc/self/mountinfo"); err != nil {
			return "", err
		}
	} else if !m.changed() {
		return m.text, nil
	}
	text, err := m.read() // after asking: what changes meanwhile is said next time
	if err != nil {
		m.close()
		return "", err
	}
	m.text = text
	return text, nil
}

func (m *Mounts) openAt(path string) (err error) {
	m.fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	m.open = err == nil
	return err
}

// changed reports whether the list may have changed since changed was asked last.
func (m *Mounts) changed() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}, 0)
	return err != nil || n > 0
}

func (m *Mounts) read() (string, error) {
	var all []byte
	buf := make([]byte, 16<<10)
	for len(all) < maxMountText {
		n, err := unix.Pread(m.fd, buf, int64(len(all)))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return "", err
		case n == 0:
			return string(all), nil
		}
		all = append(all, buf[:n]...)
	}
	return "", errors.New("bwrap: more mounts than can be looked through")
}

// Close gives the list back.
func (m *Mounts) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.close()
	return nil
}

func (m *Mounts) close() {
	if m.open {
		_ = unix.Close(m.fd) // only read
		m.open = false
	}
}
