package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// signing puts the credentials on requests: an agent's token, or a signature where the protocol asks for one.
type signing struct{ c *Client }

// WrapUnary implements connect.Interceptor.
func (s *signing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := s.c.authorise(ctx, req.Spec(), req.Header(), req.Any()); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor. The signature covers the
// one request of the stream, so it is made when that is sent.
func (s *signing) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return &signedConn{StreamingClientConn: next(ctx, spec), c: s.c, ctx: ctx}
	}
}

// WrapStreamingHandler implements connect.Interceptor; a client has none.
func (s *signing) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

type signedConn struct {
	connect.StreamingClientConn
	c    *Client
	ctx  context.Context // of this stream, which does not outlive it
	once sync.Once
	err  error
}

// Send implements connect.StreamingClientConn.
func (s *signedConn) Send(msg any) error {
	s.once.Do(func() { s.err = s.c.authorise(s.ctx, s.Spec(), s.RequestHeader(), msg) })
	if s.err != nil {
		return s.err
	}
	return s.StreamingClientConn.Send(msg)
}

// typing is how long a signature may take before its time is set anew.
const typing = 2 * time.Second

// authorise adds the credentials that the request needs.
func (c *Client) authorise(ctx context.Context, spec connect.Spec, h http.Header, msg any) error {
	if c.cfg.Door == AgentDoor && (c.cfg.Remote != nil || c.cfg.Command) {
		h.Set("Palyra-Door", "agent")
	}
	if !c.cfg.AgentToken.Empty() {
		return c.cfg.AgentToken.Use(func(b []byte) error {
			h.Set("Authorization", "Bearer "+string(b))
			return nil
		})
	}
	access, ok := wire.AccessOf(spec)
	if !ok {
		return errors.New("client: a method without an access option")
	}
	header, err := c.intent(ctx, access, msg)
	if err == nil && header != "" {
		h.Set(wire.IntentHeader, header)
	}
	return err
}

// intent signs a message where the protocol asks this client for it; "" means that no signature is needed.
func (c *Client) intent(ctx context.Context, access wire.Access, msg any) (string, error) {
	if !access.Signed || c.cfg.Door != OperatorDoor || !c.cfg.AgentToken.Empty() {
		return "", nil
	}
	m, ok := msg.(proto.Message)
	if !ok {
		return "", errors.New("client: not a message")
	}
	if c.cfg.Signer == nil {
		return "", palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRequired, "this must be signed and there is no operator key").
			WithRemedy("use the key that 'palyra up' made, or have an owner add yours")
	}
	audience, err := c.stateID(ctx)
	if err != nil {
		return "", err
	}
	asked := time.Now()
	header, err := sign(c.cfg.Signer, audience, access, m)
	if err == nil && time.Since(asked) > typing { // a person typed a passphrase meanwhile: the time in it is old
		header, err = sign(c.cfg.Signer, audience, access, m)
	}
	return header, err
}

// sign makes the header of a signed request.
func sign(s Signer, audience string, a wire.Access, m proto.Message) (string, error) {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails: the runtime aborts instead
	i := wire.Intent{
		Nonce: base64.RawURLEncoding.EncodeToString(nonce[:]), Time: palyra.Time(time.Now()), KeyID: s.KeyID(),
	}
	bound, err := wire.Bind(audience, a, m, i)
	if err != nil {
		return "", err
	}
	if i.Sig, err = s.Sign(bound.Intent); err != nil {
		return "", err
	}
	return i.Header()
}

// stateID returns the daemon's state id, which signatures are made for.
func (c *Client) stateID(ctx context.Context) (string, error) {
	c.mu.Lock()
	known := c.audience
	c.mu.Unlock()
	if known != "" {
		return known, nil
	}
	res, err := c.status().GetStatus(ctx, &v1.GetStatusRequest{})
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.audience = res.GetStatus().GetStateId()
	return c.audience, nil
}
