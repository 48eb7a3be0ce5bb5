// Package agenttest is a server of models for tests: it speaks the streams of OpenAI's chat completions and
// responses, of Anthropic's messages and of Gemini's contents as they are on the wire, gives the replies it was
// told to, whole or in any pieces, breaks off, drips, babbles or never ends, and keeps what it was asked.
package agenttest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"palyra/internal/standin"
)

// ToolCall is a tool call in a reply, its arguments in pieces.
type ToolCall = standin.ToolCall

// Reply is one answer of the server. Status 0 is a stream made of Text and
// Calls; any other is an answer with Body. Raw, if set, is the stream itself.
type Reply struct {
	Status int
	Header map[string]string
	Body   string

	ID    string // tells the calls of one reply from those of another
	Text  []string
	Calls []ToolCall
	Stop  string // the protocol's own word; "": as the reply needs it
	Raw   string

	Piece   int           // bytes written at a time; 0: all
	Cut     int           // bytes after which the connection is broken; 0: never
	Drip    time.Duration // between pieces
	Endless string        // is sent over and over after the stream's beginning
	Wait    chan struct{} // is waited for before anything is sent
	Hang    bool          // says nothing until the client leaves
}

// Request is what the server was asked.
type Request = standin.Request

// Server gives the replies of its list, one per request; when they are used up it answers with status 418.
type Server struct {
	*httptest.Server
	answer  func(Request) Reply // takes the place of the list
	mu      sync.Mutex
	replies []Reply
	seen    []Request
	news    chan struct{}
}

// New starts a server that ends with the test.
func New(tb testing.TB, replies ...Reply) *Server {
	s := &Server{replies: replies, news: make(chan struct{}, 1024)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Add adds replies.
func (s *Server) Add(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = append(s.replies, replies...)
}

// Seen returns what was asked so far.
func (s *Server) Seen() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.seen...)
}

// Asked is told of each request.
func (s *Server) Asked() <-chan struct{} { return s.news }

func (s *Server) take(r *http.Request) Reply {
	raw, _ := io.ReadAll(r.Body)
	q := standin.Read(r, raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, q)
	select {
	case s.news <- struct{}{}:
	default: // nobody counts them
	}
	if s.answer != nil {
		return s.answer(q)
	}
	if len(s.replies) == 0 {
		return Reply{Status: http.StatusTeapot, Body: `{"error":{"message":"no reply is left"}}`}
	}
	next := s.replies[0]
	s.replies = s.replies[1:]
	return next
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	p := s.take(r)
	if p.Wait != nil {
		select {
		case <-p.Wait:
		case <-r.Context().Done():
			return
		}
	}
	for k, v := range p.Header {
		w.Header().Set(k, v)
	}
	if p.Status != 0 {
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(p.Status)
		_, _ = io.WriteString(w, p.Body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	p.send(w, r)
}

// send writes the stream as the reply says.
func (p Reply) send(w http.ResponseWriter, r *http.Request) {
	stream := p.Raw
	if stream == "" {
		stream = p.said().Stream(r.URL.Path)
	}
	if p.Cut > 0 {
		stream = stream[:min(p.Cut, len(stream))]
	}
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	piece := p.Piece
	if piece == 0 {
		piece = max(len(stream), 1)
	}
	for len(stream) > 0 {
		n := min(piece, len(stream))
		if _, err := io.WriteString(w, stream[:n]); err != nil {
			return
		}
		_ = flush.Flush()
		stream = stream[n:]
		if p.Drip > 0 && !wait(r, p.Drip) {
			return
		}
	}
	for p.Endless != "" {
		if _, err := io.WriteString(w, p.Endless); err != nil {
			return
		}
		_ = flush.Flush()
		if r.Context().Err() != nil {
			return
		}
	}
	if p.Hang {
		<-r.Context().Done()
	}
	if p.Cut > 0 {
		panic(http.ErrAbortHandler) // the connection breaks
	}
}

func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// said is what the reply says, without how it is sent.
func (p Reply) said() standin.Reply {
	return standin.Reply{ID: p.ID, Text: p.Text, Calls: p.Calls, Stop: p.Stop}
}

// OpenAI is the reply as a stream of chat completion chunks.
func (p Reply) OpenAI() string { return p.said().OpenAI() }

// Anthropic is the reply as a stream of message events.
func (p Reply) Anthropic() string { return p.said().Anthropic() }
