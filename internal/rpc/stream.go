package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"palyra"
	"palyra/internal/rpc/wire"
)

// admitting is a stream whose first message is admitted or refused. A stream
// that goes both ways is only opened by that.
type admitting struct {
	connect.StreamingHandlerConn
	auth    *auth
	ctx     context.Context // of this stream, which it does not outlive
	request *request
	body    *timedBody // of a stream that goes both ways
	begun   bool
}

// open makes the stream one of many messages, whose reading ends with its
// context. What it returns is for the stream's end.
func (c *admitting) open() (stop func() bool) {
	body, ok := c.ctx.Value(bodyKey{}).(*timedBody)
	if !ok {
		return func() bool { return false }
	}
	c.body = body
	return context.AfterFunc(c.ctx, func() {
		if cause := context.Cause(c.ctx); palyraError(cause) {
			body.cut(wire.ToStatus(cause))
			return
		}
		body.cut(connect.NewError(connect.CodeCanceled, errors.New("the caller went away")))
	})
}

// Receive implements connect.StreamingHandlerConn.
func (c *admitting) Receive(msg any) error {
	if c.body != nil && c.begun {
		c.body.betweenMessages()
	}
	if err := c.StreamingHandlerConn.Receive(msg); err != nil {
		return err
	}
	c.begun = true
	if c.request.admitted {
		return strange(msg)
	}
	if err := c.auth.enter(c.ctx, c.request, msg); err != nil {
		return err
	}
	if c.Spec().StreamType == connect.StreamTypeBidi { // a signature covers one message, never those that follow
		c.request.caller = c.request.caller.unsigned()
	}
	return nil
}

// strange refuses a later message that this build does not understand.
func strange(msg any) error {
	m, ok := msg.(proto.Message)
	if !ok {
		return errors.New("rpc: not a message")
	}
	return wire.Known(m)
}

// Admit lets one message of a stream in, or refuses it, exactly as though it had come alone to the method that
// access is of: with the credential the stream was opened with and the intent that stands next to the message,
// which is empty or what the method's header would hold. In the context that it returns, CallerOf is who sent the
// message.
func Admit(ctx context.Context, access wire.Access, m proto.Message, intent string) (context.Context, error) {
	outer, ok := ctx.Value(requestKey{}).(*request)
	if !ok || !outer.admitted || outer.auth == nil {
		return nil, errors.New("rpc: admit: not inside a stream")
	}
	r := &request{auth: outer.auth, access: access, peer: outer.peer, caller: outer.caller.unsigned(), since: outer.since}
	h := http.Header{}
	if intent != "" {
		h.Set(wire.IntentHeader, intent)
	}
	var err error
	if r.intent, r.signed, err = wire.ParseIntent(h); err != nil {
		return nil, r.auth.alert(r, nil, err)
	}
	r.unsignable()
	if err := r.auth.rateLimit(r); err != nil {
		return nil, err
	}
	if err := r.auth.admit(ctx, r, m); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, requestKey{}, r), nil
}

// EndInput makes the Receive of a stream that goes both ways return io.EOF, also while it waits: what else the
// client sends is not read. It may be called from any goroutine until the stream's handler returns.
func EndInput(ctx context.Context) {
	if body, ok := ctx.Value(bodyKey{}).(*timedBody); ok {
		body.cut(io.EOF)
	}
}

// Go runs f beside a stream's handler and returns where its error will be. A
// panic in f ends the stream and not the daemon. The handler must wait for it.
func Go(ctx context.Context, f func() error) <-chan error {
	done := make(chan error, 1)
	r, ok := ctx.Value(requestKey{}).(*request)
	if !ok || r.auth == nil {
		done <- errors.New("rpc: go: not inside a stream")
		return done
	}
	go func() {
		var err error
		defer func() { done <- err }()
		defer r.auth.recovered(r, &err)
		err = f()
	}()
	return done
}

// unsigned is the caller without what was signed.
func (c Caller) unsigned() Caller {
	c.Signed, c.Operator, c.Evidence = false, palyra.Operator{}, palyra.Signature{}
	return c
}
