package quick

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/config/home"
)

// conn is a connection to the daemon: as much of HTTP and of the Connect protocol as two of its methods take. Whatever
// else comes is an error, after which the full program goes on.
type conn struct {
	fd          int
	file        *os.File // which it is
	raw         syscall.RawConn
	paths       home.Paths
	until       time.Time // when waiting ends
	r           *bufio.Reader
	interrupted func() bool // says that no more is to be waited for; nil: nothing does
	taping      bool        // the call was proposed
	tape        []byte      // what came since
}

// The most that is read of an answer: longer ones are the full program's.
const (
	maxHeader  = 16 << 10
	maxMessage = 64 << 10
)

// newConn takes a connected socket over.
func newConn(fd int, until time.Time) (*conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	c := &conn{fd: fd, until: until, file: os.NewFile(uintptr(fd), "daemon")}
	var err error
	if c.raw, err = c.file.SyscallConn(); err != nil {
		_ = c.file.Close()
		return nil, err
	}
	return c, nil
}

// look is how often a wait looks at the signals.
const look = 20 * time.Millisecond

// errUnsent means that a signal came before the whole request was sent: nothing was proposed.
var errUnsent = errors.New("quick: interrupted while the request was sent")

func (c *conn) close() { _ = c.file.Close() }

// Read implements io.Reader. It waits no longer than the connection has time. The runtime's poller waits, so that no
// processor of the scheduler's does: its watcher would look at that every 20 microseconds, on a processor that the daemon
// could use.
func (c *conn) Read(b []byte) (int, error) {
	for {
		left := time.Until(c.until)
		if left <= 0 || c.interrupted != nil && c.interrupted() || len(c.tape) > maxMessage {
			return 0, errStrange
		}
		if err := c.file.SetReadDeadline(time.Now().Add(min(left, look))); err != nil {
			return 0, err
		}
		n, err := 0, error(nil)
		late := c.raw.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), b)
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case errors.Is(late, os.ErrDeadlineExceeded) || late == nil && errors.Is(err, unix.EINTR):
			continue
		case late != nil || err != nil:
			return 0, errors.Join(late, err)
		case n == 0:
			return 0, io.EOF
		}
		if c.taping {
			c.tape = append(c.tape, b[:n]...)
		}
		return n, nil
	}
}

// send sends a request. More are further lines of its header.
func (c *conn) send(method, kind, more string, body []byte) error {
	var b []byte
	b = append(b, "POST "+method+" HTTP/1.1\r\nHost: palyra\r\nConnect-Protocol-Version: 1\r\n"+more...)
	b = append(b, "Content-Type: "+kind+"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"...)
	b = append(b, body...)
	for len(b) > 0 {
		n, err := unix.SendmsgN(c.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EAGAIN): // it takes no more for now
			if c.interrupted != nil && c.interrupted() {
				return errUnsent
			}
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}, int(look/time.Millisecond))
			if err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		}
		b = b[n:]
	}
	if c.r == nil {
		c.r = bufio.NewReader(c)
	}
	return nil
}

// header reads the header of an answer and returns a reader of its body.
func (c *conn) header() (io.Reader, error) {
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		return nil, errStrange
	}
	var body io.Reader
	for total := 0; ; {
		if line, err = c.line(); err != nil {
			return nil, err
		}
		if total += len(line); total > maxHeader {
			return nil, errStrange
		}
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.ToLower(name) {
		case "content-length":
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil || body != nil || n > maxMessage {
				return nil, errStrange
			}
			body = io.LimitReader(c.r, int64(n))
		case "transfer-encoding":
			if value != "chunked" || body != nil {
				return nil, errStrange
			}
			body = &chunks{c: c}
		case "content-encoding":
			return nil, errStrange
		}
	}
	if body == nil {
		return nil, errStrange
	}
	return body, nil
}

// line reads a line, without its end.
func (c *conn) line() (string, error) {
	b, err := c.r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return string(bytes.TrimRight(b, "\r\n")), nil
}

// chunks is a body in chunks.
type chunks struct {
	c    *conn
	left uint64 // of the chunk
	ends bool   // the line end after the chunk is still to come
	done bool
}

// Read implements io.Reader.
func (k *chunks) Read(b []byte) (int, error) {
	if k.done {
		return 0, io.EOF
	}
	if k.left == 0 {
		if err := k.next(); err != nil {
			return 0, err
		}
	}
	n, err := k.c.r.Read(b[:min(uint64(len(b)), k.left)])
	if k.left -= uint64(n); k.left == 0 {
		k.ends = true
	}
	return n, err
}

// next begins the next chunk; io.EOF: there is none.
func (k *chunks) next() error {
	if k.ends {
		if line, err := k.c.line(); err != nil || line != "" {
			return errStrange
		}
	}
	line, err := k.c.line()
	if err != nil {
		return err
	}
	if k.left, err = strconv.ParseUint(line, 16, 31); err != nil {
		return errStrange
	}
	if k.left > 0 {
		return nil
	}
	k.done = true
	if line, err := k.c.line(); err != nil || line != "" {
		return errStrange
	}
	return io.EOF
}

// unary calls a method without arguments that answers once.
func (c *conn) unary(method string) ([]byte, error) {
	if err := c.send(method, "application/proto", "", nil); err != nil {
		return nil, err
	}
	body, err := c.header()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(body)
}

// stream calls a method at the agent's door that answers with messages, and calls hear with each of them. It returns when the daemon says
// that there are no more.
func (c *conn) stream(method string, msg []byte, hear func([]byte) error) error {
	var frame []byte
	frame = append(frame, 0)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(msg)))
	if c.r != nil && c.r.Buffered() > 0 {
		return errStrange
	}
	c.taping = true // whoever sends only a part of it has proposed it, perhaps
	if err := c.send(method, "application/connect+proto", "Palyra-Door: agent\r\n", append(frame, msg...)); err != nil {
		c.taping = !errors.Is(err, errUnsent)
		return err
	}
	body, err := c.header()
	if err != nil {
		return err
	}
	for total := 0; ; {
		var head [5]byte
		if _, err := io.ReadFull(body, head[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[1:]))
		if total += n; total > maxMessage {
			return errStrange
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(body, b); err != nil {
			return err
		}
		switch head[0] {
		case 0:
			if err := hear(b); err != nil {
				return err
			}
		case 2: // the last; an error or anything else in it is the full program's
			if string(b) != "{}" {
				return errStrange
			}
			return nil
		default:
			return errStrange
		}
	}
}
