package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"palyra"
	"palyra/internal/mask"
)

// Bounds of what comes over the wire.
const (
	maxStream = 32 << 20 // bytes of one answer, however they are wrapped
	maxRefuse = 64 << 10 // bytes of an error's body that are looked at
	maxHeader = 256 << 10
	usualIdle = 3 * time.Minute
)

// Wire carries the requests of one provider. It is what the libraries that speak the protocols use as their HTTP
// client: every request has a way out of its own through the guard, nothing is followed, nothing is asked twice,
// and the key is put on at the last moment, so that no library ever holds it.
type Wire struct {
	// Way opens the way out for one request.
	Way func(ctx context.Context) (Way, error)
	// Key returns the provider's key; nil: it needs none.
	Key func(ctx context.Context) (palyra.Secret, error)
	// Sign puts the key on a request.
	Sign  func(h http.Header, key string)
	Mask  *mask.Masker   // masks what is sent; may be nil
	Roots *x509.CertPool // nil: the system's
	Idle  time.Duration  // without a byte; 0: three minutes
}

// Way is a way out for one request.
type Way struct {
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	Close func()
}

// Do sends a request. An answer other than a stream of events is a Fault.
func (w *Wire) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	res, done, err := w.send(ctx, req)
	if err != nil { // send has destroyed the key
		if done != nil {
			done()
		}
		err = causeOf(ctx, err)
		cancel(nil)
		return nil, err
	}
	idle := w.Idle
	if idle <= 0 {
		idle = usualIdle
	}
	res.Body = &exchange{
		body: res.Body, left: maxStream, idle: idle, ctx: ctx, cancel: cancel, done: done,
		timer: time.AfterFunc(idle, func() { cancel(errIdle) }),
	}
	return res, nil
}

// causeOf prefers why a context was ended to what came of it.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// send opens the connection and makes the request. done closes what it opened.
func (w *Wire) send(ctx context.Context, req *http.Request) (_ *http.Response, done func(), _ error) {
	req = req.Clone(ctx)
	if err := w.maskBody(req); err != nil {
		return nil, nil, err
	}
	key, err := w.setHeaders(ctx, req.Header)
	if err != nil {
		return nil, nil, err
	}
	way, err := w.Way(ctx)
	if err != nil {
		key.Destroy()
		return nil, nil, err
	}
	t := &http.Transport{
		DialContext:            way.Dial,
		TLSClientConfig:        &tls.Config{RootCAs: w.Roots, MinVersion: tls.VersionTLS12},
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 only
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	done = func() {
		t.CloseIdleConnections()
		way.Close()
		key.Destroy()
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return nil, done, err
	}
	res.Body = scrubbed(res.Body, key)
	if fault := refusal(res); fault != nil {
		_ = res.Body.Close()
		return nil, done, fault
	}
	return res, done, nil
}

// maskBody takes values of secrets out of what a request says.
func (w *Wire) maskBody(req *http.Request) error {
	if w.Mask.Empty() || req.Body == nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err := errors.Join(err, req.Body.Close()); err != nil {
		return err
	}
	body = w.Mask.JSON(body)
	req.Body, req.ContentLength, req.GetBody = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return nil
}

// setHeaders removes the library's headers about this machine and adds the key. It returns the key, which the
// caller destroys.
func (w *Wire) setHeaders(ctx context.Context, h http.Header) (key palyra.Secret, err error) {
	for name := range h {
		if strings.HasPrefix(name, "X-Stainless-") {
			h.Del(name)
		}
	}
	h.Del("Authorization")
	h.Del("X-Api-Key")
	h.Set("User-Agent", "palyra")
	if w.Key == nil {
		return key, nil
	}
	if key, err = w.Key(ctx); err != nil {
		return key, err
	}
	return key, key.Use(func(b []byte) error {
		w.Sign(h, string(b))
		return nil
	})
}

// refusal is the fault of an answer that is not a stream of events, else nil.
func refusal(res *http.Response) error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	stream := kind == "text/event-stream"
	if res.StatusCode == http.StatusOK && stream {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxRefuse)) // what there is of it
	f := FaultOf(body)
	f.Status, f.After = res.StatusCode, retryAfter(res.Header, time.Now())
	if res.StatusCode == http.StatusOK {
		f.Odd = "it answered with " + palyra.Clip(kind, 64) + " where a stream of events was asked for"
	}
	return f
}

// Why a stream ended early.
var (
	errIdle    = errors.New("nothing came for too long")
	errTooLong = palyra.Errorf(palyra.Exhausted, palyra.ReasonModelFailed, "the model's answer does not end").
			WithRemedy("ask for less at once, or use another model")
)

// exchange is the body of an answer: bounded in size and in how long it may be silent.
type exchange struct {
	body   io.ReadCloser
	left   int64
	idle   time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   func()
}

// Read implements io.Reader.
func (f *exchange) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, errTooLong
	}
	n, err := f.body.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	if n > 0 {
		f.timer.Reset(f.idle)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader's contract
		err = causeOf(f.ctx, err)
	}
	return n, err
}

// Close implements io.Closer.
func (f *exchange) Close() error {
	f.timer.Stop()
	err := f.body.Close()
	f.cancel(nil)
	f.done()
	return err
}
