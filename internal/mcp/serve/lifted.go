package serve

import (
	"bytes"
	"io"

	"palyra/internal/mcp/task"
)

// lifted is a client's messages, one a line, with the wishes for tasks where the library leaves them. A line that is
// longer than any message passes as it is, and is refused for its length.
type lifted struct {
	in    io.ReadCloser
	rest  []byte // to be read by the library
	line  []byte // what is there of the line
	inner bool   // what follows belongs to a line that is too long
	err   error
}

// Read implements io.Reader.
func (l *lifted) Read(b []byte) (int, error) {
	piece := make([]byte, 0)
	for len(l.rest) == 0 {
		if l.err != nil {
			if len(l.line) == 0 {
				return 0, l.err
			}
			l.rest, l.line = task.Lift(l.line), nil
			continue
		}
		if cap(piece) == 0 {
			piece = make([]byte, maxCancel)
		}
		var n int
		n, l.err = l.in.Read(piece)
		l.take(piece[:n])
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// take puts what has arrived where it belongs.
func (l *lifted) take(b []byte) {
	for len(b) > 0 {
		end, whole := len(b), false
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			end, whole = i+1, true
		}
		switch {
		case l.inner:
			l.rest = append(l.rest, b[:end]...)
			l.inner = !whole
		case whole:
			l.rest = append(l.rest, task.Lift(append(l.line, b[:end]...))...)
			l.line = nil
		default:
			l.line = append(l.line, b[:end]...)
			if len(l.line) > maxMessage {
				l.rest, l.line, l.inner = append(l.rest, l.line...), nil, true
			}
		}
		b = b[end:]
	}
}

// Close implements io.Closer.
func (l *lifted) Close() error { return l.in.Close() }
