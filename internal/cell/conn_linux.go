package cell

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxFDs is the most descriptors of a packet: the sockets of a room's doors, or a room and its Extra.
const maxFDs = max(MaxDoors, MaxExtra+1)

// Conn is one end of a cell's socket. Send and Recv may run at the same time,
// and Send several times at once: a packet is sent whole or not at all.
type Conn struct {
	file   *os.File
	raw    syscall.RawConn
	closed atomic.Bool
}

// NewConn takes over f, a connected SOCK_SEQPACKET socket: it is closed with the Conn, or at once
// when it is no such socket.
func NewConn(f *os.File) (*Conn, error) {
	defer func() { _ = f.Close() }()
	fd, err := duplicate(f)
	if err != nil {
		return nil, fmt.Errorf("cell: socket: %w", err)
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		_ = unix.Close(fd)
		return nil, errors.New("cell: socket: not SOCK_SEQPACKET")
	}
	// In non-blocking mode the runtime's poller waits and deadlines work.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("cell: socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "cell")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("cell: socket: %w", err)
	}
	return &Conn{file: file, raw: raw}, nil
}

func duplicate(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd, dupErr := -1, error(nil)
	if err = raw.Control(func(old uintptr) { fd, dupErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return -1, err
	}
	return fd, dupErr
}

// Pair makes the two ends of a cell's socket: one for NewConn, one to be the cell's descriptor ControlFD.
func Pair() (ours, cells *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cell: socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "cell"), os.NewFile(uintptr(fds[1]), "control"), nil
}

// Close closes the socket, and ends a waiting Send or Recv with os.ErrClosed. A cell at the other
// end kills its tree and ends.
func (c *Conn) Close() error {
	c.closed.Store(true)
	return c.file.Close()
}

// say wraps the error of a Send or Recv. The runtime has an error of its own, without a public
// name, for a file that is closed during use.
func (c *Conn) say(doing string, err error) error {
	if c.closed.Load() {
		err = os.ErrClosed
	}
	return fmt.Errorf("cell: %s: %w", doing, err)
}

// SetDeadline bounds a Send or Recv under way and later ones; the zero time means no deadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.file.SetDeadline(t) }

// Send sends an Order or a Report with descriptors, which stay the caller's.
func (c *Conn) Send(v any, fds ...int) error {
	b, err := encode(v)
	if err != nil {
		return fmt.Errorf("cell: send: %w", err)
	}
	return c.SendBytes(b, fds...)
}

// SendBytes sends a packet as it is.
func (c *Conn) SendBytes(b []byte, fds ...int) error {
	if len(b) > MaxPacket || len(fds) > maxFDs {
		return fmt.Errorf("cell: send: %d bytes and %d descriptors are too many", len(b), len(fds))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	var sent error
	err := c.raw.Write(func(fd uintptr) bool {
		sent = retry(func() error { return unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT) })
		return !errors.Is(sent, unix.EAGAIN)
	})
	err = cmp.Or(err, sent)
	if err != nil {
		return c.say("send", err)
	}
	return nil
}

// recvBytes receives a packet without descriptors; io.EOF means that the other end is gone.
func (c *Conn) recvBytes(buf []byte) (n int, err error) {
	var got error
	err = c.raw.Read(func(fd uintptr) bool {
		got = retry(func() (err error) {
			n, _, err = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
			if errors.Is(err, unix.ECONNRESET) {
				return unix.EINTR // as in Recv
			}
			return err
		})
		return !errors.Is(got, unix.EAGAIN)
	})
	switch {
	case err != nil:
		return 0, c.say("receive", err)
	case got != nil:
		return 0, c.say("receive", got)
	case n > len(buf):
		return 0, errors.New("cell: receive: a packet that is too large")
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Pending reports whether a packet waits to be received, or the other end is gone.
func (c *Conn) Pending() bool {
	n := 0
	err := c.raw.Control(func(fd uintptr) { n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) })
	return err != nil || n > 0
}

// buffers are for Recv; what is decoded is copied.
var buffers = sync.Pool{New: func() any { return new([MaxPacket + 1]byte) }}

// Recv receives into v, an *Order or a *Report, and returns the descriptors that came along, which the caller must close.
// io.EOF means that the other end is gone. A packet that is cut short, is not exactly one of v's kind, or has lost
// descriptors is an error, and its descriptors are closed.
func (c *Conn) Recv(v any) ([]*os.File, error) {
	kept := buffers.Get().(*[MaxPacket + 1]byte)
	defer buffers.Put(kept)
	buf, oob := kept[:], make([]byte, unix.CmsgSpace(maxFDs*4))
	var n, oobn, flags int
	var got error
	err := c.raw.Read(func(fd uintptr) bool {
		got = retry(func() (err error) {
			n, oobn, flags, _, err = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
			if errors.Is(err, unix.ECONNRESET) {
				// Reported once, when the other end closed with packets of ours unread. Its last packets can still be read.
				return unix.EINTR
			}
			return err
		})
		return !errors.Is(got, unix.EAGAIN)
	})
	switch {
	case err != nil:
		return nil, c.say("receive", err)
	case got != nil:
		return nil, c.say("receive", got)
	}
	files, err := rights(oob[:oobn])
	switch {
	case err != nil:
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || n > MaxPacket:
		err = errors.New("cell: receive: a packet that is too large")
	case n == 0 && len(files) == 0:
		err = io.EOF
	default:
		err = decode(buf[:n], v)
	}
	if err != nil {
		CloseAll(files)
		return nil, err
	}
	return files, nil
}

// rights returns the descriptors of a packet. They are in this process already, so they must be
// returned or closed whatever else is wrong.
func rights(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("cell: receive: %w", err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			CloseAll(files)
			return nil, fmt.Errorf("cell: receive: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// CloseAll closes the files that Recv returned.
func CloseAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Orders is a daemon's end of a cell's socket.
type Orders struct{ *Conn }

// Send sends an order with descriptors, which stay the caller's.
func (o Orders) Send(order Order, fds ...int) error { return o.Conn.Send(order, fds...) }

// Recv receives a report.
func (o Orders) Recv(r *Report) ([]*os.File, error) { return o.Conn.Recv(r) }
