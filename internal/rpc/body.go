package rpc

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"palyra"
	"palyra/internal/pace"
	"palyra/internal/rpc/wire"
)

// Errors for a client whose request does not arrive. The machinery that reads the body passes these on as
// they are, and nothing of the connection's own errors.
var (
	errNoRoom = wire.ToStatus(palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "too much is being received at once").
			WithRemedy("wait for other requests to end").WithAfter(time.Second))
	errDeclared = palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge,
		"the request says that it is larger than anything that is taken here").
		WithRemedy("send at most %d bytes", maxCallBody)
	errSlow = wire.ToStatus(palyra.Errorf(palyra.Expired, palyra.ReasonTimedOut, "the request did not arrive in time").
		WithRemedy("send it whole"))
)

// budget bounds the request bytes held at once.
type budget struct {
	mu   sync.Mutex
	left int64
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
}

// timedBody is a request's body that must arrive in time and within the budget.
type timedBody struct {
	io.ReadCloser
	w      http.ResponseWriter
	rc     *http.ResponseController
	bodies *budget
	limit  time.Duration
	held   int64
	since  time.Time // when the message that is arriving began to
	got    int64     // of it
	quiet  bool      // between two messages of a stream
	whole  bool      // its connection is for this request alone: the rest of it is taken before it is closed

	mu   sync.Mutex // guards what follows
	end  error      // what reading gives after cut
	all  bool       // of the body is here: the server reads on by itself, only to see the client leave
	over bool       // the request is, and w is not ours any more
}

type bodyKey struct{}

// begin starts the clock. It is for the body alone: once that is whole a deadline
// would end the request, because the server takes it for the client's leaving.
func (b *timedBody) begin() {
	b.since, b.got = time.Now(), 0
	b.deadline(b.since.Add(pace.Within(b.limit, 0)))
}

// extend gives a body of which something came the time that goes with it.
func (b *timedBody) extend(n int) {
	b.got += int64(n)
	b.deadline(b.since.Add(pace.Within(b.limit, b.got)))
}

// betweenMessages is for a stream of messages, after one and before the next: the pause may take any time,
// and the memory of the last message is given back. The next one has its own time from its first byte on.
func (b *timedBody) betweenMessages() {
	b.release()
	b.quiet = true
	b.deadline(time.Time{})
}

func (b *timedBody) deadline(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil && !b.all && !b.over {
		_ = b.rc.SetReadDeadline(t)
	}
}

// cut ends the body with err, from any goroutine, also while it is being read.
func (b *timedBody) cut(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil && !b.over {
		b.end = err
		_ = b.rc.SetReadDeadline(time.Unix(1, 0)) // long ago
	}
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if b.quiet {
			b.quiet = false
			b.begin()
		}
		if err == nil {
			b.extend(n)
		}
		if !b.bodies.take(int64(n)) {
			return 0, errNoRoom
		}
		b.held += int64(n)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, b.timeoutError()
	case errors.Is(err, io.EOF):
		b.arrived()
	}
	return n, err
}

// arrived ends the clock: nothing more comes.
func (b *timedBody) arrived() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = true
}

// timeoutError says why the time to read is up.
func (b *timedBody) timeoutError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != nil {
		return b.end
	}
	if b.whole { // the rest may still come, and nobody waits for it
		b.w.Header().Set("Connection", "close")
		b.whole = false
	}
	return errSlow
}

// release gives back the memory of the received bytes.
func (b *timedBody) release() {
	b.bodies.give(b.held)
	b.held = 0
}

// What is still taken of a request that was answered before it was read, so that its sender gets to read the
// answer: a connection that is closed on unread bytes is reset, and the answer is lost with it.
const (
	mostDrained  = 1 << 20
	longestDrain = time.Second
)

// Close implements io.Closer. It takes the rest first, within bounds.
func (b *timedBody) Close() error {
	if b.whole {
		b.deadline(time.Now().Add(longestDrain))
		_, _ = io.CopyN(io.Discard, b.ReadCloser, mostDrained) // what does not come in time is not waited for
	}
	return b.ReadCloser.Close()
}

// finish is the end of the request.
func (b *timedBody) finish() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.release()
}

// timedWriter gives every write its own deadline, so that a client that does not read cannot hold a handler;
// there is no deadline between writes, so that a stream may be quiet.
type timedWriter struct {
	http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration
}

// Write implements io.Writer.
func (w *timedWriter) Write(p []byte) (int, error) {
	defer w.start()()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *timedWriter) Flush() { _ = w.FlushError() }

// FlushError flushes and reports a client that is gone.
func (w *timedWriter) FlushError() error {
	defer w.start()()
	return w.rc.Flush()
}

// Unwrap lets http.ResponseController through.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *timedWriter) start() (stop func()) {
	if w.rc.SetWriteDeadline(time.Now().Add(w.limit)) != nil {
		return func() {}
	}
	return func() { _ = w.rc.SetWriteDeadline(time.Time{}) }
}
