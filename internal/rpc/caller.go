package rpc

import (
	"context"
	"slices"

	"palyra"
)

// How a caller is known.
const (
	ByAgentSocket    = "agent_socket"
	ByOperatorSocket = "operator_socket"
	ByToken          = "token"
	ByDevice         = "device"
	ByConsole        = "console"
	ByCommand        = "command" // a person's own command, at the operator's socket
	ByRoom           = "room"    // a run's own door
)

// Caller is who makes a request, as the chain found it. The zero Caller may do nothing.
type Caller struct {
	Principal    palyra.Principal
	Owner        palyra.Principal    // whose agent it is
	Role         palyra.Role         // of the credential
	Cap          palyra.Role         // of the person; a permission must be held by both
	Scopes       []palyra.Permission // permissions of a token; nil: those of the role
	Within       []string            // the only workspaces it reaches; empty: all
	Credential   string              // how it is known: By…
	CredentialID string              // "device:dev-…", "token:tok-…", "agent:…", "key:op-…", "console:…"
	PeerUID      int64               // -1: another machine, or a browser
	Room         palyra.CallID       // the running call that the caller is in, when it came by that call's own door
	Line         []palyra.CallID     // the running calls around it, outermost first; the last is Room
	Origin       palyra.Principal    // who proposed the outermost
	Device       palyra.Device       // the paired device it comes from
	Console      string              // where the console is that a browser looks at
	Starts       bool                // it could propose calls, with its signature where it is a person's
	Signed       bool                // a person signed exactly this request
	Operator     palyra.Operator     // the key that signed
	Evidence     palyra.Signature    // the signature, to be kept
}

// IsAgent reports whether the caller is an agent.
func (c Caller) IsAgent() bool { return c.Role == palyra.RoleAgent || c.Principal.IsAgent() }

// Door is the door that the caller's calls come by. A claim decides between api, mcp and acp, since nobody can tell
// which program is behind a socket; a person, who signs, is believed.
func (c Caller) Door(claimed palyra.Surface) palyra.Surface {
	switch {
	case c.Credential == ByCommand:
		return palyra.SurfaceCLI
	case c.Credential == ByRoom:
		return palyra.SurfaceRoom
	case claimed == palyra.SurfaceMCP || claimed == palyra.SurfaceACP || claimed == palyra.SurfaceCLI && !c.IsAgent():
		return claimed
	}
	return palyra.SurfaceAPI
}

// Reach is how far the caller's credential reaches.
func (c Caller) Reach() palyra.Reach {
	return palyra.Reach{Person: !c.IsAgent(), Principal: c.Principal, Room: c.Room, Credential: c.CredentialID, Within: c.Within}
}

// Proposer is the caller as one who proposes, by a surface and in a session that it claims.
func (c Caller) Proposer(claimed palyra.Surface, session palyra.SessionID) palyra.Proposer {
	return palyra.Proposer{
		Principal: c.Principal, Owner: c.Owner, PeerUID: c.PeerUID, Surface: c.Door(claimed), Session: session,
		Parent: c.Room, Within: c.Within, Room: c.Room, Line: c.Line, Origin: c.Origin, Credential: c.CredentialID, Scopes: c.Scopes,
	}
}

// Reaches reports whether the caller may see and touch things in all of the workspaces. Things that belong to
// no workspace are for callers who are bound to none.
func (c Caller) Reaches(workspaces ...string) bool {
	return len(c.Within) == 0 ||
		!slices.ContainsFunc(workspaces, func(w string) bool { return !palyra.Within(w, c.Within) })
}

// Missing is the answer about something that a caller does not reach: the same as about something that does
// not exist.
func Missing(what string) error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no such %s", what)
}

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
