package rpc

import (
	"context"
	"net/http"
	"strings"

	"palyra"
)

// DoorHeader says, on a device's connection and at the operator's socket, that an
// agent speaks and not the person. It can only give authority up.
const DoorHeader = "Palyra-Door"

// start is the permission to propose calls.
const start = palyra.PermitRunsStart

// identify takes the principal from the credential. A token decides, at every
// door: a bad one never falls back to something else.
func (a *auth) identify(ctx context.Context, r *request, h http.Header) (err error) {
	r.caller.PeerUID = r.peer.uid
	if err := r.parseIntent(h); err != nil {
		return a.alert(r, nil, err)
	}
	token, given, err := bearer(h)
	if err != nil {
		return a.alert(r, nil, err)
	}
	if err := a.connected(ctx, r); err != nil {
		return err
	}
	switch {
	case r.peer.room != nil && given:
		return a.alert(r, nil, palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "at a run's own door nobody is anyone else"))
	case r.peer.console && given:
		return a.alert(r, nil, palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "a browser comes with its cookie, not with a token").
			WithRemedy("use the token at a socket of the daemon, or from a paired device"))
	case given:
		return a.byToken(ctx, r, token)
	case r.peer.room != nil:
		r.asRoomAgent(*r.peer.room)
	case r.peer.device != "":
		return a.byDevice(ctx, r, h)
	case r.peer.console:
		return a.byCookie(ctx, r, h)
	case r.peer.agent:
		agent, err := a.Agents.LocalAgent(ctx)
		if err != nil {
			return err
		}
		return a.agentOf(ctx, r, agent, ByAgentSocket)
	case r.peer.device == "" && len(h.Values(DoorHeader)) > 0:
		return a.byCommand(ctx, r, h)
	case !r.signed: // the signature says who; without one it is the daemon's user, looking
		person, err := a.Access.Person(ctx, r.peer.uid)
		if err != nil {
			return err
		}
		return a.person(ctx, r, person, ByOperatorSocket)
	}
	return nil
}

// agentOf makes the caller an agent that reaches what its owner does.
func (a *auth) agentOf(ctx context.Context, r *request, agent palyra.Agent, credential string) (err error) {
	r.agent(agent, credential)
	_, r.caller.Within, err = a.Access.Cap(ctx, agent.Owner)
	return err
}

// asRoomAgent makes the caller the agent of a room. Its credential is the room's, so that
// it uses up nobody else's share, and ends with that of its agent.
func (r *request) asRoomAgent(room AgentSocket) {
	r.agent(room.Agent, ByRoom)
	r.caller.CredentialID, r.behind = "room:"+string(room.Call), string(room.Agent.Principal)
	r.caller.Room, r.caller.Line, r.caller.Origin = room.Call, room.Line, room.Origin
	r.caller.Within, r.caller.Scopes = room.Within, room.Scopes
}

// byCommand is a person's own command at the operator's socket, which proposes calls and decides nothing:
// neither the person, whose signature it does not bring, nor the unnamed agent of the agent's socket.
func (a *auth) byCommand(ctx context.Context, r *request, h http.Header) error {
	if door := h.Values(DoorHeader); len(door) > 1 || door[0] != "agent" {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s can only be agent", DoorHeader)
	}
	r.signed = false
	agent, err := a.Agents.CommandAgent(ctx, r.peer.uid)
	if err != nil {
		return err
	}
	return a.agentOf(ctx, r, agent, ByCommand)
}

// agent makes the caller an agent.
func (r *request) agent(a palyra.Agent, credential string) {
	r.caller.Principal, r.caller.Owner, r.caller.Role, r.caller.Cap = a.Principal, a.Owner, palyra.RoleAgent, palyra.RoleAgent
	r.caller.Credential, r.caller.CredentialID = credential, string(a.Principal)
}

// person makes the caller the person behind a key, as far as both the key's role and the person's own reach.
func (a *auth) person(ctx context.Context, r *request, o palyra.Operator, credential string) error {
	role, within, err := a.Access.Cap(ctx, o.Principal)
	if err != nil {
		return err
	}
	r.caller.Principal, r.caller.Role, r.caller.Cap, r.caller.Within = o.Principal, o.Role, role, within
	r.caller.Credential, r.caller.CredentialID = credential, "key:"+o.KeyID
	if o.Device != "" {
		r.caller.CredentialID = "device:" + o.Device
	}
	return nil
}

// byToken is the principal that the token speaks for. A signature that comes along changes nothing: a token
// never gains a person's authority.
func (a *auth) byToken(ctx context.Context, r *request, token palyra.Secret) error {
	b, err := a.Access.Bearer(ctx, token)
	if err != nil {
		return a.alert(r, nil, err)
	}
	r.token, r.until = token, b.ExpiresAt
	a.shown.rememberValid(token, b.CredentialID)
	r.caller.Principal, r.caller.Owner, r.caller.Role, r.caller.Cap = b.Principal, b.Owner, b.Role, b.Cap
	r.caller.Scopes, r.caller.Within = b.Scopes, b.Within
	r.caller.Credential, r.caller.CredentialID = ByToken, b.CredentialID
	r.unsignable()
	return nil
}

// unsignable takes the signature off a request, or off a message in a stream, whose credential cannot gain by one:
// a token speaks for itself.
func (r *request) unsignable() {
	if r.caller.Credential == ByToken {
		r.signed = false
	}
}

// connected checks the device behind a connection, whatever else comes with the request. It is looked up for every
// request: one that was revoked a moment ago is let in by no connection that is still open.
func (a *auth) connected(ctx context.Context, r *request) error {
	if r.peer.device == "" {
		return nil
	}
	d, err := a.Access.Device(ctx, r.peer.device)
	switch {
	case err != nil:
		return err
	case !d.Live():
		return a.alert(r, nil, palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRevoked, "the device was revoked").
			WithRemedy("pair it again under a new name: palyra device pair"))
	case !a.Now().Before(r.peer.until):
		return a.alert(r, nil, palyra.Errorf(palyra.Denied, palyra.ReasonBadCertificate, "the certificate of this connection has expired").
			WithRemedy("connect anew with the device's current certificate"))
	}
	r.caller.Device = d
	return nil
}

// byDevice is the device's person, or the agent of the device where it says so.
func (a *auth) byDevice(ctx context.Context, r *request, h http.Header) error {
	d := r.caller.Device
	switch door := h.Values(DoorHeader); {
	case len(door) == 0:
		return a.person(ctx, r, palyra.Operator{Principal: d.Principal, Role: d.Role, KeyID: d.KeyID, Device: d.ID}, ByDevice)
	case len(door) > 1 || door[0] != "agent":
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s can only be agent", DoorHeader)
	}
	role, within, err := a.Access.Cap(ctx, d.Principal) // also refuses the agents of a person who was removed
	if err != nil {
		return err
	}
	// a device that was paired to answer must not become one that asks
	if !a.Roles.Permits(d.Role, start, true) || !a.Roles.Permits(role, start, true) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission,
			"programs on the device %s may not propose calls: its role %s does not start runs", d.Name, d.Role).
			WithRemedy("pair it with the role operator, where that is wanted")
	}
	r.agent(d.Agent(), ByDevice)
	r.caller.CredentialID, r.caller.Within, r.signed = "device:"+d.ID, within, false
	return nil
}

// byCookie is the person who signed the browser in, looking. Where a signature came along, signer says whether it is
// that of a browser of theirs; it says who asks, too, when the session is over.
func (a *auth) byCookie(ctx context.Context, r *request, h http.Header) error {
	s, ok, elsewhere := a.console.shown(r.peer.at, h, a.Now())
	if elsewhere {
		return a.alert(r, nil, palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential,
			"the cookie came without the secret of the console's own pages, as to a page at another port").
			WithRemedy("sign the browser in again, and out of what else it shows under this name: palyra console"))
	}
	if !ok && r.signed {
		return nil
	}
	if !ok {
		return palyra.Errorf(palyra.Denied, palyra.ReasonNoCredential, "the browser is not signed in").
			WithRemedy("run 'palyra console' and open the link that it prints")
	}
	role, within, err := a.Access.Cap(ctx, s.caller.Principal) // as it is now, not as it was at the sign-in
	if err != nil {
		return err
	}
	r.caller, r.behind, r.until = s.caller, s.from, s.ends
	r.caller.Cap, r.caller.Within, r.caller.Console = role, within, r.peer.at
	return nil
}

// bearer returns the token of a request.
func bearer(h http.Header) (palyra.Secret, bool, error) {
	vals := h.Values("Authorization")
	if len(vals) == 0 {
		return palyra.Secret{}, false, nil
	}
	token, ok := strings.CutPrefix(vals[0], "Bearer ")
	if len(vals) > 1 || !ok || token == "" {
		return palyra.Secret{}, false, palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential,
			"the Authorization header is not one bearer token")
	}
	return palyra.NewSecret([]byte(token)), true, nil
}
