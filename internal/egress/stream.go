package egress

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/egress/sniff"
)

// The bytes of one copy between two looks at the clock.
const (
	copyStep  = 1 << 20
	chunkSize = 8 << 10
	slowStart = 128 << 10 // bytes through a buffer before the kernel takes over
)

// buffers keeps buffers for reuse.
type buffers struct{ readers, chunks sync.Pool }

func newBuffers() *buffers {
	return &buffers{
		readers: sync.Pool{New: func() any { return bufio.NewReaderSize(nil, sniff.Most) }},
		chunks:  sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }},
	}
}

func (b *buffers) chunk() *[]byte {
	c, _ := b.chunks.Get().(*[]byte)
	return c
}

func (b *buffers) give(c *[]byte) {
	if c != nil {
		b.chunks.Put(c)
	}
}

// stream is a connection whose next bytes can be examined before they are read.
type stream struct {
	*net.TCPConn
	br    *bufio.Reader
	owner *buffers
	idle  time.Duration // how long a receiver may accept nothing
}

func (s *Session) stream(c *net.TCPConn) *stream {
	return s.guard.buffers.stream(c, s.guard.times.idle)
}

func (b *buffers) stream(c *net.TCPConn, idle time.Duration) *stream {
	br, _ := b.readers.Get().(*bufio.Reader)
	br.Reset(c)
	return &stream{c, br, b, idle}
}

// Write implements io.Writer, for receivers that may never read.
func (c *stream) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.idle))
	return c.TCPConn.Write(b)
}

// release gives the buffer back, and discards its content.
func (c *stream) release() {
	if c.br != nil {
		c.br.Reset(nil)
		c.owner.readers.Put(c.br)
		c.br = nil
	}
}

// within sets a deadline for all reads until it is called again; 0 means no deadline.
func (c *stream) within(d time.Duration) {
	var t time.Time
	if d > 0 {
		t = time.Now().Add(d)
	}
	_ = c.SetReadDeadline(t)
}

// more returns all bytes that were received and not read, at least one more than have. None of them counts as read.
func (c *stream) more(have int) ([]byte, error) {
	if have >= c.br.Size() {
		return nil, sniff.ErrTooLong
	}
	if _, err := c.br.Peek(have + 1); err != nil {
		return nil, err
	}
	return c.br.Peek(c.br.Buffered())
}

// linger closes a connection whose client still sends, in a way that the client gets the answer first.
func (c *stream) linger(d time.Duration) {
	_ = c.CloseWrite()
	c.within(d)
	_, _ = io.CopyN(io.Discard, c.TCPConn, 16*sniff.Most)
}

// activity is the time of the last event on a connection.
type activity struct {
	at         atomic.Int64 // nanoseconds
	idle, look time.Duration
	stopped    atomic.Bool
}

func (s *Session) activity() *activity {
	a := &activity{idle: s.guard.times.idle, look: s.guard.times.look}
	a.touch()
	return a
}

func (a *activity) touch()     { a.at.Store(time.Now().UnixNano()) }
func (a *activity) over() bool { return time.Since(time.Unix(0, a.at.Load())) >= a.idle }

var errStopped = errors.New("egress: stopped")

// stop ends the copying of the bytes that c sends. A deadline alone does not: the copying sets a new one.
func (a *activity) stop(c *net.TCPConn) {
	a.stopped.Store(true)
	_ = c.SetReadDeadline(time.Unix(1, 0))
}

// move copies at most limit bytes, or until src ends: at first through a buffer, which is enough
// for most connections, then in the kernel, without bringing the bytes here.
func (b *buffers) move(dst, src *net.TCPConn, limit int64, n *atomic.Int64, a *activity) (int64, error) {
	buf := b.chunk()
	defer func() { b.give(buf) }()
	total := int64(0)
	for total < limit {
		now := time.Now()
		gone := now.Add(a.idle + a.look) // when a receiver that accepts nothing is given up, with the bytes it was to get
		_ = src.SetReadDeadline(now.Add(a.look))
		_ = dst.SetWriteDeadline(gone)
		if a.stopped.Load() { // checked after setting the deadline: stop sets its own deadline after this flag
			return total, errStopped
		}
		var moved int64
		var err error
		if total < slowStart {
			moved, err = hand(dst, src, (*buf)[:min(limit-total, int64(len(*buf)))])
		} else {
			b.give(buf)
			buf = nil
			moved, err = splice(dst, src, min(limit-total, copyStep))
		}
		n.Add(moved)
		total += moved
		if moved > 0 {
			a.touch()
		}
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(gone) && !a.over():
		case err != nil:
			return total, err
		}
	}
	return total, nil
}

// hand passes on the bytes that have arrived.
func hand(dst, src *net.TCPConn, buf []byte) (int64, error) {
	got, err := src.Read(buf)
	if got == 0 {
		return 0, err
	}
	sent, werr := dst.Write(buf[:got])
	if werr != nil {
		err = werr
	}
	return int64(sent), err
}

// splice lets the kernel copy so many bytes.
func splice(dst, src *net.TCPConn, step int64) (int64, error) {
	moved, err := io.Copy(dst, &io.LimitedReader{R: src, N: step})
	if err == nil && moved < step {
		err = io.EOF
	}
	return moved, err
}

// pipe copies from src to dst until src ends, and passes the end on.
func (b *buffers) pipe(dst, src *net.TCPConn, n *atomic.Int64, a *activity) error {
	if _, err := b.move(dst, src, math.MaxInt64, n, a); err != nil {
		return err
	}
	return dst.CloseWrite()
}
