package posture

import (
	"encoding/hex"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// longestSocket is what a socket's address holds, with some room.
const longestSocket = 100

// longestCommand is as much of a command line as tells it from others.
const longestCommand = 512

// listen plants the targets that wait: listeners, sockets, ourselves as a process.
func (s *testbed) listen() (err error) {
	if s.tcp, err = plant("tcp", "127.0.0.1:0", s.token); err != nil {
		return err
	}
	path := filepath.Join(s.outside, "socket")
	if len(path) > longestSocket {
		if s.elsewhere, err = os.MkdirTemp("", scratchPrefix); err != nil {
			return err
		}
		path = filepath.Join(s.elsewhere, "socket")
		err = os.Chmod(s.elsewhere, 0o755)
	}
	if err != nil {
		return err
	}
	if s.unix, err = plant("unix", path, s.token); err != nil {
		return err
	}
	if err = os.Chmod(path, 0o777); err != nil {
		return err
	}
	if s.abstract, err = plant("unix", "@palyra-"+s.token, s.token); err != nil {
		return err
	}
	if b, err := os.ReadFile("/proc/self/cmdline"); err == nil {
		s.cmdline = hex.EncodeToString(b[:min(len(b), longestCommand)])
	}
	s.signals = receive()
	return nil
}

// receiver sees whether the harmless signal that a probe sends arrives here.
type receiver struct{ got chan os.Signal }

func receive() *receiver {
	r := &receiver{make(chan os.Signal, 8)}
	signal.Notify(r.got, syscall.SIGWINCH)
	return r
}

func (r *receiver) close() { signal.Stop(r.got) }

// control sends the signal to ourselves.
func (r *receiver) control() error {
	for range cap(r.got) { // drop signals that came from elsewhere earlier
		if r.signalSeen() == "" {
			break
		}
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		return err
	}
	select {
	case <-r.got:
		return nil
	case <-time.After(patience):
		return errors.New("a signal to ourselves does not arrive")
	}
}

// signalSeen says whether the signal arrived. It takes a moment from the kernel to here.
func (r *receiver) signalSeen() string {
	select {
	case <-r.got:
		return "the signal arrived"
	case <-time.After(signalTime):
		return ""
	}
}

const signalTime = 100 * time.Millisecond
