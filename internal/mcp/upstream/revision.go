package upstream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/mcp/task"
)

// The revisions of the protocol that we begin with. Servers of every age know the handshake, and answer it with
// what they speak; one that came with the stateless revision may refuse it. The other way round would not do: there
// are old servers that die of a method they do not know, or never answer it.
const (
	handshake = task.Revision
	stateless = "2026-07-28"
)

// errInput is for a stateless server that asks something in the middle of a call.
var errInput = errors.New("it wants to be told more before it answers, and Palyra tells servers nothing")

// connect starts a server and makes a session. One that refuses the handshake is started once more and spoken to
// without; that is remembered while the daemon runs. The turn is the caller's.
func (s *server) connect(ctx context.Context) (*connection, error) {
	s.revision = cmp.Or(s.revision, handshake)
	x, err := s.attempt(ctx, s.revision)
	if err == nil || s.revision != handshake || ctx.Err() != nil || !s.refuses(err) {
		return x, err
	}
	again, later := s.attempt(ctx, stateless)
	if later != nil {
		return nil, err
	}
	s.revision = stateless
	return again, nil
}

// refuses tells the refusal of a handshake from a server that cannot be reached or
// has ended. What HTTP servers say in place of an answer can be anything.
func (s *server) refuses(err error) bool {
	if e := (*jsonrpc.Error)(nil); errors.As(err, &e) {
		return true
	}
	e := (*url.Error)(nil)
	return s.def.Transport == palyra.TransportHTTP && !errors.As(err, &e)
}

// client is the library's, which offers servers nothing.
func (s *server) client(x *connection) (*mcp.Client, error) {
	o := &mcp.ClientOptions{
		Logger: slog.New(slog.DiscardHandler), Capabilities: &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	}
	if x.process != nil {
		// A stateless server tells of changes only whom it was asked to tell, which the library does for who has a
		// handler. The filter hears of them first. Over HTTP the library would wait without bounds for the answer.
		o.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) {}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "palyra", Version: s.r.Version}, o)
	c.AddSendingMiddleware(x.uncached)
	return c, sendTasks(c)
}

// uncached has the list of tools asked for whenever we look, however long a server
// says that it holds: one that changed in between must not go unseen.
func (x *connection) uncached(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, r)
		if list, ok := res.(*mcp.ListToolsResult); ok && err == nil {
			list.TTLMs = 0
		}
		return res, err
	}
}

// maxPaged bounds what the library keeps of a stateless server: every page it ever
// sent, by a name that the server chooses.
const maxPaged = 4 * maxList

// page counts one behind the first. A session with too many is over; the next call has a new one.
func (x *connection) page(size int) bool {
	if v, _ := x.spoken.Load().(string); v < stateless {
		return true
	}
	if x.paged += size; x.paged > maxPaged {
		x.end("too_many_pages")
		return false
	}
	return true
}
