package lend

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"palyra"
)

// turns answers the plain requests of a client that asks one after the other: one goroutine reads, asks the server and
// answers.
type turns struct {
	*exchange
	client *tls.Conn
	br     *bufio.Reader
	bw     *bufio.Writer
	head   bytes.Reader // of the request that is read
	text   *bufio.Reader

	ctx     context.Context
	cancel  context.CancelFunc
	timer   *time.Timer // to watch
	watched chan bool   // what a watch saw
	until   time.Time   // the client's deadline
	newer   bool        // the server has no HTTP/1.1

	mu    sync.Mutex // guards asked, and the client's deadline as long as a watch may run; a leaf lock
	asked bool       // a client waits
}

// maxPlain is the longest head of a plain request.
const maxPlain = 8 << 10

// slow is when an answer takes so long that it is worth watching whether the client still wants it.
const slow = 50 * time.Millisecond

// inTurns answers until the client is gone, or until a request is not plain: that one, and all that come after it, are
// net/http's.
func (x *exchange) inTurns(client *tls.Conn) (rest net.Conn) {
	t := &turns{exchange: x, client: client, br: bufio.NewReaderSize(client, maxPlain), bw: bufio.NewWriter(client)}
	t.text = bufio.NewReaderSize(&t.head, maxPlain)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	defer t.cancel()
	t.timer, t.watched = time.AfterFunc(time.Hour, t.watch), make(chan bool)
	t.timer.Stop()
	for wait := t.way.Head; ; wait = t.way.Idle {
		t.within(wait)
		if _, err := t.br.Peek(1); err != nil {
			_ = client.Close()
			return nil
		}
		head, _ := t.br.Peek(t.br.Buffered())
		r, plain := t.plain(head)
		if !plain {
			_ = t.client.SetReadDeadline(time.Time{})
			return &looked{client, t.br}
		}
		_, _ = t.br.Discard(len(head))
		if !t.answer(r) {
			_ = client.Close()
			return nil
		}
	}
}

// within sets the deadline for the next request, unless one that is hardly sooner is set.
func (t *turns) within(wait time.Duration) {
	until := time.Now().Add(wait)
	if early := until.Sub(t.until); early < 0 || early > wait/8 {
		t.until = until
		_ = t.client.SetReadDeadline(until)
	}
}

// looked is a connection of which some was read and not answered.
type looked struct {
	net.Conn
	br *bufio.Reader
}

// Read implements io.Reader.
func (l *looked) Read(b []byte) (int, error) { return l.br.Read(b) }

// plain reads a request that is all there, has no body and asks for nothing of the connection.
func (t *turns) plain(b []byte) (*http.Request, bool) {
	if !isPlain(b) {
		return nil, false
	}
	t.head.Reset(b)
	t.text.Reset(&t.head)
	r, err := http.ReadRequest(t.text)
	if err != nil || r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.Close || !isHost(r.Host) ||
		r.Body != http.NoBody || len(r.TransferEncoding)+len(r.Trailer) > 0 { // which are not in Header
		return nil, false
	}
	for name, values := range r.Header {
		if !isName(name) || slices.ContainsFunc(values, isNotValue) {
			return nil, false
		}
		switch name {
		case "Connection":
			if len(values) != 1 || !strings.EqualFold(values[0], "keep-alive") {
				return nil, false
			}
		case "Content-Length", "Transfer-Encoding", "Expect", "Upgrade", "Te", "Trailer", "Keep-Alive", "Proxy-Connection",
			"Proxy-Authorization", "Proxy-Authenticate", "Http2-Settings":
			return nil, false
		}
	}
	return r, true
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func isName(s string) bool {
	for i := range len(s) {
		if !isWord(s[i]) {
			return false
		}
	}
	return s != ""
}

func isHost(s string) bool {
	for i := range len(s) {
		if !isWord(s[i]) && strings.IndexByte(".:[]", s[i]) < 0 {
			return false
		}
	}
	return s != ""
}

func isNotValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] > '~' {
			return true
		}
	}
	return false
}

// isPlain reports whether bytes are one request that only reads, whole, and with one host.
func isPlain(b []byte) bool {
	head, after, whole := bytes.Cut(b, []byte("\r\n\r\n"))
	if !whole || len(after) > 0 || !bytes.HasPrefix(b, []byte("GET /")) && !bytes.HasPrefix(b, []byte("HEAD /")) {
		return false
	}
	lines := bytes.Count(b, []byte("\r\n"))
	if bytes.Count(b, []byte("\n")) != lines || bytes.Count(b, []byte("\r")) != lines { // which readers take for different things
		return false
	}
	hosts, host := 0, []byte("host:")
	for line := range bytes.Lines(head) {
		if len(line) > len(host) && bytes.EqualFold(line[:len(host)], host) {
			hosts++
		}
	}
	return hosts == 1
}

// answer passes one request on and the answer back; false: the connection is over.
func (t *turns) answer(r *http.Request) (more bool) {
	t.asked = true
	t.timer.Reset(slow)
	defer func() { more = t.unwatch() && more }()
	defer func() { // as net/http does: a defect costs the connection
		if p := recover(); p != nil {
			more = false
		}
	}()
	leave, ok := t.enter(t.ctx)
	if !ok {
		return false
	}
	defer leave()
	res := t.ask(r.WithContext(t.ctx))
	defer func() { _ = res.Body.Close() }()
	return errors.Join(t.give(res), t.bw.Flush()) == nil // also what there is of a body that is cut
}

// ask asks the server, and answers in its place where that fails.
func (t *turns) ask(r *http.Request) *http.Response {
	if status, e := t.prepare(r); e != nil {
		return refusal(r, status, e)
	}
	t.readdress(r)
	r.RequestURI = ""
	r.Header.Del("Connection") // which a signature may have been over
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header["User-Agent"] = nil // or net/http would have one of its own
	}
	res, err := t.send(r)
	if err == nil {
		if err = t.back(r, res); err == nil {
			return res
		}
		_ = res.Body.Close()
	}
	return refusal(r, http.StatusBadGateway, unreached(t.way.At, err))
}

// send asks the server. One that has no HTTP/1.1 is asked by what it has from then on.
func (t *turns) send(r *http.Request) (*http.Response, error) {
	if !t.newer {
		res, err := t.one.ask(r, t.early)
		if err == nil || !strings.Contains(err.Error(), "tls: no application protocol") { // the alert has no type of its own
			return res, err
		}
		t.newer = true
	}
	return t.any.RoundTrip(r)
}

// refusal is an answer in the server's place.
func refusal(r *http.Request, status int, e *palyra.Error) *http.Response {
	text := refusalText(e)
	return &http.Response{
		StatusCode: status, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(text)), Body: io.NopCloser(bytes.NewReader(text)),
	}
}

// early passes an informational head on.
func (t *turns) early(status int, h http.Header) error {
	t.masks.head(h)
	h.Del("Content-Length") // there is no body
	for _, name := range ofConnections {
		h.Del(name)
	}
	t.line(status)
	if err := h.Write(t.bw); err != nil {
		return err
	}
	_, _ = t.bw.WriteString("\r\n")
	return t.bw.Flush()
}

func (t *turns) line(status int) {
	_, _ = fmt.Fprintf(t.bw, "HTTP/1.1 %03d %s\r\n", status, cmp.Or(http.StatusText(status), "status code "+strconv.Itoa(status)))
}

// give writes an answer. What has no known length goes on as it comes.
func (t *turns) give(res *http.Response) error {
	h := res.Header
	for _, name := range append(strings.Split(strings.Join(h["Connection"], ","), ","), ofConnections...) {
		h.Del(strings.TrimSpace(name))
	}
	empty := res.Request.Method == http.MethodHead || res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified
	parts := !empty && res.ContentLength < 0
	switch {
	case res.StatusCode == http.StatusNoContent:
		h.Del("Content-Length")
	case parts:
		h.Del("Content-Length")
		h.Set("Transfer-Encoding", "chunked")
		for name := range res.Trailer {
			h.Add("Trailer", name)
		}
	case !empty:
		h.Set("Content-Length", strconv.FormatInt(res.ContentLength, 10))
	}
	t.line(res.StatusCode)
	if err := h.Write(t.bw); err != nil {
		return err
	}
	_, _ = t.bw.WriteString("\r\n")
	switch {
	case empty:
	case parts:
		if err := t.giveParts(res); err != nil {
			return err
		}
	case res.ContentLength > 0:
		buf := copies{}.Get()
		defer copies{}.Put(buf)
		for left := res.ContentLength; left > 0; {
			n, err := res.Body.Read(buf[:min(left, int64(len(buf)))])
			if _, e := t.bw.Write(buf[:n]); e != nil {
				return e
			}
			if left -= int64(n); left > 0 && err != nil {
				return cmp.Or(err, io.ErrUnexpectedEOF)
			}
		}
	}
	return nil
}

// watch waits for a client that goes away while it waits for an answer, and ends what was asked for it.
func (t *turns) watch() {
	t.mu.Lock()
	if t.asked {
		_ = t.client.SetReadDeadline(time.Time{})
	}
	t.mu.Unlock()
	_, err := t.br.Peek(1)
	here := err == nil || errors.Is(err, os.ErrDeadlineExceeded)
	if !here {
		t.cancel()
	}
	t.watched <- here
}

// unwatch ends the watch, and reports whether the client is still there.
func (t *turns) unwatch() bool {
	if t.timer.Stop() {
		t.asked = false
		return true
	}
	t.mu.Lock()
	t.asked, t.until = false, time.Time{}
	_ = t.client.SetReadDeadline(time.Now())
	t.mu.Unlock()
	return <-t.watched
}

// ofConnections are the fields of a head that are about one connection.
var ofConnections = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Te", "Transfer-Encoding", "Upgrade"}

// giveParts writes a body, and what comes after it, as it comes.
func (t *turns) giveParts(res *http.Response) error {
	out := httputil.NewChunkedWriter(t.bw)
	buf := copies{}.Get()
	defer copies{}.Put(buf)
	for {
		if err := t.bw.Flush(); err != nil {
			return err
		}
		n, err := res.Body.Read(buf)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := res.Trailer.Write(t.bw); err != nil {
		return err
	}
	_, err := t.bw.WriteString("\r\n")
	return err
}
