// Package standin is a server that stands in for a model: it speaks the streams of OpenAI's chat completions and
// responses, of Anthropic's messages and of Gemini's contents as they are on the wire, and says what it is told to. Real
// agents are driven with it, by the doctor of hooks and by tests.
//
// Promises: it listens on the loopback address only, reaches nobody, keeps nothing, and what it is asked is bounded.
package standin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// ToolCall is a tool call in a reply, its arguments in pieces.
type ToolCall struct {
	Name      string
	Namespace string // of the tool, in responses
	Free      bool   // its argument is text and no JSON, in responses
	Args      []string
}

// Reply is what the model says.
type Reply struct {
	ID    string // tells the calls of one reply from those of another
	Text  []string
	Calls []ToolCall
	Stop  string // the protocol's own word; "": as the reply needs it
}

// Request is what it was asked.
type Request struct {
	Path   string
	Header http.Header
	Body   map[string]any
	Raw    string
}

// Stream is the reply in the protocol of a path.
func (p Reply) Stream(path string) string {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return p.Anthropic()
	case strings.HasSuffix(path, "/responses"):
		return p.Responses()
	case strings.Contains(path, ":streamGenerateContent"):
		return p.Gemini()
	}
	return p.OpenAI()
}

// Model is a server that is up.
type Model struct {
	URL  string
	done chan struct{}
	http *http.Server
}

// maxAsked is the most that one request may have.
const maxAsked = 64 << 20

// Serve starts one on the loopback address; answer says what it replies.
func Serve(answer func(Request) Reply) (*Model, error) {
	var from net.ListenConfig
	at, err := from.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &Model{URL: "http://" + at.Addr().String(), done: make(chan struct{})}
	m.http = &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAsked))
			if err != nil {
				http.Error(w, "too large", http.StatusRequestEntityTooLarge)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, answer(Read(r, raw)).Stream(r.URL.Path))
		}),
	}
	go func() {
		defer close(m.done)
		_ = m.http.Serve(at)
	}()
	return m, nil
}

// Close ends it, and waits until it has.
func (m *Model) Close() error {
	err := m.http.Close()
	<-m.done
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Read is a request as it came.
func Read(r *http.Request, raw []byte) Request {
	q := Request{Path: r.URL.Path, Header: r.Header.Clone(), Raw: string(raw)}
	_ = json.Unmarshal(raw, &q.Body)
	return q
}
