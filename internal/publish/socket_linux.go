package publish

import (
	"errors"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is one in a run's network, for one connection after the other.
type socket struct {
	fd  int
	six bool // reaches addresses of IPv6, not of IPv4
}

// newSocket takes a copy of a socket that is neither bound nor connected.
func newSocket(f *os.File) (socket, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return socket{}, err
	}
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: connectSeconds})
	}
	if err != nil {
		_ = unix.Close(fd)
		return socket{}, err
	}
	return socket{fd: fd, six: family == unix.AF_INET6}, nil
}

// connectSeconds is how long a connection may take to be made.
const connectSeconds = 1

// connect connects to a port of the run's own loopback.
func (s socket) connect(port int) (*net.TCPConn, error) {
	if err := unix.SetNonblock(s.fd, false); err != nil {
		return nil, err
	}
	if err := unix.Connect(s.fd, s.address(port)); err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "published")
	defer func() { _ = f.Close() }()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		_ = c.Close()
		return nil, errors.New("not a TCP socket")
	}
	return t, nil
}

// address is of the room's own loopback. A socket that reached the one kind cannot reach the other later.
func (s socket) address(port int) unix.Sockaddr {
	if s.six {
		return &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}
	}
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

// disconnect ends a connection, if there is one, so that the socket can make the next: an address of no family does
// that, for which x/sys has no words.
func (s socket) disconnect() {
	_ = unix.SetNonblock(s.fd, false)
	var none unix.RawSockaddr
	_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(s.fd), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
}

func (s socket) close() { _ = unix.Close(s.fd) }
