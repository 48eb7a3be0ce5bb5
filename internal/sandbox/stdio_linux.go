package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// pipeSize is wished for, not required: larger pipes save switches between a program that prints a lot and us.
const pipeSize = 256 << 10

// openPipes makes three pipes, or two and /dev/null without input. Our ends are non-blocking, the
// program's are blocking, as programs expect.
func openPipes(input bool) (own ends, theirs [3]*os.File, err error) {
	defer func() {
		if err != nil {
			own.close()
			closeAll(theirs[:]...)
			own, theirs = ends{}, [3]*os.File{}
		}
	}()
	if input {
		theirs[0], own.in, err = pipe("stdin", false)
	} else {
		theirs[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return own, theirs, err
	}
	if own.out, theirs[1], err = pipe("stdout", true); err != nil {
		return own, theirs, err
	}
	own.err, theirs[2], err = pipe("stderr", true)
	return own, theirs, err
}

// pipe returns the ends of a pipe; readOurs says which one is ours.
func pipe(name string, readOurs bool) (r, w *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("sandbox: %s: pipe: %w", name, err)
	}
	_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, pipeSize)
	our := p[1]
	if readOurs {
		our = p[0]
	}
	if err := unix.SetNonblock(our, true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("sandbox: %s: %w", name, err), unix.Close(p[0]), unix.Close(p[1]))
	}
	return os.NewFile(uintptr(p[0]), name), os.NewFile(uintptr(p[1]), name), nil
}

// openTerminal makes a terminal of its own for a run: the master is ours, the slave is all three of
// its streams and belongs to the run's user, so that the program may open it by name.
func openTerminal(rows, cols int, who identity) (own ends, theirs [3]*os.File, err error) {
	defer func() {
		if err != nil {
			own.close()
			closeAll(theirs[:]...)
			own, theirs, err = ends{}, [3]*os.File{}, fmt.Errorf("sandbox: terminal: %w", err)
		}
	}()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return own, theirs, err
	}
	master := os.NewFile(uintptr(fd), "terminal")
	own = ends{in: master, out: master, terminal: true}
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return own, theirs, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return own, theirs, err
	}
	if err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, winsize(rows, cols)); err != nil {
		return own, theirs, err
	}
	for i := range theirs {
		slave, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return own, theirs, err
		}
		theirs[i] = os.NewFile(uintptr(slave), "terminal")
		if i == 0 && who.uid != os.Geteuid() {
			if err := unix.Fchown(slave, who.uid, -1); err != nil {
				return own, theirs, err
			}
		}
	}
	return own, theirs, nil
}

// winsize is the size of a terminal, the usual one if none that makes sense is asked for.
func winsize(rows, cols int) *unix.Winsize {
	const most = 1<<16 - 1
	if rows <= 0 || cols <= 0 || rows > most || cols > most {
		rows, cols = 24, 80
	}
	return &unix.Winsize{Row: uint16(rows), Col: uint16(cols)}
}

// hungUp reports whether err means that nobody has the terminal open.
func hungUp(err error) bool { return errors.Is(err, unix.EIO) }

// signalNumber returns the number of a signal by its name, or 0.
func signalNumber(name string) int { return int(unix.SignalNum(name)) }
