package replay

import (
	"strings"
	"testing"

	"palyra"
	"palyra/internal/policy/policytest"
)

// observed is a call that nobody was asked about.
func (x *told) observed(r palyra.Request) {
	x.call(r, palyra.AnswerPending).Observed = true
}

// harmful are calls of which no rule may come by their being seen, however often: an agent could make them for that.
func harmful() map[string]palyra.Request {
	of := func(r palyra.Request, f func(*palyra.Request)) palyra.Request {
		f(&r)
		return r
	}
	return map[string]palyra.Request{
		"cannot be taken back": aProgram("git", "push", "--force"),
		"not understood":       aProgram("frob"),
		"a host": of(aProgram("mkdir", "a"), func(r *palyra.Request) {
			r.Plan.Egress = []string{"evil.example:443"}
			r.Plan.Capabilities = append(r.Plan.Capabilities, palyra.Network)
		}),
		"a host without the capability": of(aProgram("mkdir", "b"), func(r *palyra.Request) { r.Plan.Egress = []string{"evil.example:443"} }),
		"a secret":                      of(aProgram("mkdir", "c"), func(r *palyra.Request) { r.Plan.Bindings = []string{"github"} }),
		"outside":                       of(policytest.Write("../out"), func(r *palyra.Request) { r.Plan.Cwd = "/w" }),
		"a trusted name":                of(policytest.Write(".envrc"), func(r *palyra.Request) { r.Plan.Cwd = "/w" }),
		"an unknown workspace":          of(aProgram("mkdir", "d"), func(r *palyra.Request) { r.Plan.Workspace.Known = false }),
		"no workspace":                  of(aProgram("mkdir", "e"), func(r *palyra.Request) { r.Plan.Workspace = palyra.WorkspaceRef{} }),
		"a tool of the agent's own": of(aProgram("mkdir", "f"), func(r *palyra.Request) {
			r.Tool.Name, r.Tool.Source, r.Plan.Tool = "hook.frobnicate", palyra.SourceAgent, "hook.frobnicate"
		}),
		"sockets":        of(aProgram("mkdir", "g"), func(r *palyra.Request) { r.Plan.UnixSockets = true }),
		"lasting":        of(aProgram("mkdir", "h"), func(r *palyra.Request) { r.Plan.Lasting = true }),
		"inside another": of(aProgram("mkdir", "i"), func(r *palyra.Request) { r.Parent = "01PARENT" }),
	}
}

// What was only observed makes no rule that opens a host, what cannot be taken back, or another place, also where an
// agent made the calls for that and among ones that do make a rule.
func TestSuggestOfObservedCalls(t *testing.T) {
	for name, r := range harmful() {
		x := newTold(t)
		for range 20 {
			x.observed(r)
		}
		if s := x.suggest(100); len(s.Rules) != 0 {
			t.Errorf("%s: %s", name, s.Rules[0].Text)
		}
	}
	x := newTold(t)
	for range 3 {
		x.observed(aProgram("mkdir", "out"))
		for _, r := range harmful() {
			x.observed(r)
		}
	}
	s := x.suggest(100)
	if len(s.Rules) != 1 || s.Rules[0].Saves != 3 || !strings.Contains(s.Rules[0].Reason, "nobody was asked") {
		t.Fatalf("%+v", s.Rules)
	}
	if got := x.with(s, aProgram("mkdir", "out")); got != palyra.Allow {
		t.Errorf("the same call: %s", got)
	}
	for name, r := range harmful() {
		if got := x.with(s, r); got == palyra.Allow {
			t.Errorf("%s is open", name)
		}
	}
}

// No rule of observed calls holds beyond their workspace: for people's answers that takes calls in more than one.
func TestSuggestOfObservedCallsStaysInTheWorkspace(t *testing.T) {
	there := aProgram("mkdir", "out")
	there.Plan.Workspace.Path = "/v"
	third := aProgram("mkdir", "out")
	third.Plan.Workspace.Path = "/u"
	x, y := newTold(t), newTold(t)
	for _, r := range []palyra.Request{aProgram("mkdir", "out"), there} {
		x.observed(r)
		y.call(r, palyra.AnswerAllow)
	}
	if s := x.suggest(100); len(s.Rules) != 2 || x.with(s, third) == palyra.Allow {
		t.Errorf("%+v", s.Rules)
	}
	if s := y.suggest(100); len(s.Rules) != 1 || y.with(s, third) != palyra.Allow {
		t.Errorf("what people allowed, in two workspaces: %+v", s.Rules)
	}
}

// A person's no outweighs any number of observed calls, and so does a policy that wants more than a yes.
func TestSuggestOfObservedCallsHeedsPeople(t *testing.T) {
	x := newTold(t)
	for range 50 {
		x.observed(aProgram("mkdir", "out"))
	}
	x.call(aProgram("mkdir", "out"), palyra.AnswerDeny)
	if s := x.suggest(100); len(s.Rules) != 0 {
		t.Errorf("after a no: %+v", s.Rules)
	}
	y := newTold(t)
	y.observed(aProgram("mkdir", "out"))
	y.list[0].Was.Effect = palyra.Deny
	if s := y.suggest(100); len(s.Rules) != 0 {
		t.Errorf("denied then: %+v", s.Rules)
	}
}
