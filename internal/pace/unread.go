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

// Unread answers requests whose body the handler did not read, such as those it
// refused, within a second. The server reads such a body to its end before it
// sends the answer, and a client that sends a byte now and then would hold the
// connection for as long as it likes. An answer that is flushed, or larger than the
// server's buffer, is sent earlier and not covered: refusals are neither.
func Unread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || r.ProtoMajor != 1 { // HTTP/2 ends the stream alone
			next.ServeHTTP(w, r)
			return
		}
		body := &watched{ReadCloser: r.Body}
		own := *r // the server itself looks at what became of its own body
		own.Body = body
		next.ServeHTTP(w, &own)
		if !body.ended.Load() {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(rest))
		}
	})
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
