package lend

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sync"
	"syscall"
)

// inTurn is the way to the server of a client that asks one request after the other: the goroutine that has the request
// writes it and reads the answer, so that nobody wakes anybody. It has one connection, which is kept while both sides
// want that.
type inTurn struct {
	dial func(ctx context.Context) (net.Conn, error)

	mu   sync.Mutex // guards kept; a leaf lock
	kept *link      // between requests
}

// maxEarly is how many informational heads come before an answer, as net/http has it.
const maxEarly = 5

// errHead means that an answer's head has no end.
var errHead = errors.New("lend: the head of the answer is longer than may be")

// link is one connection to the server.
type link struct {
	net.Conn
	br   *bufio.Reader
	bw   *bufio.Writer
	left int // bytes that a head may still have; negative: a body is read
	used bool
}

// Read implements io.Reader.
func (l *link) Read(b []byte) (int, error) {
	if l.left < 0 {
		return l.Conn.Read(b)
	}
	if l.left == 0 {
		return 0, errHead
	}
	n, err := l.Conn.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}

// takes reports whether a request can go this way: what has a body may be answered before all of it is sent, and what
// changes the protocol keeps the connection.
func (s *inTurn) takes(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.Body == nil || r.Body == http.NoBody) && r.Header.Get("Upgrade") == "" && r.Header.Get("Expect") == ""
}

// RoundTrip implements http.RoundTripper.
func (s *inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.ask(r, func(status int, h http.Header) error {
		if t := httptrace.ContextClientTrace(r.Context()); t != nil && t.Got1xxResponse != nil {
			return t.Got1xxResponse(status, textproto.MIMEHeader(h))
		}
		return nil
	})
}

// ask sends a request and returns the answer, when its head is there. early is told of heads that come before it.
func (s *inTurn) ask(r *http.Request, early func(int, http.Header) error) (*http.Response, error) {
	l, err := s.take(r.Context())
	if err != nil {
		return nil, err
	}
	res, begun, err := s.exchange(l, r, early)
	if err != nil && !begun && l.used && again(r) && r.Context().Err() == nil { // the server ended it meanwhile
		if l, err = s.connect(r.Context()); err != nil {
			return nil, err
		}
		res, _, err = s.exchange(l, r, early)
	}
	return res, err
}

// again reports whether a request may be sent twice.
func again(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// take returns the connection that was kept, or a new one.
func (s *inTurn) take(ctx context.Context) (*link, error) {
	s.mu.Lock()
	l := s.kept
	s.kept = nil
	s.mu.Unlock()
	if l != nil {
		if l.isQuiet() {
			return l, nil
		}
		_ = l.Close()
	}
	return s.connect(ctx)
}

func (s *inTurn) connect(ctx context.Context) (*link, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: c}
	l.br, l.bw = bufio.NewReader(l), bufio.NewWriter(l)
	return l, nil
}

// exchange sends a request and reads the head of its answer; begun: there was something of it.
func (s *inTurn) exchange(l *link, r *http.Request, early func(int, http.Header) error) (res *http.Response, begun bool, err error) {
	stop := context.AfterFunc(r.Context(), func() { _ = l.Close() })
	defer func() {
		if err != nil {
			stop()
			_ = l.Close()
		}
	}()
	if err = r.Write(l.bw); err != nil {
		return nil, false, err
	}
	if err = l.bw.Flush(); err != nil {
		return nil, false, err
	}
	l.left = maxHead
	if _, err = l.br.Peek(1); err != nil {
		return nil, false, err
	}
	for before := 0; ; before++ {
		if res, err = http.ReadResponse(l.br, r); err != nil {
			return nil, true, err
		}
		if res.StatusCode >= http.StatusOK {
			break
		}
		if res.StatusCode < http.StatusContinue {
			return nil, true, errors.New("lend: the server answers with no status")
		}
		if before == maxEarly || res.StatusCode == http.StatusSwitchingProtocols {
			return nil, true, errors.New("lend: the server answers with what was not asked for")
		}
		if err = early(res.StatusCode, res.Header); err != nil {
			return nil, true, err
		}
		l.left = maxHead
	}
	l.left = -1
	res.Body = &answer{ReadCloser: res.Body, link: l, way: s, stop: stop, keep: !res.Close && !r.Close}
	if res.ContentLength == 0 || r.Method == http.MethodHead {
		res.Body.(*answer).finish(res.Body.(*answer).keep)
	}
	return res, true, nil
}

// keep keeps a connection for the next request.
func (s *inTurn) keep(l *link) {
	l.used = true
	s.mu.Lock()
	l, s.kept = s.kept, l
	s.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
}

// CloseIdleConnections closes the connection that is kept.
func (s *inTurn) CloseIdleConnections() {
	s.mu.Lock()
	l := s.kept
	s.kept = nil
	s.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
}

// answer is the body of an answer.
type answer struct {
	io.ReadCloser
	link *link
	way  *inTurn
	stop func() bool
	keep bool
	once sync.Once
}

// Read implements io.Reader.
func (a *answer) Read(b []byte) (int, error) {
	n, err := a.ReadCloser.Read(b)
	if err != nil {
		a.finish(err == io.EOF && a.keep)
	}
	return n, err
}

// finish gives the connection up, for the next request or for good.
func (a *answer) finish(keep bool) {
	a.once.Do(func() {
		if a.stop() && keep && a.link.br.Buffered() == 0 {
			a.way.keep(a.link)
			return
		}
		_ = a.link.Close()
	})
}

// Close implements io.Closer.
func (a *answer) Close() error {
	a.finish(false)
	return nil
}

// isQuiet reports whether a connection is open and has nothing to say: a server that sends what nobody asked for would have
// it taken for the answer to what is asked next.
func (l *link) isQuiet() bool {
	c, ok := l.Conn.(interface{ NetConn() net.Conn })
	if !ok {
		return false
	}
	r, ok := c.NetConn().(*records)
	if !ok || r.left > 0 || r.br.Buffered() > 0 || !isEmptySocket(r.Conn) {
		return false
	}
	r.dry = true
	_, err := l.br.Peek(1) // what was opened, and not read
	r.dry = false
	return errors.Is(err, errDry)
}

// isEmptySocket reports whether a connection's socket has neither bytes nor an end to be read.
func isEmptySocket(c net.Conn) bool {
	for {
		t, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	empty := false
	err = raw.Read(func(fd uintptr) bool {
		empty = isEmpty(fd)
		return true
	})
	return err == nil && empty
}

// records gives a TLS client the bytes of one record at most, so that nothing that came behind it lies where nobody can see
// whether there is any.
type records struct {
	net.Conn
	br   *bufio.Reader
	left int  // of the record
	dry  bool // it has nothing, for now
}

const (
	recordHead = 5
	maxRecord  = 16<<10 + 2<<10 + recordHead
)

// errDry is a time-out, which TLS takes for nothing that lasts.
var errDry error = os.ErrDeadlineExceeded

func newRecords(c net.Conn) *records { return &records{Conn: c, br: bufio.NewReaderSize(c, maxRecord)} }

// NetConn is the connection itself, as of a tls.Conn.
func (r *records) NetConn() net.Conn { return r.Conn }

// Read implements io.Reader.
func (r *records) Read(b []byte) (int, error) {
	if r.dry {
		return 0, errDry
	}
	if r.left == 0 {
		h, err := r.br.Peek(recordHead)
		if err != nil {
			return 0, err
		}
		r.left = recordHead + int(h[3])<<8 + int(h[4])
	}
	n, err := r.br.Read(b[:min(len(b), r.left)])
	r.left -= n
	return n, err
}
