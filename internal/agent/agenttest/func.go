package agenttest

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// NewFunc starts a server that asks answer for each reply, for programs whose
// requests cannot be counted: they name conversations, warm up and try again.
func NewFunc(tb testing.TB, answer func(Request) Reply) *Server {
	s := &Server{answer: answer, news: make(chan struct{}, 1024)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}
