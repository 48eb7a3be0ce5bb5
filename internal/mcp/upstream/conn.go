package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/mcp/task"
)

const (
	maxMessage = 4 << 20 // of one message of a server
	// maxUnasked is how many messages that nobody asked for a server may send
	// between two answers: progress and log lines that people would not read either.
	maxUnasked = 50_000

	listChanged    = "notifications/tools/list_changed"
	cancelled      = "notifications/cancelled"
	ping           = "ping"
	methodNotFound = -32601
)

var errFlood = errors.New("the server sends messages that nobody asked for, without end")

// quietConn lets through what we asked for. Notifications are dropped where they
// arrive, so that none of them waits anywhere; requests of the server are refused.
type quietConn struct {
	mcp.Transport
	changed func()                             // the server says that its tools are others
	over    func()                             // nothing more can be read
	heard   func(method string, result []byte) // an answer to a request of ours, before the library reads it
}

// Connect implements mcp.Transport.
func (t *quietConn) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &filter{Connection: c, quietConn: t, open: map[any]string{}}, nil
}

type filter struct {
	mcp.Connection
	*quietConn

	mu      sync.Mutex     // guards the fields below
	open    map[any]string // the methods of our requests that have no answer, by their ids
	unasked int
}

// Write implements mcp.Connection. What we ask is known by its answer.
func (f *filter) Write(ctx context.Context, m jsonrpc.Message) error {
	if q, is := m.(*jsonrpc.Request); is {
		if q.Method == callAsTask {
			named := *q
			named.Method = task.MethodCall
			m, q = &named, &named
		}
		f.note(q)
	}
	return f.Connection.Write(ctx, m)
}

func (f *filter) note(q *jsonrpc.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.IsCall() {
		f.open[q.ID.Raw()] = q.Method
		return
	}
	var p struct {
		ID any `json:"requestId"`
	}
	if q.Method != cancelled || json.Unmarshal(q.Params, &p) != nil {
		return
	}
	if id, err := jsonrpc.MakeID(p.ID); err == nil {
		delete(f.open, id.Raw())
	}
}

// asked reports whether an answer is one to a request of ours, the first.
func (f *filter) asked(r *jsonrpc.Response) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := r.ID.Raw()
	method, open := f.open[id]
	if !open {
		return false
	}
	delete(f.open, id)
	f.unasked = 0
	if r.Error == nil {
		f.heard(method, r.Result)
	}
	return true
}

// floods counts a message that nobody asked for.
func (f *filter) floods() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unasked++
	return f.unasked > maxUnasked
}

// Read implements mcp.Connection.
func (f *filter) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := f.next(ctx)
	if err != nil {
		f.over()
	}
	return m, err
}

func (f *filter) next(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := f.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		if r, is := m.(*jsonrpc.Response); is && f.asked(r) {
			return m, nil
		}
		if f.floods() {
			return nil, errFlood
		}
		q, is := m.(*jsonrpc.Request)
		switch {
		case !is: // an answer to nothing
		case q.IsCall() && q.Method == ping:
			return m, nil
		case q.IsCall():
			if err := f.Connection.Write(ctx, &jsonrpc.Response{ID: q.ID, Error: refused(q.Method)}); err != nil {
				return nil, fmt.Errorf("upstream: refuse a request: %w", err)
			}
		case q.Method == listChanged:
			f.changed()
		}
	}
}

func refused(string) error {
	return &jsonrpc.Error{Code: methodNotFound, Message: "Palyra offers servers nothing: no sampling, no roots, no elicitation"}
}
