package approval

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/hostgroup"
)

// offlineJudge lets everything run that reaches nobody, but for one program.
type offlineJudge struct{}

func (offlineJudge) Judge(_ context.Context, r palyra.Request) palyra.Verdict {
	network := slices.Contains(slices.Concat(r.Plan.Capabilities, r.Tool.Capabilities), palyra.Network)
	if network || len(r.Plan.Egress) > 0 || r.Plan.Executable.Path == "/usr/bin/curl" || r.Standing == nil {
		return palyra.Verdict{Effect: palyra.Ask}
	}
	return palyra.Verdict{Effect: palyra.Allow}
}

// withGroups gives a desk the groups that come with Palyra and one more.
func withGroups(t testing.TB, hosts ...string) func(*Config) {
	own, err := hostgroup.New("mine", hosts, "")
	if err != nil {
		t.Fatal(err)
	}
	all, err := hostgroup.With([]hostgroup.Group{own})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Judge, c.Groups = offlineJudge{}, all }
}

// install is a program that reaches hosts.
func install(t testing.TB, hosts []string, options ...callOption) *palyra.Call {
	t.Helper()
	c := call(t, "x")
	c.Tool = palyra.Tool{Name: palyra.ToolProcessRun, Source: palyra.SourceBuiltin, Capabilities: []palyra.Capability{palyra.ProcessExec}}
	c.Plan = palyra.Plan{
		Tool: palyra.ToolProcessRun, Source: palyra.SourceBuiltin, Arguments: json.RawMessage(`{}`), Workspace: c.Plan.Workspace,
		Capabilities: []palyra.Capability{palyra.ProcessExec, palyra.Network}, Executable: palyra.Executable{Path: "/usr/bin/npm"},
		Tier: palyra.TierC, Egress: hosts, Enforcement: palyra.Enforcement{Mode: palyra.NetworkStrict},
	}
	c.Verdict.Standing.Roles = []palyra.Role{"agent"}
	for _, o := range options {
		o(c)
	}
	digest, err := c.Plan.Digest()
	if err != nil {
		t.Fatal(err)
	}
	c.Digest, c.Proposal.Tool = digest, c.Plan.Tool
	return c
}

// wantsHost is what a running program asks for.
func wantsHost(host string) func(*palyra.Call) {
	return func(c *palyra.Call) {
		c.Tool = palyra.Tool{Name: palyra.ToolAllowHost, Source: palyra.SourceBuiltin, Capabilities: []palyra.Capability{palyra.Network}}
		c.Plan.Tool, c.Plan.Tier, c.Plan.Executable, c.Plan.Egress = palyra.ToolAllowHost, palyra.TierBuiltin, palyra.Executable{}, []string{host}
		c.Plan.Arguments, _ = json.Marshal(host)
	}
}

const npmHost, indexHost, filesHost = "registry.npmjs.org:443", "pypi.org:443", "files.pythonhosted.org:443"

// allowGroup answers a question for the group that it offers.
func (w *world) allowGroup(a palyra.Approval, options ...voteOption) palyra.Approval {
	w.t.Helper()
	name := offered(a.Prompt.Options, palyra.WidenGroup)
	if name == "" {
		w.t.Fatalf("no group is offered: %+v", a.Prompt.Options)
	}
	all := []voteOption{scoped(palyra.ScopeTimeboxed), ttl(8 * time.Hour), widened(name)}
	return w.decide(a, palyra.AnswerAllow, append(all, options...)...)
}

// One answer for a group covers its hosts from the workspace, in any session, for its time; and nothing else.
func TestAGroupIsAnsweredForOnce(t *testing.T) {
	w := newWorld(t, withGroups(t, "registry.example"))
	first := w.ask(install(t, []string{indexHost}))
	if !strings.Contains(first.Prompt.Covers, filesHost) || !strings.Contains(first.Prompt.Covers, groupExceptions) {
		t.Errorf("the question says %q", first.Prompt.Covers)
	}
	settled := w.allowGroup(first)
	terms := *settled.Decision.Terms
	if terms.Group != "pypi" || !slices.Equal(terms.Hosts, []string{filesHost, indexHost}) || terms.Session != "" ||
		palyra.WidenGroup+":"+terms.Group+":"+string(terms.GroupDigest) != offered(first.Prompt.Options, palyra.WidenGroup) {
		t.Errorf("%+v", terms)
	}
	for what, c := range map[string]*palyra.Call{
		"the same":                install(t, []string{indexHost}),
		"the other host":          install(t, []string{filesHost}),
		"both":                    install(t, []string{filesHost, indexHost}),
		"another session":         install(t, []string{indexHost}, inSession(session2)),
		"a host on the way":       install(t, nil, wantsHost(filesHost)),
		"after content came in":   install(t, []string{indexHost}, labelled(palyra.LabelUntrusted), risky),
		"another program offline": install(t, []string{indexHost}, program("/usr/bin/pip")),
	} {
		if d, ok := w.covered(c); !ok || d.Lease != settled.Decision.Lease {
			t.Errorf("%s: not covered", what)
		}
		if err := w.grant(c, settled.Decision.Lease); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused := map[string]*palyra.Call{
		"another group":           install(t, []string{npmHost}),
		"a host beside it":        install(t, []string{indexHost, npmHost}),
		"another port":            install(t, []string{"pypi.org:80"}),
		"names below":             install(t, []string{"*.pypi.org:443"}),
		"on the way, beside it":   install(t, nil, wantsHost(npmHost)),
		"no host":                 install(t, nil),
		"another agent":           install(t, []string{indexHost}, by("agent:other")),
		"another workspace":       install(t, []string{indexHost}, func(c *palyra.Call) { c.Plan.Workspace.Path = "/x" }),
		"no workspace":            install(t, []string{indexHost}, func(c *palyra.Call) { c.Plan.Workspace.Path = "" }),
		"a bounded credential":    install(t, []string{indexHost}, func(c *palyra.Call) { c.Proposal.Within = []string{c.Plan.Workspace.Path} }),
		"an agent in a room":      install(t, []string{indexHost}, func(c *palyra.Call) { c.Proposal.Room = "C" }),
		"after a secret was used": install(t, []string{indexHost}, labelled(palyra.LabelSecret)),
		"with a secret":           install(t, []string{indexHost}, func(c *palyra.Call) { c.Plan.Bindings = []string{"token"} }),
		"a secret variable":       install(t, []string{indexHost}, secretVariable),
		"a fresh answer":          install(t, []string{indexHost}, withNeed(palyra.Need{Votes: 1, Fresh: true})),
		"two people":              install(t, []string{indexHost}, withNeed(palyra.Need{Votes: 2})),
		"what asks offline":       install(t, []string{indexHost}, program("/usr/bin/curl")),
		"another tier":            install(t, []string{indexHost}, func(c *palyra.Call) { c.Plan.Tier = palyra.TierB }),
		"no guard":                install(t, []string{indexHost}, func(c *palyra.Call) { c.Plan.Enforcement.Mode = palyra.NetworkOpen }),
		"what a run changed":      install(t, []string{indexHost}, func(c *palyra.Call) { c.Plan.Effects = &palyra.Effects{} }),
		"a tool of others":        install(t, []string{indexHost}, func(c *palyra.Call) { c.Plan.Source = palyra.SourceMCP }),
		"the fetch tool":          install(t, []string{indexHost}, func(c *palyra.Call) { c.Plan.Tool = palyra.ToolFetch }),
		"the agent's own tools":   install(t, []string{indexHost}, func(c *palyra.Call) { c.Plan = c.Plan.Unsandboxed() }),
	}
	for what, c := range refused {
		if _, ok := w.covered(c); ok {
			t.Errorf("%s: covered", what)
		}
	}
	for _, what := range []string{
		"another group", "another agent", "another workspace", "a bounded credential", "an agent in a room", "what a run changed",
		"after a secret was used",
	} {
		wantErr(t, w.grant(refused[what], settled.Decision.Lease), palyra.Conflict, palyra.ReasonPlanChanged)
	}
	w.restart()
	w.pass(7 * time.Hour)
	if _, ok := w.covered(install(t, []string{indexHost})); !ok {
		t.Error("not covered after seven hours and a restart")
	}
	w.pass(2 * time.Hour)
	if _, ok := w.covered(install(t, []string{indexHost})); ok {
		t.Error("covered after nine hours")
	}
}

func labelled(label string) callOption {
	return func(c *palyra.Call) { c.Proposal.Labels = []string{label} }
}

func risky(c *palyra.Call) { c.Verdict.Risk.Level = palyra.RiskHigh }

func program(path string) callOption { return func(c *palyra.Call) { c.Plan.Executable.Path = path } }

// An answer for a group is for what people were shown: a host that comes to the group is not covered, one that leaves it
// neither, and nobody can answer for a group that has changed since.
func TestAGroupThatChanges(t *testing.T) {
	w := newWorld(t, withGroups(t, "a.example", "b.example"))
	lease := w.allowGroup(w.ask(install(t, []string{"a.example:443"}))).Decision.Lease
	open := w.ask(install(t, []string{"a.example:443"}, by("agent:other")))
	shown := offered(open.Prompt.Options, palyra.WidenGroup)
	for _, c := range []struct {
		hosts   []string
		covered map[string]bool
	}{
		{[]string{"a.example", "b.example", "c.example"}, map[string]bool{"a": true, "b": true, "c": false}},
		{[]string{"a.example"}, map[string]bool{"a": true, "b": false}},
	} {
		withGroups(t, c.hosts...)(&w.cfg)
		w.restart()
		for host, want := range c.covered {
			if d, ok := w.covered(install(t, []string{host + ".example:443"})); ok != want || ok && d.Lease != lease {
				t.Errorf("%q has %s: covered %v", c.hosts, host, ok)
			}
		}
	}
	decide := func(widen string) error {
		_, err := w.desk.Decide(t.Context(), vote(open, palyra.AnswerAllow, scoped(palyra.ScopeTimeboxed), ttl(time.Hour), widened(widen)))
		return err
	}
	wantErr(t, decide(shown), palyra.Conflict, palyra.ReasonPlanChanged)
	wantErr(t, decide("group:npm:sha256:00"), palyra.Invalid, palyra.ReasonMalformedInput)
}

// An answer closes the questions about other hosts of the group that are open, in every session, and those alone.
func TestAGroupOvertakes(t *testing.T) {
	w := newWorld(t, withGroups(t, "a.example"))
	asked := w.ask(install(t, nil, wantsHost(indexHost)))
	same := w.ask(install(t, nil, wantsHost(filesHost), inSession(session2)))
	others := []palyra.Approval{
		w.ask(install(t, nil, wantsHost(npmHost))), w.ask(install(t, nil, wantsHost(indexHost), by("agent:other"))),
		w.ask(install(t, []string{indexHost}, program("/usr/bin/curl"))),
	}
	w.allowGroup(asked)
	if !w.get(same.ID).Decision.Overtaken() {
		t.Error("a question that the answer covers is still open")
	}
	for _, a := range others {
		if !w.get(a.ID).Pending() {
			t.Errorf("%v of %s is not open any more", a.Plan.Egress, a.Principal)
		}
	}
}

// A secret that is used while a question is open is asked about, when an answer for something else closed that; an answer
// to the question itself stands.
func TestASecretIsUsedBeforeAGroupIs(t *testing.T) {
	w := newWorld(t, withGroups(t, "a.example"))
	own, other := install(t, []string{indexHost}), install(t, []string{filesHost})
	asked := w.ask(own)
	own.Approval, other.Approval = asked.ID, w.ask(other).ID
	lease := w.allowGroup(asked).Decision.Lease
	if !w.get(other.Approval).Decision.Overtaken() {
		t.Error("a question that the answer covers is still open")
	}
	labelled(palyra.LabelSecret)(own)
	labelled(palyra.LabelSecret)(other)
	if _, ok := w.covered(other); ok {
		t.Error("covered after a secret was used")
	}
	wantErr(t, w.grant(other, lease), palyra.Conflict, palyra.ReasonPlanChanged)
	if err := w.grant(own, lease); err != nil {
		t.Errorf("the one that was answered: %v", err)
	}
}

// For a session an answer for a group ends with it; for one use it is for the plan alone.
func TestAGroupForLess(t *testing.T) {
	w := newWorld(t, withGroups(t, "a.example"))
	first := w.ask(install(t, []string{npmHost}))
	w.decide(first, palyra.AnswerAllow, scoped(palyra.ScopeSession), widened(offered(first.Prompt.Options, palyra.WidenGroup)))
	if _, ok := w.covered(install(t, nil, wantsHost(npmHost))); !ok {
		t.Error("not covered in its session")
	}
	if _, ok := w.covered(install(t, []string{npmHost}, inSession(session2))); ok {
		t.Error("covered in another session")
	}
	for _, c := range []*palyra.Call{
		install(t, []string{npmHost}, program("/usr/bin/curl")), install(t, []string{npmHost}, labelled(palyra.LabelSecret)),
		install(t, []string{npmHost, indexHost}), install(t, []string{"elsewhere.example:443"}),
		install(t, []string{npmHost}, by("agent:x"), withNeed(palyra.Need{Votes: 1, Fresh: true})),
	} {
		c.Proposal.Session = session2
		if a := w.ask(c); offered(a.Prompt.Options, palyra.WidenGroup) != "" {
			t.Errorf("%v by %s offers %v", c.Plan.Egress, c.Plan.Executable.Path, a.Prompt.Options)
		}
	}
}

func secretVariable(c *palyra.Call) { c.Plan.Env = []palyra.EnvVar{{Name: "T", Secret: true}} }
