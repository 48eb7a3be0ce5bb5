package pace

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// rest is how long the rest of a body that nobody wants may take.
const rest = time.Second

// Unread answers requests whose body the handler did not read, such as those it refused, within a second. The
// server reads such a body to its end before it sends the answer, and a client that sends a byte now and then would
// hold the connection for as long as it likes. An answer that is flushed, or larger than the server's buffer,
// begins to be sent before the handler returns: the rest of the body has its second from there on, and what the
// handler still writes has its own time.
func Unread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || r.ProtoMajor != 1 { // HTTP/2 ends the stream alone
			next.ServeHTTP(w, r)
			return
		}
		body := &watched{ReadCloser: r.Body}
		own := *r // the server itself looks at what became of its own body
		own.Body = body
		rc := http.NewResponseController(w)
		next.ServeHTTP(&early{ResponseWriter: w, rc: rc, body: body}, &own)
		if !body.ended.Load() {
			_ = rc.SetReadDeadline(time.Now().Add(rest))
		}
	})
}

// buffered is how much of an answer the server keeps back before it begins to send it.
const buffered = 2048

// early is an answer that may begin to be sent before its handler returns. Handlers write it
// from one goroutine at a time, as net/http asks of them.
type early struct {
	http.ResponseWriter
	rc   *http.ResponseController
	body *watched
	size int
	sent bool
}

// Write implements io.Writer.
func (w *early) Write(p []byte) (int, error) {
	if w.size += len(p); w.size > buffered {
		defer w.begin()()
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *early) Flush() { _ = w.FlushError() }

// FlushError flushes and reports a client that is gone.
func (w *early) FlushError() error {
	defer w.begin()()
	return w.rc.Flush()
}

// Unwrap lets http.ResponseController through.
func (w *early) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin limits the body's rest while the server reads it, which it does before the first byte of the answer.
// Afterwards there is no limit: it would end the request, because the server reads on only to see the client leave.
func (w *early) begin() (over func()) {
	if w.sent || w.body.ended.Load() {
		return func() {}
	}
	w.sent = true
	_ = w.rc.SetReadDeadline(time.Now().Add(rest))
	return func() { _ = w.rc.SetReadDeadline(time.Time{}) }
}

// watched is a body that knows whether it was read to its end.
type watched struct {
	io.ReadCloser
	ended atomic.Bool
}

// Read implements io.Reader.
func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}
