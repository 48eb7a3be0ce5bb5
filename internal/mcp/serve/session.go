package serve

import (
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
)

const maxClient = 32

// soleClient reports whether nobody but the caller can have made the latest call of its
// session: over HTTP, clients without sessions are told apart by their names only.
func soleClient(req *mcp.CallToolRequest) bool {
	overHTTP := req.Extra != nil && req.Extra.Header != nil
	return !overHTTP || req.Session != nil && req.Session.ID() != ""
}

// session names the Palyra session of an MCP session: one each. A request without one (the newest revision has
// none) belongs to that of its client's name in this process.
func (s *Server) session(ss *mcp.ServerSession, info *mcp.Implementation) string {
	who := "client"
	if info != nil {
		who = clientName(info.Name)
	}
	id := s.instance
	if ss != nil && ss.ID() != "" {
		id = ss.ID()
	}
	return "mcp/" + who + "/" + palyra.Clip(id, 64)
}

// clientName is a client's own name for itself, as far as it can be part of a name.
func clientName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r == ' ', r == '_', r == '/':
			return '-'
		}
		return -1
	}, name[:min(len(name), 4*maxClient)])
	if name = strings.Trim(name[:min(len(name), maxClient)], "-."); name == "" {
		return "client"
	}
	return name
}

// maxLatest bounds the sessions whose latest call is remembered.
const maxLatest = 1024

// latest knows the latest call of each session, for a client that gave up before it learned the id.
type latest struct {
	mu    sync.Mutex
	calls map[string]palyra.CallID
}

func (l *latest) set(session string, id palyra.CallID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil || len(l.calls) >= maxLatest {
		l.calls = map[string]palyra.CallID{}
	}
	l.calls[session] = id
}

func (l *latest) get(session string) palyra.CallID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[session]
}
