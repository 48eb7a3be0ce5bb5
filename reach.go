package palyra

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/subpath"
)

// Act is what somebody wants to do with a call, a run, a session, a lease or an artifact.
type Act string

// The acts.
const (
	ActSee    Act = "see"    // read it, find it in a list, follow it
	ActCancel Act = "cancel" // end it
	ActFeed   Act = "feed"   // type into it
	ActJoin   Act = "join"   // be part of the session
	ActUse    Act = "use"    // run under the lease
)

// Reach is how far a credential reaches. May is the only rule of who may see, cancel, feed, join and use what; every
// door and every part asks it.
//
// The name of a principal is not enough: one agent's name is used by programs in several rooms and workspaces, which
// must not reach into one another. So a caller at a room's own door reaches what came out of that room, by lineage;
// everybody else reaches what their own proposals led to.
type Reach struct {
	Person     bool      // looks and ends, as their permissions say; proposes nothing
	Principal  Principal // whose credential it is
	Room       CallID    // the running call at whose own door it came in; empty: elsewhere
	Credential string    // the credential itself, as one principal may have several
	Within     []string  // the only workspaces it reaches; empty: all
}

// Thing is what the rule looks at.
type Thing struct {
	Principal  Principal // who proposed or opened it
	Room       CallID    // at which room's door; empty: elsewhere
	Credential string    // with which credential
	Origin     Principal // who proposed the outermost of the calls that it came out of; its own principal when there is none
	Line       []CallID  // the running calls that it came out of, outermost first
	Places     []string  // the workspaces it works in
	Within     []string  // the bounds it was made under; empty: none
	Talks      bool      // it is spoken to, and people may: a run
}

// May reports whether somebody may do something with a thing.
func (r Reach) May(act Act, t Thing) bool {
	if r.Principal == "" || !r.covers(t) {
		return false
	}
	switch act {
	case ActSee, ActCancel:
		switch {
		case r.Person:
			return true
		case r.Room != "":
			return slices.Contains(t.Line, r.Room)
		}
		return t.Origin == r.Principal
	case ActFeed:
		if r.Person {
			return t.Talks
		}
		return r.made(t) && t.Credential == r.Credential
	case ActJoin, ActUse: // both give what was granted under those bounds
		return r.made(t) && sameSet(r.Within, t.Within)
	}
	return false
}

// made reports whether r is whoever made t: the same agent in the same place.
func (r Reach) made(t Thing) bool { return !r.Person && t.Principal == r.Principal && t.Room == r.Room }

// covers reports whether the bounds of r let it near t: all that t works in lies within them, or t was made under
// bounds that are no wider.
func (r Reach) covers(t Thing) bool {
	if len(r.Within) == 0 {
		return true
	}
	inside := func(places []string) bool {
		return len(places) > 0 && !slices.ContainsFunc(places, func(p string) bool { return !Within(p, r.Within) })
	}
	return inside(t.Within) || inside(t.Places)
}

// Within reports whether a workspace, by its resolved path, is one of bounds or a directory in one. Nothing is within
// no bounds; hidden directories, which hold what other programs run, are within nothing but themselves.
func Within(workspace string, bounds []string) bool {
	return slices.ContainsFunc(bounds, func(top string) bool {
		if workspace == top {
			return top != ""
		}
		below, ok := subpath.Rel(top, workspace)
		return ok && top != "/" && filepath.Clean(top) == top && below != "." && filepath.Clean(workspace) == workspace &&
			!strings.HasPrefix(below, ".") && !strings.Contains(below, "/.")
	})
}

// sameSet reports whether two lists have the same members.
func sameSet(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) }) &&
		!slices.ContainsFunc(b, func(s string) bool { return !slices.Contains(a, s) })
}

// Reach is how far the credential reaches that makes the proposal.
func (p Proposer) Reach() Reach {
	return Reach{Principal: p.Principal, Room: p.Room, Credential: p.Credential, Within: p.Within}
}

// Places are the workspaces that a plan gives somebody reach into: the one it runs in and those that an agent in it
// reaches besides. AnyWorkspace is within no bounds.
func (p Plan) Places() []string { return append([]string{p.Workspace.Path}, p.AgentWithin...) }

// Reached is the call as the rule of reach sees it.
func (c *Call) Reached() Thing {
	p := c.Proposal.Proposer
	t := Thing{Principal: p.Principal, Room: p.Room, Credential: p.Credential, Origin: p.Origin, Line: p.Line, Within: p.Within}
	t.Origin = cmp.Or(t.Origin, p.Principal)
	if c.Plan.Workspace.Path != "" && !slices.Contains(c.Plan.AgentWithin, AnyWorkspace) {
		t.Places = c.Plan.Places()
	}
	return t
}

// Reached is the run as the rule of reach sees it. Its calls may work elsewhere than it does, so only the bounds it
// was started under say where it was.
func (r Run) Reached() Thing {
	return Thing{Principal: r.Principal, Origin: r.Principal, Credential: r.Credential, Within: r.Within, Talks: true}
}

// Reached is the session as the rule of reach sees it.
func (s Session) Reached() Thing {
	t := Thing{Principal: s.Principal, Room: s.Room, Origin: s.Principal, Within: s.Within}
	if s.Room != "" {
		t.Line = []CallID{s.Room}
	}
	if s.Workspace != "" {
		t.Places = []string{s.Workspace}
	}
	return t
}

// Reached is what a lease's terms cover, as the rule of reach sees it. The bounds are those of the session that a
// lease belongs to.
func (t Terms) Reached(bounds []string) Thing {
	out := Thing{Principal: t.Principal, Room: t.Room, Origin: t.Principal, Within: bounds}
	if t.Room != "" {
		out.Line = []CallID{t.Room}
	}
	if t.Workspace != "" {
		out.Places = []string{t.Workspace}
	}
	return out
}

// Payer is whose share of calls and questions a proposer's calls are counted in: the outermost room's that it came
// out of, so that an agent in a room uses up its own and nobody else's; else the principal's.
func (p Proposer) Payer() string {
	if (p.Room != "" || p.Inside) && len(p.Line) > 0 {
		return "room:" + string(p.Line[0])
	}
	return string(p.Principal)
}
