package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"palyra"
	"palyra/internal/tool"
)

// Mechanisms implements tool.Confined.
func (fetcher) Mechanisms(p palyra.Plan) []string {
	return append([]string{"egress_guard"}, p.Enforcement.Mechanisms...)
}

// Run implements tool.Tool.
func (f fetcher) Run(ctx context.Context, env tool.Env, p palyra.Plan) (json.RawMessage, error) {
	r, _, err := f.decode(p)
	if err != nil {
		return nil, err
	}
	if f.Open == nil || !slices.Equal(r.targets, p.Egress) {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the hosts are not those of the plan").
			WithRemedy("propose the call anew")
	}
	timed, cancel := context.WithTimeout(ctx, time.Duration(p.Limits.WallMS)*time.Millisecond)
	defer cancel()
	session, err := f.Open(timed, p)
	if err != nil {
		return nil, err
	}
	x := &exchange{Config: f.Config, request: r, flow: env.Flow}
	defer x.close(session)
	if x.lent, err = f.borrow(timed, env, p); err != nil {
		return nil, err
	}
	defer x.lent.Close()
	out, err := x.run(timed, session)
	switch {
	case err == nil:
		return out, nil
	case ctx.Err() != nil: // whatever the transport reports
		return nil, errors.Join(ctx.Err(), err)
	case errors.Is(timed.Err(), context.DeadlineExceeded):
		return nil, palyra.Errorf(palyra.Expired, palyra.ReasonTimedOut, "%s did not answer within %d ms", r.first.hostPort, p.Limits.WallMS).
			WithRemedy("ask for less at once, or for a longer timeout").WithCause(err)
	}
	return nil, err
}

// exchange is one call under way.
type exchange struct {
	Config
	request
	flow      func(palyra.EgressFlow)
	lent      Lent
	redirects []string
}

// close ends the session and passes on its flows.
func (x *exchange) close(s Gateway) {
	flows, _ := s.Close()
	for _, f := range flows {
		x.report(f)
	}
}

func (x *exchange) report(f palyra.EgressFlow) {
	if x.flow != nil {
		x.flow(f)
	}
}

// transport connects only through the session. It keeps no connection and follows no redirect.
func (x *exchange) transport(s Gateway) *http.Transport {
	return &http.Transport{
		DialContext:            s.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: x.Roots, MinVersion: tls.VersionTLS12},
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 only
		DisableKeepAlives:      true,
		DisableCompression:     true, // unpacked here, within bounds
		MaxResponseHeaderBytes: maxHead,
	}
}

// run makes hop after hop up to the final answer.
func (x *exchange) run(ctx context.Context, s Gateway) (json.RawMessage, error) {
	transport := x.transport(s)
	defer transport.CloseIdleConnections()
	h := hop{target: x.first, method: x.method, header: x.header, body: x.body, text: x.text}
	for {
		req := h.request(ctx)
		if err := x.lent.Fill(req, h.target.hostPort); err != nil {
			return nil, err
		}
		answer, err := transport.RoundTrip(req)
		if err != nil {
			return nil, broken(h.target, err)
		}
		next, err := x.next(h, answer)
		if err == nil && next == nil {
			return x.deliver(h, answer)
		}
		_ = answer.Body.Close() // the body of a redirect is not used
		if err != nil {
			return nil, err
		}
		h = *next
		x.redirects = append(x.redirects, x.lent.Text(h.target.url.String()))
	}
}

// hop is one request.
type hop struct {
	target target
	method string
	header http.Header
	body   []byte
	text   bool
}

// request returns the hop as an http.Request.
func (h hop) request(ctx context.Context) *http.Request {
	r := &http.Request{
		Method: h.method, URL: h.target.url, Host: h.target.url.Host, Header: h.header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	r.Header.Set("Accept-Encoding", "gzip")
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "palyra")
	}
	if len(h.body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(h.body)), int64(len(h.body))
		if r.Header.Get("Content-Type") == "" {
			r.Header.Set("Content-Type", contentType(h.text))
		}
	}
	return r.WithContext(ctx)
}

func contentType(text bool) string {
	if text {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
