package egress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"palyra"
	"palyra/internal/egress/sniff"
)

// line is a connection to a server for plain HTTP.
type line struct {
	up   *stream
	flow *flow
	at   target
	by   *question // the answer that let it through, if one did
}

// alive reports whether a used line can take another request: the server has neither closed it nor
// sent anything unasked.
func (l *line) alive() bool {
	_ = l.up.SetReadDeadline(time.Unix(1, 0))
	_, err := l.up.br.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// relay passes on the requests of a client that was let through to one host. Each must be for that
// host: a server with many names goes by the name in the request.
func (t *tunnel) relay() {
	l := &line{up: t.stream(t.up), flow: t.flow, at: t.permit.target}
	defer l.up.release()
	for {
		r, err := t.readRequest(t.client, t.permit.port)
		if err == nil {
			err = t.suits(r)
		}
		if err != nil {
			t.refuseRequest(t.client, r, err)
			return
		}
		if !t.exchange(t.client, r, l) {
			return
		}
	}
}

// suits checks that a request is for the permitted target.
func (t *tunnel) suits(r *request) error {
	if _, given := r.Get("host"); given == 0 && !r.whole {
		r.at = t.permit.target // HTTP/1.0 without Host: the request is given one
	} else if at, err := t.resolveTarget(r.at.host, r.at.port); err == nil {
		r.rename(at)
	}
	if r.Method != http.MethodConnect && r.at == t.permit.target {
		return nil
	}
	err := palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "the connection is for %s and the request for %s", t.permit.target, r.at).
		WithRemedy("propose the call with %q in its egress list, and connect to that", r.at)
	t.refused(t.permit.door, r.at, err)
	return err
}

// exchange passes one request on and its answer back. It reports whether the connection can take another.
func (s *Session) exchange(c *stream, r *request, l *line) bool {
	a := s.activity()
	n, err := l.up.Write(r.onward())
	l.flow.out.Add(int64(n))
	if err == nil && r.waits() {
		_, err = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	if err != nil {
		return false
	}
	if !r.hasBody() {
		return s.answers(c, r, l, a)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		sendBody(c, r, l, a)
	}()
	s.answers(c, r, l, a)
	a.stop(c.TCPConn) // the answer can arrive before the request is complete
	_ = l.up.Close()
	<-sent
	c.linger(s.guard.times.quiet)
	return false
}

// sendBody passes a request's body on.
func sendBody(c *stream, r *request, l *line, a *activity) {
	var err error
	if _, chunked := r.Get("transfer-encoding"); chunked > 0 {
		err = copyChunked(l.up, c, r.parsed.Body, nil, &l.flow.out, a)
	} else {
		err = copyFixed(l.up, c, r.parsed.ContentLength, &l.flow.out, a)
	}
	if err != nil { // the server waits for bytes that will not come
		_ = l.up.CloseWrite()
	}
}

const maxInterim = 32 // interim answers

// answers passes the answer to a request back, with the interim ones before it, and reports whether
// there can be another.
func (s *Session) answers(c *stream, r *request, l *line, a *activity) bool {
	for i := range maxInterim {
		raw, resp, err := readAnswer(l.up, r.parsed, a)
		if err != nil {
			if i == 0 {
				s.refuseRequest(c, r, palyra.Errorf(palyra.Unavailable, palyra.ReasonNotFound, "%s gave no answer that can be read", l.at).
					WithRemedy("try again; answers whose head is over %d bytes are not read", sniff.Most).WithCause(err))
			}
			return false
		}
		switched := resp.StatusCode == http.StatusSwitchingProtocols
		if switched && !r.upgrades() {
			return false
		}
		final := switched || resp.StatusCode >= 200
		if final && r.last() && !resp.Close {
			raw = closing(raw)
		}
		n, err := c.Write(raw)
		l.flow.in.Add(int64(n))
		switch {
		case err != nil:
			return false
		case switched:
			s.switched(c, l)
			return false
		case final:
			return answerBody(c, resp, l, a) == nil && !resp.Close && !r.last()
		}
	}
	return false
}

// closing adds to an answer that the connection closes after it.
func closing(raw []byte) []byte {
	if head, ok := bytes.CutSuffix(raw, []byte("\r\n\r\n")); ok {
		return append(head, "\r\nConnection: close\r\n\r\n"...)
	}
	return raw
}

// readAnswer reads the head of an answer, and also returns its bytes. Its size is bounded; its
// correctness is between server and client.
func readAnswer(up *stream, r *http.Request, a *activity) ([]byte, *http.Response, error) {
	up.within(a.idle)
	for have := 0; ; {
		b, err := up.more(have)
		if err != nil {
			return nil, nil, err
		}
		have = len(b)
		size := answerSize(b)
		if size == 0 {
			continue
		}
		raw := bytes.Clone(b[:size])
		resp, err := http.ReadResponse(up.br, r)
		return raw, resp, err
	}
}

// answerSize finds the empty line after a head; 0 means that it is not complete yet.
func answerSize(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return 0
		}
		at += i + 1
		if rest := b[at:]; bytes.HasPrefix(rest, []byte("\n")) {
			return at + 1
		} else if bytes.HasPrefix(rest, []byte("\r\n")) {
			return at + 2
		}
	}
}

// answerBody passes an answer's body back.
func answerBody(c *stream, resp *http.Response, l *line, a *activity) error {
	switch {
	case resp.Body == http.NoBody:
		return nil
	case len(resp.TransferEncoding) > 0:
		return copyChunked(c, l.up, resp.Body, &resp.Trailer, &l.flow.in, a)
	case resp.ContentLength >= 0:
		return copyFixed(c, l.up, resp.ContentLength, &l.flow.in, a)
	}
	resp.Close = true
	return copyFixed(c, l.up, math.MaxInt64, &l.flow.in, a)
}

// copyFixed passes on a body of so many bytes; MaxInt64 means to the end.
func copyFixed(dst, src *stream, size int64, n *atomic.Int64, a *activity) error {
	if have := min(int64(src.br.Buffered()), size); have > 0 {
		b, _ := src.br.Peek(int(have))
		sent, err := dst.Write(b)
		n.Add(int64(sent))
		if err != nil {
			return err
		}
		_, _ = src.br.Discard(sent)
		size -= have
	}
	moved, err := src.owner.move(dst.TCPConn, src.TCPConn, size, n, a)
	if err == nil && moved < size && size < math.MaxInt64-sniff.Most {
		return io.ErrUnexpectedEOF
	}
	return err
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n *atomic.Int64
}

// Write implements io.Writer.
func (c counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// copyChunked passes a chunked body on in chunks of our own, each as soon as it arrives, so that
// the body can be read in one way only.
func copyChunked(dst, src *stream, body io.Reader, trailer *http.Header, n *atomic.Int64, a *activity) error {
	w := bufio.NewWriterSize(counter{dst, n}, sniff.Most)
	for buf := make([]byte, sniff.Most/2); ; {
		src.within(a.idle)
		if a.stopped.Load() {
			return errStopped
		}
		got, err := body.Read(buf)
		if got > 0 {
			_, _ = w.WriteString(strconv.FormatInt(int64(got), 16) + "\r\n")
			_, _ = w.Write(buf[:got])
			_, _ = w.WriteString("\r\n")
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	_, _ = w.WriteString("0\r\n")
	if trailer != nil {
		_ = trailer.Write(w)
	}
	_, _ = w.WriteString("\r\n")
	return w.Flush()
}

// switched connects both sides of a WebSocket.
func (s *Session) switched(c *stream, l *line) {
	t := &tunnel{Session: s, client: c, up: l.up.TCPConn, flow: l.flow, active: s.activity()}
	if n := l.up.br.Buffered(); n > 0 {
		b, _ := l.up.br.Peek(n)
		sent, err := c.Write(b)
		l.flow.in.Add(int64(sent))
		if err != nil {
			return
		}
	}
	defer t.end()
	t.answer()
	t.forward()
}
