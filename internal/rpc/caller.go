package rpc

import (
	"context"

	"palyra"
)

// Caller is who makes a request, as the chain found it. The zero Caller may do
// nothing.
type Caller struct {
	Principal palyra.Principal
	Owner     palyra.Principal // whose agent it is
	Role      palyra.Role
	PeerUID   int64
	Parent    palyra.ID        // the running call that the caller is, when it came by that call's own door
	Signed    bool             // a person signed exactly this request
	Operator  palyra.Operator  // the key that signed
	Evidence  palyra.Signature // the signature, to be kept
}

// IsAgent reports whether the caller is an agent.
func (c Caller) IsAgent() bool { return c.Role == palyra.RoleAgent || c.Principal.IsAgent() }

type requestKey struct{}

// CallerOf returns who makes the request that a service is handling.
func CallerOf(ctx context.Context) Caller {
	r, ok := ctx.Value(requestKey{}).(*request)
	if !ok || !r.admitted {
		return Caller{}
	}
	return r.caller
}

// WithCaller is for the tests of services.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{caller: c, admitted: true})
}
