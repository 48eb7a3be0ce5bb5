package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/show"
)

// connection is one connection to a server.
type connection struct {
	client  *mcp.ClientSession
	process Process // of stdio
	way     Way     // of http
	lent    Lent    // of http; nil: it uses no secrets
	start   palyra.Digest
	server  string
	spoken  atomic.Value // the revision of the protocol, a string, once it is known
	paged   int          // bytes of pages behind the first; the turn's

	reach flowOwners
	tasks taskWords

	fresh   atomic.Bool // the list of tools is as the server last said
	news    chan struct{}
	dead    chan struct{} // nothing of it is left, and its server knows
	ending  atomic.Bool   // it was stopped on purpose
	lost    atomic.Bool   // nothing can be read from it any more
	endOnce sync.Once
	closing sync.WaitGroup
	idle    func() // gives back connections that wait for use, of http
}

// attempt starts a server and makes a session, beginning with a revision of the protocol. It tries once.
func (s *server) attempt(ctx context.Context, revision string) (*connection, error) {
	x := &connection{news: make(chan struct{}, 1), dead: make(chan struct{})}
	t, err := s.transport(ctx, x)
	if err != nil {
		return nil, err
	}
	c, err := s.client(x)
	if err != nil {
		x.end("no_client")
		return nil, err
	}
	x.client, err = c.Connect(ctx, &quietConn{t, x.changed, func() { x.lost.Store(true) }, x.hears},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		if x.process != nil && closed(err) {
			x.await()
		}
		x.end("no_session")
		err = s.broken(ctx, x, err)
		s.over(x) // it may have reached something all the same
		return nil, err
	}
	r := x.client.InitializeResult()
	x.spoken.Store(r.ProtocolVersion)
	x.server = describe(r)
	return x, nil
}

// transport is the way to the server.
func (s *server) transport(ctx context.Context, x *connection) (mcp.Transport, error) {
	if s.def.Transport == palyra.TransportHTTP {
		return s.dial(ctx, x)
	}
	p, err := s.r.Launcher.Resolve(ctx, s.name, s.def)
	if err != nil {
		return nil, err
	}
	if x.start, err = p.Digest(); err != nil {
		return nil, err
	}
	if x.process, err = s.r.Launcher.Start(ctx, s.name, p); err != nil {
		return nil, err
	}
	in, out := x.process.Pipes()
	return &mcp.IOTransport{Reader: out, Writer: in, MaxLineLength: maxMessage}, nil
}

// describe is a server's own description, in one line.
func describe(r *mcp.InitializeResult) string {
	if r == nil || r.ServerInfo == nil {
		return ""
	}
	const most = 128
	return show.Line(fmt.Sprintf("%s %s, %s", palyra.Clip(r.ServerInfo.Name, most), palyra.Clip(r.ServerInfo.Version, most),
		palyra.Clip(r.ProtocolVersion, 32)))
}

// changed notes that the server's tools are others now.
func (x *connection) changed() {
	x.fresh.Store(false)
	select {
	case x.news <- struct{}{}:
	default:
	}
}

// maxList bounds all pages of a server's tools together: they are held at once.
const maxList = 4 << 20

// list asks for all tools, page by page.
func (x *connection) list(ctx context.Context) ([]*mcp.Tool, error) {
	if c := x.client.InitializeResult(); c == nil || c.Capabilities == nil || c.Capabilities.Tools == nil {
		return nil, nil
	}
	x.fresh.Store(true) // what changes from here on is told again
	x.tasks.list()
	var all []*mcp.Tool
	size := 0
	params := &mcp.ListToolsParams{}
	for range maxPages {
		res, err := x.client.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		all = append(all, res.Tools...)
		if len(all) > maxTools {
			return nil, fmt.Errorf("it has more than %d tools", maxTools)
		}
		raw, err := json.Marshal(res.Tools)
		if size += len(raw); err != nil || size > maxList {
			return nil, fmt.Errorf("its list of tools has more than %d bytes", maxList)
		}
		if params.Cursor != "" && !x.page(len(raw)) {
			return nil, fmt.Errorf("it was asked for more than %d bytes of pages", maxPaged)
		}
		if res.NextCursor == "" {
			x.tasks.listedAll()
			return all, nil
		}
		params = &mcp.ListToolsParams{Cursor: res.NextCursor}
	}
	return nil, fmt.Errorf("its list of tools has more than %d pages", maxPages)
}

// call calls a tool.
func (x *connection) call(ctx context.Context, name string, args json.RawMessage) (*mcp.CallToolResult, error) {
	if x.asTask(name) {
		return x.callTask(ctx, name, args)
	}
	res, err := x.client.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err == nil && res.NeedsInput() {
		return nil, errInput
	}
	return res, err
}

// halt ends the program of a call that was cancelled, revoked or ran out of time: a server may go on with it all
// the same, and nothing may be done any more in the name of a call that is over. Other calls that it has under way
// fail with it; the next one starts it anew. What is elsewhere cannot be stopped.
func (x *connection) halt(ctx context.Context) {
	if x.process == nil || ctx.Err() == nil {
		return
	}
	x.lost.Store(true) // no more calls: the next one waits for another start
	go func() {
		select {
		case <-x.process.Done():
		case <-time.After(haltGrace):
			x.end("call_stopped")
		}
	}()
}

// haltGrace is how long a server has to hear of the cancel and put things in order.
const haltGrace = 500 * time.Millisecond

// end stops a session on purpose. It does not wait.
func (x *connection) end(reason string) {
	x.endOnce.Do(func() {
		x.ending.Store(true)
		if x.process != nil {
			in, _ := x.process.Pipes()
			_ = in.Close() // a server in good order ends when its input does
			x.process.Stop(reason)
		}
		if x.way == nil {
			return
		}
		x.way.Close()
		if x.client != nil {
			x.closing.Go(func() { _ = x.client.Close() })
		}
		x.idle()
	})
}

// follow stays with a session until nothing of it is left, and says why it ended.
func (x *connection) follow() string {
	why := ""
	if err := x.client.Wait(); err != nil {
		why = trimmed(err)
	}
	x.ended()
	x.closing.Wait()
	_ = x.client.Close() // over already: it lets go of what listened
	if x.process != nil {
		<-x.process.Done()
		if how := x.exitText(); how != "" {
			why = how
		}
	}
	return why
}

// exitText says how a program that is done ended.
func (x *connection) exitText() string {
	how, _ := x.process.Last()
	return how
}

// ended gives back everything that an ended session holds.
func (x *connection) ended() {
	on := x.ending.Load()
	if x.process != nil && !on { // it may just be ending by itself: how is worth knowing
		in, out := x.process.Pipes()
		_, _ = in.Close(), out.Close()
		x.await()
	}
	x.end("session_over")
	x.ending.Store(on)
	if x.process != nil {
		_, out := x.process.Pipes()
		_ = out.Close()
	}
}

// await gives a server that closed its stdout a moment to end by itself.
func (x *connection) await() {
	select {
	case <-x.process.Done():
	case <-time.After(lastMoment):
	}
}

// usable reports whether calls can be made.
func (x *connection) usable() bool {
	select {
	case <-x.dead:
		return false
	default:
		return !x.ending.Load() && !x.lost.Load()
	}
}
