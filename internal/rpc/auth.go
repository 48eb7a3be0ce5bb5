package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"palyra"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/passkey"
	"palyra/internal/rpc/wire"
)

// decide is the permission that no agent may ever try for quietly.
const decide = palyra.PermitApprovalsDecide

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
	since    int64         // ends of credentials after this moment count
	behind   string        // the credential that the caller's own was made with
	token    palyra.Secret // the bearer's
	until    time.Time     // when the credential ends by itself; zero: not, or unknown
}

// runService is the prefix of the methods of runs.
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
	r := &request{auth: a, access: access, peer: p, since: a.live.begin()}
	if p.room != nil && strings.HasPrefix(spec.Procedure, runService) {
		return nil, wire.ToStatus(palyra.Errorf(palyra.Denied, palyra.ReasonPermission,
			"runs are not started from inside a sandbox: they would outlive it").
			WithRemedy("call tools one by one"))
	}
	if err := a.checkBuckets(r, h); err != nil {
		return nil, a.status(ctx, access, err)
	}
	if err := a.identify(ctx, r, h); err != nil {
		return nil, a.status(ctx, access, a.unauthenticated(r, err))
	}
	if err := a.rateLimit(r); err != nil {
		return nil, a.status(ctx, access, err)
	}
	if err := a.hold(ctx, r); err != nil {
		return nil, a.status(ctx, access, err)
	}
	return context.WithValue(ctx, requestKey{}, r), nil
}

// parseIntent reads the signature that came with a request, if one did.
func (r *request) parseIntent(h http.Header) (err error) {
	r.intent, r.signed, err = wire.ParseIntent(h)
	return err
}

// enter lets a request in whose message is there, for as long as its credential
// lasts. Who signed is only known by then.
func (a *auth) enter(ctx context.Context, r *request, msg any) error {
	err := a.admit(ctx, r, msg)
	if err == nil {
		err = a.hold(ctx, r)
	}
	r.admitted = err == nil
	return err
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

// admitAgent holds an agent to the methods that are open to agents. A try at what only people may sign is
// journaled; a signature that comes along changes nothing.
func (a *auth) admitAgent(r *request, m proto.Message) error {
	if r.access.Agents && a.Roles.Permits(palyra.RoleAgent, r.access.Permission, false) {
		if err := r.scoped(); err != nil {
			return err
		}
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
		if err := a.signer(ctx, r, sig); err != nil {
			return a.unauthenticated(r, a.alert(r, m, err))
		}
		if err := r.insecure(sig.Fields); err != nil {
			return err
		}
		r.caller.Evidence.Fields = wire.Kept(m, r.caller.Evidence.Fields)
	}
	switch {
	case !r.access.People:
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "this is for agents, and the credential is that of %s",
			palyra.Clip(string(r.caller.Principal), 128)).
			WithRemedy("come with an agent's token, which 'palyra agent add' makes, or without any through the agent socket: unset " +
				"PALYRA_AGENT_TOKEN_FILE")
	case r.access.Signed && !r.signed:
		return palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRequired, "this must be signed with an operator key").
			WithRemedy("use the palyra client with an operator key")
	case !a.Roles.Permits(r.caller.Role, r.access.Permission, r.caller.Signed) ||
		!a.Roles.Permits(r.caller.Cap, r.access.Permission, r.caller.Signed):
		return a.lacks(r)
	}
	if err := r.scoped(); err != nil {
		return err
	}
	r.caller.Starts = a.starts(r.caller)
	r.admitted = true
	return nil
}

// insecure refuses what is signed in a browser beyond this machine over plain HTTP, where others can be the page, and by a key
// that was ever paired there, which they may have: all but to deny.
func (r *request) insecure(fields map[string]any) error {
	denies := r.access.Permission == decide && fields["answer"] == string(palyra.AnswerDeny)
	if denies || !r.peer.plain && !passkey.Plain(r.caller.Device.Address) {
		return nil
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonInsecureChannel,
		"over plain HTTP, from another machine, the console looks and denies: whoever is on the way could have made the page that asks").
		WithRemedy("answer on the daemon's machine, or by HTTPS: set console.https_listen, then 'palyra console --door https'")
}

// starts reports whether a person could have calls proposed: their role and their credential's hold that, and the
// credential is one that can sign. What only looks is not to find out about files by asking about calls.
func (a *auth) starts(c Caller) bool {
	signs := c.Credential == ByOperatorSocket || c.Credential == ByDevice
	return signs && a.Roles.Permits(c.Role, start, true) && a.Roles.Permits(c.Cap, start, true)
}

// lacks says whose role does not hold the permission: the person's, or only that of the device they came from.
func (a *auth) lacks(r *request) error {
	if d := r.caller.Device; r.caller.Credential == ByDevice && a.Roles.Permits(r.caller.Cap, r.access.Permission, r.caller.Signed) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "the device %s has the role %s, which does not hold the permission %s",
			d.Name, r.caller.Role, r.access.Permission).
			WithRemedy("do it on the daemon's own machine, or pair this one again, under another name, with a role that holds it: palyra "+
				"device pair --role %s; 'palyra access roles' lists them",
				a.leastRole(r.access.Permission))
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "%s needs the permission %s", r.caller.Principal, r.access.Permission).
		WithRemedy("ask an owner for a role that has it")
}

// leastRole is the role of people that holds a permission and little else.
func (a *auth) leastRole(permission palyra.Permission) palyra.Role {
	for _, role := range palyra.PeopleRoles() {
		if a.Roles.Permits(role, permission, true) {
			return role
		}
	}
	return palyra.RoleOwner
}

// signer makes the caller the person who signed. A device's key counts on that
// device's own connection and nowhere else, and no other key counts there; that of a browser counts at the console.
func (a *auth) signer(ctx context.Context, r *request, sig palyra.Signature) error {
	op, evidence, err := a.Access.CheckIntent(ctx, sig)
	if err != nil {
		return err
	}
	if err := a.proven(r, op); err != nil {
		return err
	}
	if err := a.belongs(ctx, r, op); err != nil {
		return err
	}
	credential := ByOperatorSocket
	if op.Device != "" {
		credential = ByDevice
	}
	if err := a.person(ctx, r, op, credential); err != nil {
		return err
	}
	r.caller.Signed, r.caller.Operator, r.caller.Evidence = true, op, evidence
	return nil
}

// belongs checks that a key may sign where the request came in.
func (a *auth) belongs(ctx context.Context, r *request, op palyra.Operator) error {
	if !r.peer.console {
		if op.Device != r.peer.device {
			return palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "the key that signed does not belong to this connection").
				WithRemedy("sign with the key of the device that asks, or with an operator's key on the daemon's own machine")
		}
		return nil
	}
	wrong := palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential,
		"a browser signs with a key of its own, paired for the person who signed it in").
		WithRemedy("pair this browser: palyra console pair")
	if op.Device == "" {
		return wrong
	}
	d, err := a.Access.Device(ctx, op.Device)
	switch {
	case err != nil:
		return err
	case !d.Browser() || !d.Live() || r.caller.Principal != "" && d.Principal != r.caller.Principal:
		return wrong
	case d.Passkey != nil && r.access.Permission != decide:
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "a passkey answers questions, and signs nothing else").
			WithRemedy("pair this browser, which gives it a key of its own: palyra console pair")
	case d.Address != r.peer.at: // its key is in the hands of whoever answers at that origin
		return palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "this browser was paired with the console at %s, and this is another",
			palyra.Clip(d.Address, 64)).
			WithRemedy("pair it here: palyra console pair; revoke the other: palyra device revoke")
	case !a.Now().Before(d.ExpiresAt):
		return palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "the key of this browser was good until %s", palyra.Time(d.ExpiresAt)).
			WithRemedy("pair this browser again: palyra console pair")
	}
	switch {
	case r.caller.Credential == ByConsole && d.Passkey == nil:
		a.uses(r, d)
	case r.caller.Credential != ByConsole && (d.Passkey != nil || passkey.Plain(d.Address)):
		// A passkey may lie in several browsers, and such a key in others' hands: it is a session that says which, and until when.
		return palyra.Errorf(palyra.Denied, palyra.ReasonNoCredential, "this key answers in a browser that is signed in").
			WithRemedy("run 'palyra console' and open the link that it prints")
	}
	r.caller.Device = d
	return nil
}

// bounded are the permissions of a person who is bound to workspaces: their methods show nobody's work, or
// only that of those workspaces.
var bounded = []palyra.Permission{
	palyra.PermitStatusView, palyra.PermitToolsList, palyra.PermitPolicyRead,
	palyra.PermitApprovalsView, decide,
}

// scoped refuses methods that a token was not made for, and requests beyond the workspaces that a person is
// bound to.
func (r *request) scoped() error {
	if len(r.caller.Within) > 0 && !r.caller.IsAgent() && !slices.Contains(bounded, r.access.Permission) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied, "%s is bound to some workspaces, and this is about all of them",
			r.caller.Principal).
			WithRemedy("ask an owner to do it")
	}
	if r.caller.Scopes == nil || slices.Contains(r.caller.Scopes, r.access.Permission) {
		return nil
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied, "the token does not have the scope %s", r.access.Permission).
		WithRemedy("see what it has: palyra access whoami --agent; have one made with it: palyra access token add --scope %s",
			r.access.Permission)
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
func approvalOf(m proto.Message) palyra.ApprovalID {
	const most = 32
	r := m.ProtoReflect()
	fd := r.Descriptor().Fields().ByName("approval_id")
	if fd == nil {
		return ""
	}
	return palyra.ApprovalID(palyra.Clip(r.Get(fd).String(), most))
}

// WrapUnary implements connect.Interceptor.
func (a *auth) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		r, ok := ctx.Value(requestKey{}).(*request)
		if !ok {
			return nil, wire.ToStatus(errors.New("rpc: the gate was not passed"))
		}
		defer a.recovered(r, &err)
		if err := a.enter(ctx, r, req.Any()); err != nil {
			return nil, a.status(ctx, r.access, err)
		}
		res, err = next(ctx, req)
		if err != nil {
			return nil, a.status(ctx, r.access, err)
		}
		return res, nil
	}
}

// WrapStreamingHandler implements connect.Interceptor. The handler of a stream from the daemon runs after its one
// request was received, and so after admit; in a stream both ways each message is let in by Admit. A stream ends
// when the daemon stops.
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
		a.lapse(ctx, r, cancel)
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

// status turns a handler's error into the one that the caller may see. The rest is logged here, because it is
// reported nowhere else.
func (a *auth) status(ctx context.Context, access wire.Access, err error) error {
	if ce := (*connect.Error)(nil); errors.As(err, &ce) && !palyraError(err) {
		return err // made by the protocol's own machinery
	}
	if cause := context.Cause(ctx); ctx.Err() != nil && !palyraError(err) {
		switch {
		case palyraError(cause):
			return a.masked(cause)
		case errors.Is(cause, context.DeadlineExceeded):
			return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the caller's deadline passed"))
		}
		return connect.NewError(connect.CodeCanceled, errors.New("the caller went away"))
	}
	if palyra.CodeOf(err) == palyra.Internal {
		a.Log.Error("a request failed", "method", access.Method, "err", err, "cause", errors.Unwrap(palyra.AsError(err)))
	}
	return a.masked(err)
}

// masked is an error as a caller may see it, without values of secrets.
func (a *auth) masked(err error) error {
	e := *palyra.AsError(err)
	e.Text, e.Remedy = a.Mask.String(e.Text), a.Mask.String(e.Remedy)
	return wire.ToStatus(&e)
}

func palyraError(err error) bool {
	e := (*palyra.Error)(nil)
	return errors.As(err, &e)
}

// recovered turns a panic over a request into an error, with nothing of it in the answer.
func (a *auth) recovered(r *request, err *error) {
	if p := recover(); p != nil {
		a.Log.Error("a request panicked", "method", r.access.Method, "panic", fmt.Sprint(p))
		*err = wire.ToStatus(errors.New("rpc: panic"))
	}
}
