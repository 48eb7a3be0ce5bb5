package bubble

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/cells"
)

// body is a room as the daemon sees it: bubblewrap, which waits for process 1 of
// the room, and that process, with which the room ends.
type body struct {
	bwrap *os.Process
	mark  uint64
	// info is where bubblewrap tells who process 1 is. It is memory, not a pipe: a
	// bubblewrap that could not tell would end without its child, which would wait
	// for it for ever.
	info *os.File

	mu   sync.Mutex
	pid  int // of process 1; 0: not known
	fd   int // a handle on it
	gone bool
}

// newInfo makes the memory for it.
func newInfo() (*os.File, error) {
	fd, err := unix.MemfdCreate("palyra-info", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "palyra-info"), nil
}

// findProcess reads who process 1 is and takes a handle on it. It is certain to be told
// when the cell in the room has spoken. The number is believed only while the
// process has the mark.
func (b *body) findProcess() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pid != 0 {
		return nil
	}
	if b.gone {
		return errors.New("bubble: info: bubblewrap has ended")
	}
	var info struct {
		Child int `json:"child-pid"`
	}
	if err := json.NewDecoder(io.NewSectionReader(b.info, 0, 4096)).Decode(&info); err != nil {
		return fmt.Errorf("bubble: info: %w", err)
	}
	if info.Child <= 1 {
		return fmt.Errorf("bubble: info: process 1 would be %d", info.Child)
	}
	fd, err := unix.PidfdOpen(info.Child, 0)
	if err != nil {
		return fmt.Errorf("bubble: info: process 1: %w", err)
	}
	if m, ok := markOf("/proc", info.Child); !ok || m != b.mark {
		_ = unix.Close(fd)
		return fmt.Errorf("bubble: info: process %d is not of this room", info.Child)
	}
	b.pid, b.fd = info.Child, fd
	return nil
}

// Pid implements cells.Body.
func (b *body) Pid() int { return b.bwrap.Pid }

// first is the number of process 1, or 0.
func (b *body) first() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pid
}

// Kill implements cells.Body: the whole room ends with its first process.
func (b *body) Kill() {
	_ = b.findProcess() // if it can be known by now
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pid != 0 && !b.gone {
		_ = unix.PidfdSendSignal(b.fd, unix.SIGKILL, nil, 0) // it ended: that is what was wanted
		return
	}
	_ = b.bwrap.Kill() // whatever it leaves behind is found by Wait
}

// Wait implements cells.Body. Where bubblewrap went before process 1, that one has
// become our child, as the daemon is a subreaper; where nobody knows who it is, it
// can be waiting for bubblewrap, and is found by its mark.
func (b *body) Wait() error {
	_, err := b.bwrap.Wait()
	_ = b.findProcess()
	b.mu.Lock()
	pid, fd := b.pid, b.fd
	if pid == 0 {
		b.gone = true
	}
	b.mu.Unlock()
	_ = b.info.Close()
	if pid == 0 {
		ours := func(m uint64) bool { return m == b.mark }
		for end := time.After(endWithin); strikeMarked("/proc", ours) > 0 && cells.Pause(time.Millisecond, end); {
		}
		return err
	}
	for {
		_, e := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if !errors.Is(e, unix.EINTR) {
			break
		}
	}
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // reaped by bubblewrap, most likely
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	_ = unix.Close(fd)
	return err
}
