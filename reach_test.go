package palyra_test

import (
	"slices"
	"testing"

	"palyra"
)

// The world of the table: a person runs room A by their own command; in it an agent
// works, and starts room N, in which another one does. Beside them room B of the same
// person, an agent without a room, and a named agent with tokens.
var reachers = map[string]palyra.Reach{
	"person":        {Person: true, Principal: "user:ann"},
	"person of /a":  {Person: true, Principal: "user:ben", Within: []string{"/a"}},
	"command":       {Principal: "agent:user.ann", Credential: "agent:user.ann"},
	"local":         {Principal: "agent:local", Credential: "agent:local"},
	"room A":        {Principal: "agent:local", Room: "A", Credential: "room:A", Within: []string{"/a"}},
	"room N in A":   {Principal: "agent:local", Room: "N", Credential: "room:N", Within: []string{"/a"}},
	"room B":        {Principal: "agent:local", Room: "B", Credential: "room:B", Within: []string{"/b"}},
	"ci":            {Principal: "agent:ci", Credential: "token:1"},
	"ci, other":     {Principal: "agent:ci", Credential: "token:2"},
	"ci of /a":      {Principal: "agent:ci", Credential: "token:3", Within: []string{"/a"}},
	"ci of /b":      {Principal: "agent:ci", Credential: "token:4", Within: []string{"/b"}},
	"nobody":        {},
	"person nobody": {Person: true},
}

// called is a call of somebody's.
func called(who, workspace string, around ...palyra.CallID) palyra.Thing {
	r := reachers[who]
	c := palyra.Call{Proposal: palyra.Proposal{
		Proposer: palyra.Proposer{Principal: r.Principal, Room: r.Room, Credential: r.Credential, Within: r.Within, Line: around},
	}}
	if len(around) > 0 {
		c.Proposal.Origin = "agent:user.ann"
	}
	c.Plan.Workspace.Path = workspace
	return c.Reached()
}

// opened is a session of somebody's.
func opened(who, workspace string) palyra.Thing {
	r := reachers[who]
	return palyra.Session{Principal: r.Principal, Room: r.Room, Within: r.Within, Workspace: workspace}.Reached()
}

func ran(who string) palyra.Thing {
	r := reachers[who]
	return palyra.Run{Principal: r.Principal, Credential: r.Credential, Within: r.Within}.Reached()
}

func leased(who, workspace string) palyra.Thing {
	r := reachers[who]
	return palyra.Terms{Principal: r.Principal, Room: r.Room, Workspace: workspace}.Reached(r.Within)
}

// things with who may do what with them; whoever is not named may not.
var things = []struct {
	name  string
	thing palyra.Thing
	may   map[palyra.Act][]string
}{
	{"room A itself", called("command", "/a"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "command"}, "cancel": {"person", "person of /a", "command"}, "feed": {"command"},
		"join": {"command"}, "use": {"command"},
	}},
	{"a command in /b", called("command", "/b"), map[palyra.Act][]string{
		"see": {"person", "command"}, "cancel": {"person", "command"}, "feed": {"command"}, "join": {"command"}, "use": {"command"},
	}},
	{"a call out of room A", called("room A", "/a", "A"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "command", "room A"}, "cancel": {"person", "person of /a", "command", "room A"}, "feed": {"room A"},
		"join": {"room A"}, "use": {"room A"},
	}},
	{"a call out of room N", called("room N in A", "/a", "A", "N"), map[palyra.Act][]string{
		"see":    {"person", "person of /a", "command", "room A", "room N in A"},
		"cancel": {"person", "person of /a", "command", "room A", "room N in A"},
		"feed":   {"room N in A"}, "join": {"room N in A"}, "use": {"room N in A"},
	}},
	{"a call without a workspace out of room A", called("room A", "", "A"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "command", "room A"}, "cancel": {"person", "person of /a", "command", "room A"}, "feed": {"room A"},
		"join": {"room A"}, "use": {"room A"},
	}},
	{"a call of the agent without a room", called("local", "/a"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "local"}, "cancel": {"person", "person of /a", "local"}, "feed": {"local"}, "join": {"local"},
		"use": {"local"},
	}},
	{"a call of ci in /a", called("ci", "/a"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "ci", "ci, other", "ci of /a"}, "cancel": {"person", "person of /a", "ci", "ci, other", "ci of /a"},
		"feed": {"ci"}, "join": {"ci", "ci, other"}, "use": {"ci", "ci, other"},
	}},
	{"a call of ci in a directory of /a", called("ci", "/a/sub"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "ci", "ci, other", "ci of /a"}, "cancel": {"person", "person of /a", "ci", "ci, other", "ci of /a"},
		"feed": {"ci"}, "join": {"ci", "ci, other"}, "use": {"ci", "ci, other"},
	}},
	{"a call of ci in /b", called("ci", "/b"), map[palyra.Act][]string{
		"see": {"person", "ci", "ci, other", "ci of /b"}, "cancel": {"person", "ci", "ci, other", "ci of /b"}, "feed": {"ci"},
		"join": {"ci", "ci, other"}, "use": {"ci", "ci, other"},
	}},
	{"a call of ci without a workspace", called("ci", ""), map[palyra.Act][]string{
		"see": {"person", "ci", "ci, other"}, "cancel": {"person", "ci", "ci, other"}, "feed": {"ci"}, "join": {"ci", "ci, other"},
		"use": {"ci", "ci, other"},
	}},
	{"a run of ci", ran("ci"), map[palyra.Act][]string{
		"see": {"person", "ci", "ci, other"}, "cancel": {"person", "ci", "ci, other"}, "feed": {"person", "ci"}, "join": {"ci", "ci, other"},
		"use": {"ci", "ci, other"},
	}},
	{"a run of ci, bound to /a", ran("ci of /a"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "ci", "ci, other", "ci of /a"}, "cancel": {"person", "person of /a", "ci", "ci, other", "ci of /a"},
		"feed": {"person", "person of /a", "ci of /a"}, "join": {"ci of /a"}, "use": {"ci of /a"},
	}},
	{"a session of ci in /a", opened("ci", "/a"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "ci", "ci, other", "ci of /a"}, "cancel": {"person", "person of /a", "ci", "ci, other", "ci of /a"},
		"join": {"ci", "ci, other"}, "use": {"ci", "ci, other"},
	}},
	{"a session of room A", opened("room A", "/a"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "local", "room A"}, "cancel": {"person", "person of /a", "local", "room A"}, "join": {"room A"},
		"use": {"room A"},
	}},
	{"a lease of the command in /b", leased("command", "/b"), map[palyra.Act][]string{
		"see": {"person", "command"}, "cancel": {"person", "command"}, "join": {"command"}, "use": {"command"},
	}},
	{"a lease of room A", leased("room A", "/a"), map[palyra.Act][]string{
		"see": {"person", "person of /a", "local", "room A"}, "cancel": {"person", "person of /a", "local", "room A"}, "join": {"room A"},
		"use": {"room A"},
	}},
}

// Every pair of a credential and a thing, with every act.
func TestReach(t *testing.T) {
	for _, th := range things {
		for who, r := range reachers {
			for _, act := range []palyra.Act{palyra.ActSee, palyra.ActCancel, palyra.ActFeed, palyra.ActJoin, palyra.ActUse} {
				want := slices.Contains(th.may[act], who)
				if got := r.May(act, th.thing); got != want {
					t.Errorf("%s may %s %s: %v, want %v", who, act, th.name, got, want)
				}
			}
			if r.May("eat", th.thing) {
				t.Errorf("%s may do what nobody knows", who)
			}
		}
	}
}

func TestWithin(t *testing.T) {
	for place, want := range map[string]bool{
		"/a": true, "/a/b": true, "/a/b/c": true, "/a/": false, "/ab": false, "/": false, "": false, "/a/.git": false, "/a/b/.git/hooks": false,
		"/a/../b": false, "/a//b": false, "/b": false, "/.h": true, "/.h/x": true,
	} {
		if got := palyra.Within(place, []string{"/a", "/.h"}); got != want {
			t.Errorf("%q is within: %v", place, got)
		}
	}
	if palyra.Within("/a", nil) || palyra.Within("", []string{""}) || palyra.Within("/a", []string{""}) {
		t.Error("within nothing")
	}
}

// A room that reaches more than its own workspace tells of all of them.
func TestReachOfWidenedRooms(t *testing.T) {
	c := &palyra.Call{Proposal: palyra.Proposal{Proposer: palyra.Proposer{Principal: "agent:ci"}}}
	c.Plan.Workspace.Path = "/a"
	for _, w := range []struct {
		more []string
		want bool
	}{{nil, true}, {[]string{"/a/b"}, true}, {[]string{"/b"}, false}, {[]string{palyra.AnyWorkspace}, false}} {
		c.Plan.AgentWithin = w.more
		if got := reachers["ci of /a"].May(palyra.ActSee, c.Reached()); got != w.want {
			t.Errorf("%v: %v", w.more, got)
		}
	}
}

func TestPayer(t *testing.T) {
	for want, p := range map[string]palyra.Proposal{
		"agent:x": {Proposer: palyra.Proposer{Principal: "agent:x"}},
		"agent:y": {Proposer: palyra.Proposer{Principal: "agent:y", Parent: "P", Line: []palyra.CallID{"P"}}}, // a host that a program wants
		"room:A":  {Proposer: palyra.Proposer{Principal: "agent:x", Room: "N", Line: []palyra.CallID{"A", "N"}}},
		"room:B":  {Proposer: palyra.Proposer{Principal: "agent:x", Inside: true, Line: []palyra.CallID{"B"}}},
	} {
		if got := p.Payer(); got != want {
			t.Errorf("%+v: %s, want %s", p, got, want)
		}
	}
}
