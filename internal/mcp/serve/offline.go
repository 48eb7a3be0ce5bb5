package serve

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
)

// statusTool is the only tool while no daemon has answered yet.
const statusTool = "palyra_status"

// Times of a server whose daemon has not answered yet.
const (
	firstLook  = 5 * time.Second // for one look at a daemon: a client waits for it, and gives up
	offlineRow = time.Second     // between two looks, at most
)

// offlineText is for models: their own shell must not start the daemon that is to judge them.
const offlineText = "Palyra's daemon does not answer, so none of its tools are here. A person starts it; it is not for you to start. " +
	"Call this to learn whether it is there now, and what to tell the person."

const onlineText = "Palyra's daemon answers now, and its tools are here: list the tools again. " +
	"If they do not appear, this client has to be connected to the server 'palyra' anew."

// goOffline offers the one tool that says why there are no others. A client that could not
// even connect would tell its person nothing but that the connection was closed.
func (s *Server) goOffline() {
	no := false
	s.away = true
	s.mcp.AddTool(&mcp.Tool{
		Name: statusTool, Title: "Why there are no tools", Description: offlineText, InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		Annotations: &mcp.ToolAnnotations{Title: "Why there are no tools", ReadOnlyHint: true, DestructiveHint: &no, OpenWorldHint: &no},
	}, s.answerOffline)
	s.mcp.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			r, ok := req.(*mcp.CallToolRequest)
			if !ok || method != "tools/call" || r.Params == nil || r.Params.Name == statusTool || s.look(ctx) == nil {
				return next(ctx, method, req)
			}
			return s.answerOffline(ctx, r) // a client that remembers tools of last time
		}
	})
}

// answerOffline looks for the daemon and says what was found.
func (s *Server) answerOffline(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := s.look(ctx); err != nil {
		return failure(statusTool, "", err), nil
	}
	return plainResult(state{Outcome: string(palyra.OutcomeFinished), Tool: statusTool}, false, onlineText), nil
}

// look makes the daemon's tools appear, unless it has done so before.
func (s *Server) look(ctx context.Context) error {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if !away {
		return nil
	}
	return s.refresh(ctx)
}

// list is the catalog, unless the daemon takes too long over it.
func (s *Server) list(ctx context.Context) ([]palyra.Tool, error) {
	patience, done := context.WithTimeout(ctx, firstLook)
	defer done()
	tools, err := s.Backend.Tools(patience)
	if err != nil && patience.Err() != nil && ctx.Err() == nil {
		return nil, palyra.Errorf(palyra.Unavailable, client.ReasonConnectionLost, "Palyra's daemon takes connections and does not answer").
			WithRemedy("have a person look at it with 'palyra status'").WithCause(err)
	}
	return tools, err
}

// online notes that the daemon has answered; from then on its tools stay, whether it is there or not. The lock is held.
func (s *Server) online() {
	if s.own {
		return
	}
	s.own = true
	s.addOwnTools()
	if s.away {
		s.away = false
		s.mcp.RemoveTools(statusTool)
	}
}

// unlisted logs that the daemon did not list its tools. Of one that was not there from
// the start nobody needs to hear each second.
func (s *Server) unlisted(err error) {
	s.mu.Lock()
	level := slog.LevelWarn
	if s.away {
		level = slog.LevelDebug
	}
	s.mu.Unlock()
	s.Log.Log(context.Background(), level, "cannot list the daemon's tools", "reason", palyra.AsError(err).Reason)
}

// pause is how long to wait before the next look at the catalog.
func (s *Server) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return min(s.Poll, offlineRow)
	}
	return s.Poll
}
