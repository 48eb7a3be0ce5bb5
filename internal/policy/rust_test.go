package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/policy/corpustest"
)

// rival is the Rust engine with what it was compared on.
type rival struct {
	*corpustest.Oracle
	// rising: more approval never makes the policies refuse, so that whoever meets
	// the merged need of all pairs is let through.
	rising bool

	asked, allowed, denied, failed, turned, needed int
}

// The Rust engine answers as we do about random requests to the policies that
// Palyra ships: decision and the policies behind it. In 'make soak' there are
// many more of them.
func TestRustAgreesOnPresets(t *testing.T) {
	o := &rival{Oracle: corpustest.Rust(t, "corpustest"), rising: true}
	bundles := map[string]*Bundle{}
	for _, name := range Presets() {
		bundles[name] = bundleOf(t, name)
		o.load(t, name, bundles[name])
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(Presets()).Draw(t, "preset")
		command, probed := someCommand(t), rapid.Bool().Draw(t, "probed")
		e, err := New(Config{
			Bundle: bundles[name], Snapshot: someSnapshot(t), Analyse: func(palyra.Plan) palyra.Command { return command },
			Probed: func(palyra.Tier) bool { return probed },
		})
		if err != nil {
			t.Fatal(err)
		}
		r := everyCall(t)
		o.compare(t, name, e, r, someFacts(t))
	})
	o.report(t)
	if o.needed == 0 {
		t.Error("nothing was ever asked about")
	}
}

// The same for random policies, which fail in many ways and depend on the
// approval in all of them.
func TestRustAgreesOnRandomBundles(t *testing.T) {
	o := &rival{Oracle: corpustest.Rust(t, "corpustest")}
	rapid.Check(t, func(t *rapid.T) {
		b := unchecked(t, somePolicies(t))
		o.load(t, "random", b)
		e, err := New(Config{Bundle: b, Snapshot: open()})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			o.compare(t, "random", e, someRequest(t), someFacts(t))
		}
	})
	o.report(t)
	if o.failed == 0 || o.turned == 0 {
		t.Error("no policy ever failed")
	}
}

func (o *rival) report(t *testing.T) {
	t.Helper()
	t.Logf("the Rust engine was asked %d times: %d allowed, %d denied, %d with a policy that failed, of which it allows %d and we "+
		"none; %d needs confirmed",
		o.asked, o.allowed, o.denied, o.failed, o.turned, o.needed)
	if o.asked < 300 || o.allowed == 0 || o.denied == 0 {
		t.Error("that shows too little")
	}
}

type fataler interface{ Fatal(args ...any) }

func (o *rival) load(t fataler, set string, b *Bundle) {
	texts := map[string]string{}
	for _, r := range b.rules {
		texts[string(r.id)] = string(r.policy.MarshalCedar())
	}
	if err := o.Load(set, texts); err != nil {
		t.Fatal(err)
	}
}

// compare judges a request without an approval, with one that was given, and
// with the one that the first verdict asked for.
func (o *rival) compare(t *rapid.T, set string, e *Engine, r palyra.Request, given palyra.ApprovalFacts) {
	c, err := e.live.Load().newCall(r)
	if err != nil {
		t.Fatal(err)
	}
	first := e.Judge(t.Context(), r)
	o.first(t, first, o.ask(t, set, c, answer{}))
	facts := []palyra.ApprovalFacts{given}
	if first.Effect == palyra.Ask {
		o.needed++
		facts = append(facts, least(first.Need))
	}
	for i, f := range facts {
		r.Approval = &f
		v := e.Judge(t.Context(), r)
		if i == 1 && o.rising && v.Effect != palyra.Allow {
			t.Fatalf("asked for %+v and then said %s", first.Need, v.Effect)
		}
		for j, a := range o.ask(t, set, c, factsAnswer(f)) {
			o.settled(t, a, v.Pairs[j])
		}
	}
}

// first checks the verdict that was given without an approval: it is an allow
// exactly where the engine allows every pair without an error.
func (o *rival) first(t *rapid.T, v palyra.Verdict, answers []corpustest.Answer) {
	all := true
	for i, a := range answers {
		clean := a.Decision == "allow" && len(a.Errors) == 0
		all = all && clean
		if clean != (v.Pairs[i].Effect == palyra.Allow) || len(a.Errors) > 0 && v.Pairs[i].Effect != palyra.Deny {
			t.Fatalf("%v: %s, the Rust engine %+v", v.Pairs[i].Pair, v.Pairs[i].Effect, a)
		}
		if clean || len(a.Errors) > 0 { // else the policies named are also those that speak under an approval
			o.settled(t, a, v.Pairs[i])
		}
	}
	if all != (v.Effect == palyra.Allow) {
		t.Fatalf("%s, the Rust engine allows: %t", v.Effect, all)
	}
}

// settled compares a pair that was judged with an approval: allow or deny, and
// why. Our one rule is that an error denies, by the policies that failed.
func (o *rival) settled(t *rapid.T, a corpustest.Answer, got palyra.PairResult) {
	want, by := palyra.Deny, a.Reasons
	switch {
	case len(a.Errors) > 0:
		o.failed++
		if a.Decision == "allow" {
			o.turned++
		}
		by = a.Errors
	case a.Decision == "allow":
		o.allowed++
		want = palyra.Allow
	default:
		o.denied++
	}
	ids := slices.Sorted(slices.Values(got.Policies))
	if got.Effect != want || !slices.Equal(ids, by) {
		t.Fatalf("%v: %s by %q, the Rust engine %+v", got.Pair, got.Effect, ids, a)
	}
}

// ask has the engine answer about every pair of a call.
func (o *rival) ask(t *rapid.T, set string, c *judgement, a answer) []corpustest.Answer {
	entities := slices.Clone(c.world.own)
	for _, e := range c.world.actions {
		entities = append(entities, e)
	}
	var out []corpustest.Answer
	for _, p := range c.pairs {
		o.asked++
		one, err := o.Ask(corpustest.Question{
			Set: set, Principal: c.principal, Action: p.action, Resource: p.resource, Context: c.context(a), Entities: entities,
		})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

// least is the least approval that a need is content with.
func least(n palyra.Need) palyra.ApprovalFacts {
	f := palyra.ApprovalFacts{
		Votes: n.Votes, OtherPerson: n.OtherPerson, Device: n.Device, Separation: n.Separation, Scope: palyra.ScopeSession, Fresh: n.Fresh,
	}
	if n.Fresh {
		f.Scope = palyra.ScopeOnce
	}
	return f
}

func someFacts(t *rapid.T) palyra.ApprovalFacts {
	return palyra.ApprovalFacts{
		Votes: rapid.IntRange(0, MaxVotes).Draw(t, "votes"), OtherPerson: rapid.Bool().Draw(t, "other"), Device: rapid.Bool().Draw(t, "device"),
		Separation: rapid.SampledFrom(separations).Draw(t, "separation"), Fresh: rapid.Bool().Draw(t, "fresh"),
		Scope: rapid.SampledFrom([]palyra.Scope{palyra.ScopeOnce, palyra.ScopeSession}).Draw(t, "scope"),
	}
}

func someSnapshot(t *rapid.T) palyra.Snapshot {
	s := open()
	s.AllowedTools = rapid.SampledFrom([][]string{{"*"}, {"*"}, {"palyra.fs.*"}, nil}).Draw(t, "tools")
	s.Principals = rapid.SampledFrom([][]string{{"*"}, {"*"}, {"agent:*"}}).Draw(t, "principals")
	s.Channels = rapid.SampledFrom([][]string{{"*"}, {"*"}, {"cli"}}).Draw(t, "surfaces")
	return s
}

func someCommand(t *rapid.T) palyra.Command {
	return palyra.Command{
		Class:      rapid.SampledFrom([]palyra.CommandClass{"read_only", "build", "write", "destructive", "unknown"}).Draw(t, "class"),
		Understood: rapid.Bool().Draw(t, "understood"), Shell: rapid.Bool().Draw(t, "shell"), RunsCode: rapid.Bool().Draw(t, "runs code"),
		Subcommand: rapid.SampledFrom([]string{"", "status", "push"}).Draw(t, "subcommand"),
		Programs:   rapid.SampledFrom([][]string{nil, {"ls"}, {"git"}, {"env", "sh"}, {"bash"}}).Draw(t, "programs"),
		Outside:    rapid.SampledFrom([][]string{nil, nil, {"/etc/passwd"}}).Draw(t, "outside"),
	}
}

// everyCall is a call of any kind of tool in any state that policies look at.
func everyCall(t *rapid.T) palyra.Request {
	caps := rapid.SliceOfNDistinct(rapid.SampledFrom([]palyra.Capability{
		palyra.ProcessExec, palyra.Network, palyra.FilesystemWrite, palyra.FilesystemRead, palyra.ChannelSend, palyra.Browser, palyra.NodeInvoke,
		palyra.DevicePair, palyra.ArtifactsRead,
	}), 0, 3, rapid.ID[palyra.Capability]).Draw(t, "capabilities")
	name := rapid.SampledFrom([]string{"palyra.echo", "palyra.fs.read", "palyra.fs.write", "palyra.process.run", "mcp.github.list"}).
		Draw(t, "tool")
	r := builtin(name, acts(rapid.Bool().Draw(t, "workspace"), caps...))
	some := func(label string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID[string]).Draw(t, label)
	}
	r.Principal = rapid.SampledFrom([]palyra.Principal{"agent:local", "agent:local", "user:ada", "device:phone", "system:cron"}).Draw(t, "who")
	r.Owner = rapid.SampledFrom([]palyra.Principal{"user:ada", "user:bob", ""}).Draw(t, "owner")
	r.Surface = rapid.SampledFrom([]palyra.Surface{palyra.SurfaceCLI, palyra.SurfaceAPI, palyra.SurfaceMCP, palyra.SurfaceCron}).
		Draw(t, "door")
	r.Tool.Source = rapid.SampledFrom([]palyra.Source{palyra.SourceBuiltin, palyra.SourceSkill, palyra.SourceMCP}).Draw(t, "source")
	r.Tool.ReadOnly, r.Plan.ReadOnly = rapid.Bool().Draw(t, "tool reads"), rapid.Bool().Draw(t, "plan reads")
	r.Tool.Tier = rapid.SampledFrom([]palyra.Tier{palyra.TierBuiltin, palyra.TierB, palyra.TierC, palyra.TierC}).Draw(t, "tier")
	r.Plan.Tier, r.Plan.Enforcement.Mode = r.Tool.Tier, rapid.SampledFrom([]palyra.NetworkMode{"", "strict", "preflight", "none"}).
		Draw(t, "network")
	r.Plan.Workspace.Known = rapid.Bool().Draw(t, "known")
	r.Plan.Reads = some("reads", "a.txt", ".env", "../x")
	r.Plan.Writes = some("writes", "a.txt", ".git/config", "/etc/passwd", `quote " and \ line`)
	r.Plan.Egress = some("egress", "example.org:443", "localhost:80", "*.example.org:8443")
	useSecrets(&r, some("secrets", "github", "npm")...)
	r.Labels = some("labels", "untrusted-input", "secret-read", "external-write")
	r.Plan.Asks, r.Plan.AgentSocket = rapid.Bool().Draw(t, "asks"), rapid.Bool().Draw(t, "agent")
	r.CallsUsed = rapid.SampledFrom([]int64{0, 1, 63, 64, 65}).Draw(t, "used")
	if rapid.Bool().Draw(t, "program") {
		r.Plan.Argv = append([]string{"git"}, some("argv", "push", "--force", "status", "ünï", "")...)
		r.Plan.Executable = palyra.Executable{Path: "/usr/bin/git", Digest: palyra.SumBytes(nil)}
	}
	return r
}

// A policy that fails never lets a call through, whatever else permits it: each
// policy is asked alone, and where one fails under the approval at hand the
// verdict is deny and names it.
func TestErrorNeverAllows(t *testing.T) {
	failing := 0
	rapid.Check(t, func(t *rapid.T) {
		b := unchecked(t, somePolicies(t)+`@id("everything") permit (principal, action, resource);`+"\n"+someFailing(t))
		e, err := New(Config{Bundle: b, Snapshot: open()})
		if err != nil {
			t.Fatal(err)
		}
		r, facts := someRequest(t), someFacts(t)
		for _, given := range []*palyra.ApprovalFacts{nil, {}, &facts} {
			r.Approval = given
			if failed := alone(t, e, r); len(failed) > 0 {
				failing++
				v := e.Judge(t.Context(), r)
				if v.Effect != palyra.Deny || !blames(v.Errors, failed) {
					t.Fatalf("%s with errors %q although %q fail", v.Effect, v.Errors, failed)
				}
			}
		}
	})
	if failing == 0 {
		t.Error("nothing failed")
	}
}

// blames reports whether every policy that failed is named by an error. There
// may be more of these where the ladder was tried.
func blames(errs []string, failed []cedar.PolicyID) bool {
	for _, id := range failed {
		if !slices.ContainsFunc(errs, func(e string) bool { return strings.HasPrefix(e, string(id)+" (") }) {
			return false
		}
	}
	return true
}

// someFailing are policies that fail for some requests or approvals.
func someFailing(t *rapid.T) string {
	cond := rapid.SampledFrom([]string{
		"resource.nothing", "context.nothing.at_all == 1", `principal.owner == User::"ada"`, "context.calls_used + 9223372036854775807 > 0",
		"context.approval.votes + 9223372036854775805 > 0", `context.tool < 3`, `[1, 2].containsAll(context)`, `ip(context.tool).isLoopback()`,
		`if context.approval.granted then context.nothing else true`, `principal in context.tool`, `!context.tool`,
	}).Draw(t, "failing")
	effect := rapid.SampledFrom([]string{"permit", "forbid"}).Draw(t, "failing effect")
	return fmt.Sprintf("@id(\"failing\") %s (%s, action, resource) when { %s };\n", effect,
		rapid.SampledFrom(somePrincipals).Draw(t, "failing for"), cond)
}

// alone evaluates every policy by itself, without our index and rules, and
// returns those that fail, once for every pair.
func alone(t *rapid.T, e *Engine, r palyra.Request) []cedar.PolicyID {
	c, err := e.live.Load().newCall(r)
	if err != nil {
		t.Fatal(err)
	}
	var a answer
	if r.Approval != nil {
		a = factsAnswer(*r.Approval)
	}
	var failed []cedar.PolicyID
	for _, p := range c.pairs {
		for _, one := range c.bundle.rules {
			_, diag := cedar.Authorize(rules{one}, &c.world, cedar.Request{
				Principal: c.principal, Action: p.action, Resource: p.resource,
				Context: c.context(a),
			})
			if len(diag.Errors) > 0 {
				failed = append(failed, one.id)
			}
		}
	}
	return failed
}
