// Package sessions serves SessionService: people look at sessions and close them.
package sessions

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Sessions keeps the sessions.
type Sessions interface {
	// List returns sessions, newest first; open ones only unless all. before is the last session of the page before.
	List(ctx context.Context, all bool, before palyra.SessionID, limit int) ([]palyra.Session, error)
	// Get returns one.
	Get(ctx context.Context, id palyra.SessionID) (palyra.Session, error)
	// Close ends one and everything that hangs on it.
	Close(ctx context.Context, id palyra.SessionID, by string) error
}

// Service serves SessionService.
type Service struct{ sessions Sessions }

// New returns the service.
func New(s Sessions) *Service { return &Service{s} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewSessionServiceHandler(s, opts...)
}

const (
	defaultPage = 100
	largestPage = 500
)

// ListSessions implements the method. A page may hold fewer than the limit when
// only one principal's sessions are asked for.
func (s *Service) ListSessions(ctx context.Context, req *v1.ListSessionsRequest) (*v1.ListSessionsResponse, error) {
	limit := defaultPage
	if n := req.GetLimit(); n > 0 {
		limit = int(min(n, largestPage))
	}
	all, err := s.sessions.List(ctx, req.GetClosed(), palyra.SessionID(req.GetCursor()), limit)
	if err != nil {
		return nil, err
	}
	page := wire.SessionPage{Sessions: []palyra.Session{}}
	if len(all) == limit {
		page.Next = string(all[len(all)-1].ID)
	}
	for _, one := range all {
		if p := req.GetPrincipal(); p == "" || p == string(one.Principal) {
			page.Sessions = append(page.Sessions, one)
		}
	}
	res := &v1.ListSessionsResponse{}
	return res, wire.FromWord(page, res)
}

// GetSession implements the method.
func (s *Service) GetSession(ctx context.Context, req *v1.GetSessionRequest) (*v1.GetSessionResponse, error) {
	one, err := s.sessions.Get(ctx, palyra.SessionID(req.GetSessionId()))
	res := &v1.GetSessionResponse{Session: &v1.Session{}}
	return wire.Answer(res, res.GetSession(), one, err)
}

// CloseSession implements the method.
func (s *Service) CloseSession(ctx context.Context, req *v1.CloseSessionRequest) (*v1.CloseSessionResponse, error) {
	by := string(rpc.CallerOf(ctx).Principal)
	return &v1.CloseSessionResponse{}, s.sessions.Close(ctx, palyra.SessionID(req.GetSessionId()), by)
}
