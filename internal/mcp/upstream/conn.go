package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxMessage = 4 << 20 // of one message of a server
	// maxUnasked is how many messages that nobody asked for a server may send
	// between two answers: progress and log lines that people would not read either.
	maxUnasked = 50_000

	listChanged    = "notifications/tools/list_changed"
	ping           = "ping"
	methodNotFound = -32601
)

var errFlood = errors.New("the server sends messages that nobody asked for, without end")

// guarded lets through what we asked for. Notifications are dropped where they
// arrive, so that none of them waits anywhere; requests of the server are refused.
type guarded struct {
	mcp.Transport
	changed func() // the server says that its tools are others
	over    func() // nothing more can be read
}

// Connect implements mcp.Transport.
func (t *guarded) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &filter{Connection: c, changed: t.changed, over: t.over}, nil
}

type filter struct {
	mcp.Connection
	changed func()
	over    func()
	unasked atomic.Int64
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
		q, is := m.(*jsonrpc.Request)
		if !is {
			f.unasked.Store(0)
			return m, nil
		}
		if f.unasked.Add(1) > maxUnasked {
			return nil, errFlood
		}
		switch {
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
