package main

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// where is a directory of the run's own.
func where(dir string) string {
	return strings.NewReplacer("$HOME", os.Getenv("HOME"), "$TMPDIR", os.Getenv("TMPDIR")).Replace(dir)
}

// fillFS writes a[1] MiB into a directory. It ends by itself only when it was refused.
func fillFS(a []string) int {
	deaf()
	b := make([]byte, mebi)
	b[0] = 1
	for i := range number(a[1]) {
		if err := os.WriteFile(where(a[0])+"/fill"+itoa(i), b, 0o600); err != nil {
			return fail("refused after %d: %v", i, err)
		}
	}
	ready()
	pause()
	return 0
}

// fillInodes makes a[1] empty files in a directory.
func fillInodes(a []string) int {
	deaf()
	for i := range number(a[1]) {
		fd, err := unix.Open(where(a[0])+"/i"+itoa(i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return fail("refused after %d: %v", i, err)
		}
		_ = unix.Close(fd)
	}
	ready()
	pause()
	return 0
}

// fillAttributes hangs a[1] MiB of attributes on files in a directory.
func fillAttributes(a []string) int {
	deaf()
	value := make([]byte, 32<<10)
	for i := range number(a[1]) * 32 {
		fd, err := unix.Open(where(a[0])+"/a"+itoa(i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err == nil {
			err = unix.Fsetxattr(fd, "user.fill", value, 0)
			_ = unix.Close(fd)
		}
		if err != nil {
			return fail("refused after %d: %v", i/32, err)
		}
	}
	ready()
	pause()
	return 0
}

// memoryPipes leaves a[0] MiB unread in pipes.
func memoryPipes(a []string) int {
	deaf()
	b := make([]byte, 64<<10)
	for held := 0; held < number(a[0])*mebi; {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return fail("refused: %v", err)
		}
		_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, mebi)
		for {
			n, err := unix.Write(p[1], b)
			if err != nil {
				break
			}
			held += n
		}
	}
	ready()
	pause()
	return 0
}

// memorySegments takes a[0] MiB of shared memory that no process maps.
func memorySegments(a []string) int {
	deaf()
	for range number(a[0]) / 8 {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 8*mebi, 0o600)
		if err != nil {
			return fail("refused: %v", err)
		}
		b, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return fail("refused: %v", err)
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		if err := unix.SysvShmDetach(b); err != nil {
			return fail("%v", err)
		}
	}
	ready()
	pause()
	return 0
}

// memoryConnections leaves a[0] MiB unread in connections with itself.
func memoryConnections(a []string) int {
	deaf()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fail("refused: %v", err)
	}
	held, want := 0, number(a[0])*mebi
	b := make([]byte, 64<<10)
	for held < want {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			return fail("refused: %v", err)
		}
		s, err := l.Accept()
		if err != nil {
			return fail("refused: %v", err)
		}
		held += stuff(c, b) + stuff(s, b)
		ends = append(ends, c, s)
	}
	ready()
	pause()
	return 0
}

// ends are connections that must not be collected.
var ends []net.Conn

// stuff writes until nothing more is taken at once.
func stuff(c net.Conn, b []byte) (held int) {
	rc, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = rc.Control(func(fd uintptr) {
		for {
			n, err := unix.Write(int(fd), b)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return
			}
			held += n
		}
	})
	return held
}

// serve greets whoever connects to an address, until stdin ends: a neighbour in a network of its own.
func serve(a []string) int {
	l, err := net.Listen("tcp", a[0])
	if err != nil {
		return fail("%v", err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, a[1])
			_ = c.Close()
		}
	}()
	_, _ = os.Stdout.WriteString("ready " + l.Addr().String() + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
