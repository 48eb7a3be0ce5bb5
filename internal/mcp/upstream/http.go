package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
)

const maxHead = 64 << 10

// dial makes the way to a server behind a URL: to its host and to nothing else.
func (s *server) dial(ctx context.Context, x *connection) (mcp.Transport, error) {
	host, err := s.host()
	if err != nil {
		return nil, err
	}
	p := palyra.Plan{Egress: []string{host}}
	if x.start, err = p.Digest(); err != nil {
		return nil, err
	}
	if x.way, err = s.r.Network.Open(ctx, p); err != nil {
		return nil, err
	}
	web := &http.Transport{
		DialContext: x.way.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: maxHead, MaxConnsPerHost: 8, DisableCompression: true,
	}
	x.idle = web.CloseIdleConnections
	via, err := s.borrow(ctx, x, host, web)
	if err != nil {
		x.way.Close()
		return nil, err
	}
	client := &http.Client{
		Transport: &bounded{via, &x.spoken},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the server sends us elsewhere, which is not followed")
		},
	}
	return &mcp.StreamableClientTransport{Endpoint: s.def.URL, HTTPClient: client, MaxRetries: -1, MaxEventSize: maxMessage}, nil
}

// host is the server's, in its one form.
func (s *server) host() (string, error) {
	at, err := hostPort(s.def.URL)
	if err != nil {
		return "", err
	}
	got, err := s.r.Network.Check([]string{at})
	if err != nil {
		return "", err
	}
	if len(got) != 1 {
		return "", badDefinition("the URL is not one of one host")
	}
	return got[0], nil
}

// bounded cuts off answers that do not end: one may not be larger than any message.
// The stream of what nobody asked for is not opened; it would be bounded as well.
type bounded struct {
	http.RoundTripper
	spoken *atomic.Value
}

// spokenHeader names the revision of the protocol in every request after the
// handshake. The library does it for connections that are its own, not for ours.
const spokenHeader = "Mcp-Protocol-Version"

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if v, _ := b.spoken.Load().(string); v != "" && r.Header.Get(spokenHeader) == "" {
		r = r.Clone(r.Context())
		r.Header.Set(spokenHeader, v)
	}
	res, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = &capped{ReadCloser: res.Body, left: 2 * maxMessage}
	return res, nil
}

type capped struct {
	io.ReadCloser
	left int64
}

var errLong = errors.New("the answer is too long")

// Read implements io.Reader.
func (c *capped) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if c.left -= int64(n); c.left < 0 {
		_ = c.Close() // the reader may not end it: the server would go on
		return 0, errLong
	}
	return n, err
}
