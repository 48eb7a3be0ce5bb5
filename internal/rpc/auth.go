package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"palyra"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc/wire"
)

// decide is the permission that no agent may ever try for quietly.
const decide = "approvals.decide"

// request is what is known of a request so far. The gate fills it from the
// headers; admit completes it when the message is there.
type request struct {
	auth     *auth
	access   wire.Access
	peer     peer
	caller   Caller
	intent   wire.Intent
	signed   bool // an intent came with it
	admitted bool
}

// runService is what the methods of runs begin with.
const runService = "/" + palyrav1connect.RunServiceName + "/"

// auth is the chain from headers to handler.
type auth struct{ *Server }

// gate runs when the headers are there and the message is not: it finds out who
// asks. It refuses what no message could make right.
func (a *auth) gate(ctx context.Context, spec connect.Spec, _ connect.Peer, h http.Header) (context.Context, error) {
	access, ok := wire.AccessOf(spec)
	p, known := peerOf(ctx)
	if !ok || !known {
		return nil, wire.ToStatus(palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "the method is not open to anybody"))
	}
	r := &request{auth: a, access: access, peer: p}
	if p.bound != nil && strings.HasPrefix(spec.Procedure, runService) {
		return nil, wire.ToStatus(palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "runs are not started from inside a sandbox: they would outlive it").
			WithRemedy("call tools one by one"))
	}
	if err := a.identify(ctx, r, h); err != nil {
		return nil, a.status(ctx, access, err)
	}
	return context.WithValue(ctx, requestKey{}, r), nil
}

// identify takes the principal from the credential. A token decides, on either
// socket: a bad one never falls back to something else.
func (a *auth) identify(ctx context.Context, r *request, h http.Header) (err error) {
	r.caller.PeerUID = r.peer.uid
	if r.intent, r.signed, err = wire.ParseIntent(h); err != nil {
		return a.alert(r, nil, err)
	}
	token, given, err := bearer(h)
	if err != nil {
		return a.alert(r, nil, err)
	}
	switch {
	case r.peer.bound != nil && given:
		return a.alert(r, nil, palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "at a run's own door nobody is anyone else"))
	case given:
		agent, err := a.Access.AgentByToken(ctx, token)
		if err != nil {
			return a.alert(r, nil, err)
		}
		r.caller.Principal, r.caller.Owner, r.caller.Role = agent.Principal, agent.Owner, palyra.RoleAgent
	case r.peer.bound != nil:
		r.caller.Principal, r.caller.Owner, r.caller.Role = r.peer.bound.Principal, r.peer.bound.Owner, palyra.RoleAgent
		r.caller.Parent = r.peer.parent
	case r.peer.agent:
		agent, err := a.Access.LocalAgent(ctx)
		if err != nil {
			return err
		}
		r.caller.Principal, r.caller.Owner, r.caller.Role = agent.Principal, agent.Owner, palyra.RoleAgent
	case !r.signed: // the signature says who; without one it is the daemon's user, looking
		person, err := a.Access.Person(ctx, r.peer.uid)
		if err != nil {
			return err
		}
		r.caller.Principal, r.caller.Role = person.Principal, person.Role
	}
	return nil
}

// bearer returns the agent token of a request.
func bearer(h http.Header) (palyra.Secret, bool, error) {
	vals := h.Values("Authorization")
	if len(vals) == 0 {
		return palyra.Secret{}, false, nil
	}
	token, ok := strings.CutPrefix(vals[0], "Bearer ")
	if len(vals) > 1 || !ok || token == "" {
		return palyra.Secret{}, false, palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "the Authorization header is not one bearer token")
	}
	return palyra.NewSecret([]byte(token)), true, nil
}

// admit decides about a request whose message is there.
func (a *auth) admit(ctx context.Context, r *request, msg any) error {
	m, ok := msg.(proto.Message)
	if !ok {
		return errors.New("rpc: not a message")
	}
	if err := wire.Known(m); err != nil {
		return err
	}
	if r.caller.IsAgent() {
		return a.admitAgent(r, m)
	}
	return a.admitPerson(ctx, r, m)
}

// admitAgent holds an agent to the methods that are open to agents. A try at
// what only people may sign is journaled; a signature that comes along changes
// nothing.
func (a *auth) admitAgent(r *request, m proto.Message) error {
	if r.access.Agents && a.Access.Permits(palyra.RoleAgent, r.access.Permission, false) {
		r.admitted = true
		return nil
	}
	err := palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "an agent may not do this").
		WithRemedy("a person may, through the operator socket")
	if r.access.Permission == decide {
		err = palyra.Errorf(palyra.Denied, palyra.ReasonAgentMayNotDecide, "an agent may not decide approvals").
			WithRemedy("have a person decide it with an operator key")
	}
	if r.access.Signed {
		return a.alert(r, m, err)
	}
	return err
}

func (a *auth) admitPerson(ctx context.Context, r *request, m proto.Message) error {
	if r.signed {
		sig, err := wire.Bind(a.StateID, r.access, m, r.intent)
		if err != nil {
			return err
		}
		op, evidence, err := a.Access.CheckIntent(ctx, sig)
		if err != nil {
			return a.alert(r, m, err)
		}
		r.caller = Caller{
			Principal: op.Principal, Role: op.Role, PeerUID: r.peer.uid, Signed: true, Operator: op, Evidence: evidence,
		}
	}
	switch {
	case !r.access.People:
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "this is for agents").WithRemedy("use the agent socket")
	case r.access.Signed && !r.signed:
		return palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRequired, "this must be signed with an operator key").
			WithRemedy("use the palyra client with an operator key")
	case !a.Access.Permits(r.caller.Role, r.access.Permission, r.caller.Signed):
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "%s needs the permission %s", r.caller.Principal, r.access.Permission).
			WithRemedy("ask an owner for a role that has it")
	}
	r.admitted = true
	return nil
}

// alert journals a try that should not happen, and returns its error.
func (a *auth) alert(r *request, m proto.Message, err error) error {
	e := palyra.AsError(err)
	if e.Code != palyra.Denied { // the daemon failed, not the caller
		return err
	}
	ev := palyra.AlertRaised{
		Reason: e.Reason, Principal: r.caller.Principal, PeerUID: r.peer.uid, Method: r.access.Method,
		KeyID: palyra.Clip(r.intent.KeyID, 64),
	}
	if m != nil {
		ev.Approval = approvalOf(m)
	}
	a.alarm.raise(ev)
	return err
}

// approvalOf returns the approval a request names, if it looks like one.
func approvalOf(m proto.Message) palyra.ID {
	const most = 32
	r := m.ProtoReflect()
	fd := r.Descriptor().Fields().ByName("approval_id")
	if fd == nil {
		return ""
	}
	return palyra.ID(palyra.Clip(r.Get(fd).String(), most))
}

// WrapUnary implements connect.Interceptor.
func (a *auth) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		r, ok := ctx.Value(requestKey{}).(*request)
		if !ok {
			return nil, wire.ToStatus(errors.New("rpc: the gate was not passed"))
		}
		defer a.recovered(r, &err)
		if err := a.admit(ctx, r, req.Any()); err != nil {
			return nil, a.status(ctx, r.access, err)
		}
		res, err = next(ctx, req)
		if err != nil {
			return nil, a.status(ctx, r.access, err)
		}
		return res, nil
	}
}

// WrapStreamingHandler implements connect.Interceptor. The handler of a stream
// from the daemon runs after its one request was received, and so after admit;
// in a stream both ways each message is let in by Admit. A stream ends when the
// daemon stops.
func (a *auth) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		r, ok := ctx.Value(requestKey{}).(*request)
		kind := conn.Spec().StreamType
		if !ok || (kind != connect.StreamTypeServer && kind != connect.StreamTypeBidi) {
			return wire.ToStatus(errors.New("rpc: the gate was not passed"))
		}
		defer a.recovered(r, &err)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(a.stopping, func() { cancel(errStopping) })()
		in := &admitting{StreamingHandlerConn: conn, auth: a, ctx: ctx, request: r}
		if kind == connect.StreamTypeBidi {
			defer in.open()()
		}
		if err := next(ctx, in); err != nil {
			return a.status(ctx, r.access, err)
		}
		return nil
	}
}

// WrapStreamingClient implements connect.Interceptor; the doors have no client.
func (a *auth) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

var errStopping = palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping").
	WithRemedy("start it again with 'palyra up'")

// status turns a handler's error into what the caller may see. What stays
// inside is logged here, because nobody else will hear of it.
func (a *auth) status(ctx context.Context, access wire.Access, err error) error {
	if ce := (*connect.Error)(nil); errors.As(err, &ce) && !palyraError(err) {
		return err // made by the protocol's own machinery
	}
	if cause := context.Cause(ctx); ctx.Err() != nil && !palyraError(err) {
		switch {
		case palyraError(cause):
			return wire.ToStatus(cause)
		case errors.Is(cause, context.DeadlineExceeded):
			return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the caller's deadline passed"))
		}
		return connect.NewError(connect.CodeCanceled, errors.New("the caller went away"))
	}
	if palyra.CodeOf(err) == palyra.Internal {
		a.Log.Error("a request failed", "method", access.Method, "err", err, "cause", errors.Unwrap(palyra.AsError(err)))
	}
	return wire.ToStatus(err)
}

func palyraError(err error) bool {
	e := (*palyra.Error)(nil)
	return errors.As(err, &e)
}

// recovered turns a panic over a request into an error, with nothing of it in
// the answer.
func (a *auth) recovered(r *request, err *error) {
	if p := recover(); p != nil {
		a.Log.Error("a request panicked", "method", r.access.Method, "panic", fmt.Sprint(p))
		*err = wire.ToStatus(errors.New("rpc: panic"))
	}
}
