package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"palyra/api/gen/palyra/v1/palyrav1connect"
)

// adopter answers the first call of a tool with an answer that is on its way already.
type adopter struct {
	next   http.RoundTripper
	mu     sync.Mutex // guards answer
	answer io.ReadCloser
}

// RoundTrip implements http.RoundTripper.
func (a *adopter) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path != palyrav1connect.ToolServiceCallToolProcedure {
		return a.next.RoundTrip(req)
	}
	a.mu.Lock()
	answer := a.answer
	a.answer = nil
	a.mu.Unlock()
	if answer == nil {
		return a.next.RoundTrip(req)
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		_ = answer.Close()
		return nil, fmt.Errorf("client: adopted call: %w", err)
	}
	_ = req.Body.Close()
	stop := context.AfterFunc(req.Context(), func() { _ = answer.Close() })
	res, err := http.ReadResponse(bufio.NewReader(answer), req)
	if err != nil {
		stop()
		_ = answer.Close()
		return nil, err
	}
	res.Body = adoptedBody{res.Body, answer}
	return res, nil
}

// adoptedBody is the body of an adopted answer, which ends with its connection.
type adoptedBody struct {
	io.ReadCloser
	answer io.Closer
}

// Close implements io.Closer. It does not read the rest: that may take for ever.
func (b adoptedBody) Close() error { return b.answer.Close() }
