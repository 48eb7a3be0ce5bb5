package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"

	sdk "github.com/coder/acp-go-sdk"
)

// Bounds on what either side sends.
const (
	maxMessage = 8 << 20 // bytes of one
	maxAtOnce  = 64      // requests of one side
	maxNotes   = 256     // notifications that are not handled yet
)

var errMessage = errors.New("a message is too large")

// lines hands the library one message at a time, of bounded size. Lines that are no message are dropped: the library
// would log them, and whatever secret is in them. Notifications are handed over only as fast as they are handled.
type lines struct {
	r     *bufio.Reader
	ready <-chan struct{} // closed when the connection has its logger
	knows func(method string) bool
	first func(params json.RawMessage) // reads known notifications in the order of their coming; may be nil
	notes chan struct{}
	rest  []byte
}

func newLines(r io.Reader, ready <-chan struct{}, notes func(method string) bool) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), ready: ready, knows: notes, notes: make(chan struct{}, maxNotes)}
}

// handled tells that a notification was.
func (l *lines) handled() { <-l.notes }

// Read implements io.Reader.
func (l *lines) Read(b []byte) (int, error) {
	<-l.ready
	for len(l.rest) == 0 {
		line, err := l.line()
		if err != nil {
			return 0, err
		}
		if l.passes(line) {
			l.rest = line
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// line reads one, with its end.
func (l *lines) line() ([]byte, error) {
	var whole []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(whole)+len(part) > maxMessage {
			return nil, errMessage
		}
		whole = append(whole, part...)
		switch {
		case err == nil:
			return whole, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(whole)) > 0:
			return append(whole, '\n'), nil // the end comes with the next read
		default:
			return nil, err
		}
	}
}

// passes reports whether a line is a message that the other side may send: an answer, a known notification, or a
// request that is none. What has the id null is a notification to the library.
func (l *lines) passes(line []byte) bool {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil {
		return false
	}
	request := m.ID != nil && string(m.ID) != "null"
	switch {
	case m.Method == "":
		return request // an answer
	case request:
		return !l.knows(m.Method)
	case m.Method == cancelRequest:
		return true
	case l.knows(m.Method):
		if l.first != nil {
			l.first(m.Params)
		}
		l.notes <- struct{}{}
		return true
	}
	return false
}

const cancelRequest = "$/cancel_request"

// side is the connection to the editor or to the agent.
type side struct {
	conn *sdk.Connection
	in   *lines
}

// handler answers the requests of a side, and takes its notifications.
type handler struct {
	request func(ctx context.Context, method string, params json.RawMessage) (any, error)
	note    func(ctx context.Context, method string, params json.RawMessage)
	notes   func(method string) bool
	first   func(params json.RawMessage)
}

// connect speaks with one side. Nothing of it is read before start is closed.
func connect(r io.Reader, w io.Writer, start <-chan struct{}, h handler) *side {
	ready := make(chan struct{})
	s := &side{in: newLines(r, ready, h.notes)}
	s.in.first = h.first
	room := make(chan struct{}, maxAtOnce)
	s.conn = sdk.NewConnection(func(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
		if h.notes(method) {
			defer s.in.handled()
			h.note(ctx, method, params)
			return nil, nil
		}
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		default:
			return nil, refusal("too many requests at once")
		}
		out, err := h.request(ctx, method, params)
		return out, wireError(err)
	}, w, s.in)
	s.conn.SetLogger(slog.New(slog.DiscardHandler)) // it logs messages, and what is in them
	go func() { <-start; close(ready) }()
	return s
}

// ask sends a request on, as it is.
func (s *side) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	return sdk.SendRequest[json.RawMessage](s.conn, ctx, method, params)
}

// tell sends a notification on.
func (s *side) tell(method string, params any) {
	_ = s.conn.SendNotification(context.Background(), method, params)
}
