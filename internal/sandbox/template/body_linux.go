package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// body is a room as the daemon sees it: bubblewrap, which waits for process 1 of
// the room, and that process, with which the room ends.
type body struct {
	bwrap *os.Process
	mark  uint64
	// info is a memfd into which bubblewrap writes the pid of process 1. It is not a pipe: a bubblewrap that
	// could not write would end without its child, which would wait for it for ever.
	info *os.File

	mu   sync.Mutex
	pid  int // of process 1; 0: unknown
	fd   int // pidfd of it
	gone bool
}

// newInfo makes the memfd for info.
func newInfo() (*os.File, error) {
	fd, err := unix.MemfdCreate("palyra-info", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "palyra-info"), nil
}

// findProcess reads the pid of process 1 and takes a pidfd of it. The pid is certain to be there
// once the cell in the room has reported. It counts only while the process has the mark.
func (b *body) findProcess() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pid != 0 {
		return nil
	}
	if b.gone {
		return errors.New("template: info: bubblewrap has ended")
	}
	var info struct {
		Child int `json:"child-pid"`
	}
	if err := json.NewDecoder(io.NewSectionReader(b.info, 0, 4096)).Decode(&info); err != nil {
		return fmt.Errorf("template: info: %w", err)
	}
	if info.Child <= 1 {
		return fmt.Errorf("template: info: process 1 would be %d", info.Child)
	}
	fd, err := unix.PidfdOpen(info.Child, 0)
	if err != nil {
		return fmt.Errorf("template: info: process 1: %w", err)
	}
	if m, ok := MarkOf(procPath, info.Child); !ok || m != b.mark {
		_ = unix.Close(fd)
		return fmt.Errorf("template: info: process %d is not of this room", info.Child)
	}
	b.pid, b.fd = info.Child, fd
	return nil
}

// Pid implements cells.Body.
func (b *body) Pid() int { return b.bwrap.Pid }

// Kill implements cells.Body: the whole room ends with its first process.
func (b *body) Kill() {
	_ = b.findProcess() // if it is known by now
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pid != 0 && !b.gone {
		_ = unix.PidfdSendSignal(b.fd, unix.SIGKILL, nil, 0) // an error means that it has ended already
		return
	}
	_ = b.bwrap.Kill() // Wait finds whatever it leaves behind
}

// Wait implements cells.Body. If bubblewrap ended before process 1, that one has become our child, because the
// daemon is a subreaper; if its pid is unknown, it may be waiting for bubblewrap, and is found by its mark.
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
		for end := time.After(endWithin); len(strikeAll(procPath, ours)) > 0 && pause(time.Millisecond, end); {
		}
		return err
	}
	for {
		_, e := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if !errors.Is(e, unix.EINTR) {
			break
		}
	}
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // most likely reaped by bubblewrap
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	_ = unix.Close(fd)
	return err
}
