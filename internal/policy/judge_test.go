package policy

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"palyra"
)

const permitAll = `@id("all") @reason("everything goes") permit (principal, action, resource);` + "\n"

func TestForbidWins(t *testing.T) {
	for _, c := range []struct {
		name, forbid string
		facts        *palyra.ApprovalFacts
		want         palyra.Effect
	}{
		{"always", `forbid (principal, action, resource);`, nil, palyra.Deny},
		{"always, approved", `forbid (principal, action, resource);`, meets(palyra.Need{Votes: 5}), palyra.Deny},
		{"on the tool", `forbid (principal, action, resource == Tool::"palyra.fs.write");`, nil, palyra.Deny},
		{"on another tool", `forbid (principal, action, resource == Tool::"palyra.fs.read");`, nil, palyra.Allow},
		{"on the agent", `forbid (principal == Agent::"local", action, resource);`, nil, palyra.Deny},
		{"on agents", `forbid (principal in Role::"agent", action, resource);`, nil, palyra.Deny},
		{"on a user of that name", `forbid (principal == User::"local", action, resource);`, nil, palyra.Allow},
		{
			"on the owner", `forbid (principal is Agent, action, resource) when { principal has owner && principal.owner == User::"ada" };`, nil,
			palyra.Deny,
		},
		{"without approval", `forbid (principal, action in Action::"call", resource) unless { context.approval.granted };`, nil, palyra.Ask},
		{
			"approved", `forbid (principal, action in Action::"call", resource) unless { context.approval.granted };`,
			meets(palyra.Need{Votes: 1}), palyra.Allow,
		},
		{
			"when approved", `forbid (principal, action in Action::"call", resource) when { context.approval.granted };`,
			meets(palyra.Need{Votes: 1}), palyra.Deny,
		},
	} {
		r := write("a.txt")
		r.Approval = c.facts
		v := engine(t, load(t, permitAll+`@id("no") `+c.forbid)).Judge(t.Context(), r)
		if v.Effect != c.want {
			t.Errorf("%s: %s, want %s (%s)", c.name, v.Effect, c.want, v.Reason)
		}
		if c.want == palyra.Deny && ids(v) != "no" {
			t.Errorf("%s: decided by %q", c.name, ids(v))
		}
	}
}

// overflow is a condition that passes the type checker and fails to evaluate
// when guard holds.
func overflow(guard string) string {
	return guard + " && context.input_bytes + 9223372036854775807 > 0"
}

// A policy that fails denies: permit or forbid, as things are and on each rung
// that is reached.
func TestErrorsDeny(t *testing.T) {
	big := write("a.txt")
	big.Plan.Arguments = []byte(`{"x":1}`)
	for _, effect := range []string{"permit", "forbid"} {
		for i, rung := range append([]answer{{}}, ladder...) {
			guard := "!context.approval.granted"
			if i > 0 {
				guard = fmt.Sprintf("context.approval.votes == %d && context.approval.separation == %d && context.approval.device == %v && "+
					"context.approval.other_person == %v",
					rung.votes, rung.separation, rung.device, rung.other)
			}
			// Without the broken policy the very last rung would permit.
			text := fmt.Sprintf(`@id("top") permit (principal, action in Action::"call", resource)
				when { context.approval.votes == 5 && context.approval.device && context.approval.other_person && context.approval.separation == 3 };
				@id("broken") %s (principal, action in Action::"call", resource) when { %s };`, effect, overflow(guard))
			v := engine(t, load(t, text)).Judge(t.Context(), big)
			if v.Effect != palyra.Deny || len(v.Errors) == 0 || ids(v) != "broken" {
				t.Fatalf("%s broken at rung %d: %s, errors %v, by %q", effect, i, v.Effect, v.Errors, ids(v))
			}
			if !strings.Contains(v.Errors[0], "broken (a.cedar:3:") || !strings.Contains(v.Reason, "broken") {
				t.Fatalf("error %q, reason %q", v.Errors[0], v.Reason)
			}
		}
	}
}

func TestErrorsDenyElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		facts *palyra.ApprovalFacts
		want  palyra.Effect
	}{
		"permit beside a permit": {permitAll + `@id("b") permit (principal, action in Action::"call", resource) when { ` +
			overflow("true") + ` };`, nil, palyra.Deny},
		"forbid beside a permit": {permitAll + `@id("b") forbid (principal, action in Action::"call", resource) when { ` +
			overflow("true") + ` };`, nil, palyra.Deny},
		"with a real approval": {permitAll + `@id("b") forbid (principal, action in Action::"call", resource) when { ` +
			overflow("context.approval.granted") + ` };`, meets(palyra.Need{Votes: 1}), palyra.Deny},
		"when tried as an earlier grant": {
			`@id("p") permit (principal, action in Action::"call", resource) when { context.approval.granted }; @id("b") forbid (principal, action in Action::"call", resource) when { ` + overflow("context.approval.granted && !context.approval.fresh") + ` };`, nil, palyra.Deny,
		},
		"on a rung that is not reached": {permitAll + `@id("b") forbid (principal, action in Action::"call", resource) when { ` +
			overflow("context.approval.granted") + ` };`, nil, palyra.Allow},
		"on a tool that is not called": {
			permitAll +
				`@id("b") forbid (principal, action == Action::"tool.execute", resource == Tool::"x") when { ` + overflow("true") + ` };`, nil,
			palyra.Allow,
		},
	} {
		r := write("a.txt")
		r.Plan.Arguments, r.Approval = []byte(`{}`), c.facts
		v := engine(t, load(t, c.text)).Judge(t.Context(), r)
		if v.Effect != c.want || (c.want == palyra.Deny) != (len(v.Errors) > 0) {
			t.Errorf("%s: %s, errors %v", name, v.Effect, v.Errors)
		}
	}
}

// What cannot be put into policy's terms is denied, with an error.
func TestUnjudgeable(t *testing.T) {
	e := engine(t, load(t, permitAll))
	for name, change := range map[string]func(*palyra.Request){
		"no principal":        func(r *palyra.Request) { r.Principal = "" },
		"no name":             func(r *palyra.Request) { r.Principal = "agent:" },
		"unknown kind":        func(r *palyra.Request) { r.Principal = "root:0" },
		"no colon":            func(r *palyra.Request) { r.Principal = "agent" },
		"no tool":             func(r *palyra.Request) { r.Tool.Name, r.Plan.Tool = "", "" },
		"plan of another":     func(r *palyra.Request) { r.Plan.Tool = "palyra.fs.write" },
		"egress without port": func(r *palyra.Request) { r.Plan.Egress = []string{"example.com"} },
		"egress port 0":       func(r *palyra.Request) { r.Plan.Egress = []string{"example.com:0"} },
		"egress port name":    func(r *palyra.Request) { r.Plan.Egress = []string{"example.com:https"} },
		"egress port high":    func(r *palyra.Request) { r.Plan.Egress = []string{"example.com:65536"} },
		"egress no host":      func(r *palyra.Request) { r.Plan.Egress = []string{":443"} },
		"egress only a dot":   func(r *palyra.Request) { r.Plan.Egress = []string{".:443"} },
	} {
		r := echo()
		change(&r)
		v := e.Judge(t.Context(), r)
		if v.Effect != palyra.Deny || len(v.Errors) != 1 || v.Reason == "" || !v.Bundle.Valid() || !v.Snapshot.Valid() {
			t.Errorf("%s: %+v", name, v)
		}
		if x := e.Why(t.Context(), r); x.Verdict != palyra.Deny || len(x.Errors) != 1 || x.Layer != palyra.LayerPolicy {
			t.Errorf("%s: why %+v", name, x)
		}
	}
}

// Everything a plan implies is asked about; the strictest answer holds and the
// needs add up.
func TestPairs(t *testing.T) {
	r := write("a.txt")
	useSecrets(&r, "npm", "github", "github")
	r.Plan.Capabilities = append(r.Plan.Capabilities, palyra.ChannelSend, palyra.Browser, palyra.NodeInvoke)
	r.Tool.Source = palyra.SourceSkill
	text := `
		@id("tool") permit (principal, action == Action::"tool.execute", resource);
		@id("skill") permit (principal, action == Action::"skill.execute", resource);
		@id("channel") permit (principal, action == Action::"channel.send", resource) when { context.approval.votes >= 2 };
		@id("browser") permit (principal, action == Action::"browser.act", resource) when { context.approval.device };
		@id("node") permit (principal, action == Action::"node.invoke", resource) when { context.approval.separation >= 1 };
		@id("npm") permit (principal, action == Action::"vault.use", resource == Secret::"npm") when { context.approval.fresh };
		@id("github") permit (principal, action == Action::"vault.use", resource) when { resource.name == "github" && context.approval.other_person };`
	v := engine(t, load(t, text)).Judge(t.Context(), r)
	var got []string
	for _, p := range v.Pairs {
		got = append(got, fmt.Sprintf("%s %s %s %s", p.Action, p.Resource, p.Effect, strings.Join(p.Policies, ",")))
	}
	want := `tool.execute Tool::"palyra.fs.write" allow tool
skill.execute Tool::"palyra.fs.write" allow skill
channel.send Tool::"palyra.fs.write" ask channel
browser.act Tool::"palyra.fs.write" ask browser
node.invoke Tool::"palyra.fs.write" ask node
vault.use Secret::"github" ask github
vault.use Secret::"npm" ask npm`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("pairs:\n%s", s)
	}
	need := palyra.Need{Votes: 2, OtherPerson: true, Device: true, Separation: palyra.SeparationPassphrase, Fresh: true}
	if v.Effect != palyra.Ask || v.Need != need {
		t.Errorf("%s %+v", v.Effect, v.Need)
	}
	if s := ids(v); s != "channel browser node github npm" {
		t.Errorf("decided by %q", s)
	}
	r.Approval = meets(need)
	if v := engine(t, load(t, text)).Judge(t.Context(), r); v.Effect != palyra.Allow {
		t.Errorf("with all of it: %s %s", v.Effect, v.Reason)
	}
	r.Approval = nil
	useSecrets(&r, "npm", "other")
	v = engine(t, load(t, text)).Judge(t.Context(), r)
	if v.Effect != palyra.Deny || v.Need != (palyra.Need{}) || !strings.Contains(v.Reason, `no policy permits vault.use on Secret::"other"`) {
		t.Errorf("an unknown secret: %s %+v %s", v.Effect, v.Need, v.Reason)
	}
}

var permitID = regexp.MustCompile(`permit-[0-9a-f]{12}`)

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		name, text     string
		facts          *palyra.ApprovalFacts
		reason, remedy string
	}{
		{"allow", permitAll, nil, "everything goes", ""},
		{"allow without a reason", `@id("x") permit (principal, action, resource);`, nil, "policy x (a.cedar:1)", ""},
		{
			"deny", permitAll + `@id("n") @reason("not here") @remedy("go there") forbid (principal, action, resource);`, nil, "not here",
			"go there",
		},
		{
			"two denials, one reason",
			`@id("n") @reason("no") @remedy("a") forbid (principal, action, resource); @id("m") @reason("no") @remedy("b") forbid (principal, action, resource);`, nil, "no", "a; b",
		},
		{
			"nothing permits", `@id("n") permit (principal, action == Action::"vault.use", resource);`, nil,
			`no policy permits tool.execute on Tool::"palyra.fs.write" for agent:local`,
			`an operator can add to the policy bundle: @id("permit-ID") permit (principal == Agent::"local", action == Action::"tool.execute", resource == Tool::"palyra.fs.write") ` +
				`when { context.tier == "builtin" && context has workspace && context.workspace == "/w" && context.reads.isEmpty() && context.writes == ["a.txt"] && context.secrets.isEmpty() && context.egress.isEmpty() };`,
		},
		{
			"deny without a remedy", permitAll + `@id("n") @reason("not here") forbid (principal, action, resource);`, nil, "not here",
			"an operator can exempt this call from policy n (a.cedar:2)",
		},
		{
			"ask", `@id("n") @reason("files matter") @remedy("or do not") permit (principal, action in Action::"call", resource) when { context.approval.granted };`, nil,
			"needs the approval of one operator: files matter", "have an operator answer the approval; or do not",
		},
		{
			"ask without a remedy", `@id("n") @reason("files matter") permit (principal, action in Action::"call", resource) when { context.approval.votes > 1 && context.approval.other_person };`, nil,
			"needs the approval of 2 people, not only the owner: files matter", "have an operator answer the approval",
		},
		{
			"not enough", `@id("n") @reason("two") @remedy("ask another") forbid (principal, action in Action::"call", resource) unless { context.approval.votes > 1 };` + permitAll,
			meets(palyra.Need{Votes: 1}), "the approval given does not suffice: two", "ask another",
		},
	} {
		r := write("a.txt")
		r.Approval = c.facts
		v := engine(t, load(t, c.text)).Judge(t.Context(), r)
		v.Remedy = permitID.ReplaceAllString(v.Remedy, "permit-ID")
		if v.Reason != c.reason || v.Remedy != c.remedy {
			t.Errorf("%s:\n%s\n%s", c.name, v.Reason, v.Remedy)
		}
	}
}

// The remedy of a denial is a policy that can be pasted, whatever the tool is
// called.
func TestSilenceCanBePasted(t *testing.T) {
	r := write("a.txt")
	r.Tool.Name = "x\"); permit (principal, action, resource);\n//"
	r.Plan.Tool, r.Principal = r.Tool.Name, `agent:"`
	v := engine(t, load(t, `@id("n") permit (principal, action == Action::"vault.use", resource);`)).Judge(t.Context(), r)
	_, statement, ok := strings.Cut(v.Remedy, "bundle: ")
	if !ok {
		t.Fatalf("remedy %q", v.Remedy)
	}
	b := load(t, statement)
	if len(b.Policies()) != 1 {
		t.Fatalf("%d policies in %q", len(b.Policies()), statement)
	}
	if v := engine(t, b).Judge(t.Context(), r); v.Effect != palyra.Allow {
		t.Errorf("the remedy does not help: %s", v.Reason)
	}
	if v := engine(t, b).Judge(t.Context(), echo()); v.Effect != palyra.Deny {
		t.Error("the remedy permits something else")
	}
}

func TestDescribe(t *testing.T) {
	seen := map[string]palyra.Need{}
	for _, n := range needs() {
		s := Describe(n)
		if other, ok := seen[s]; ok {
			t.Errorf("%+v and %+v read the same: %s", n, other, s)
		}
		seen[s] = n
	}
}

// A policy can demand what a tier must hold with: what is not promised is not
// there.
func TestEnforcementCanBeDemanded(t *testing.T) {
	e := engine(t, load(t, permitAll+`@id("limits") @reason("memory must be bounded by the kernel") forbid (principal, action in Action::"call", resource)
		when { context.tier == "B" } unless { context.limits.contains("memory=cgroup") && context.mechanisms.contains("seccomp") };`))
	for name, c := range map[string]struct {
		mechanisms []string
		memory     string
		want       palyra.Effect
	}{
		"promised":     {[]string{"seccomp"}, "cgroup", palyra.Allow},
		"only polled":  {[]string{"seccomp"}, "polled", palyra.Deny},
		"not at all":   {[]string{"seccomp"}, "none", palyra.Deny},
		"no mechanism": {nil, "cgroup", palyra.Deny},
	} {
		r := write("a.txt")
		r.Plan.Tier = palyra.TierB
		r.Plan.Enforcement = palyra.Enforcement{
			Mode: "strict", Mechanisms: c.mechanisms,
			Limits: map[string]palyra.Hold{"memory": palyra.Hold(c.memory), "disk": "none"},
		}
		if v := e.Judge(t.Context(), r); v.Effect != c.want {
			t.Errorf("%s: %s (%s)", name, v.Effect, v.Reason)
		}
	}
}

// A policy can demand that a tier was tried out, and a profile that opens seals
// is never covered by an earlier answer.
func TestPostureCanBeDemanded(t *testing.T) {
	b := load(t, permitAll+`@id("probed") @reason("the tier must have been tried out") forbid (principal, action in Action::"call", resource)
		when { context.tier == "C" && (!context.probed || context.network != "strict") };`)
	for name, c := range map[string]struct {
		probed func(palyra.Tier) bool
		mode   string
		want   palyra.Effect
	}{
		"held":           {func(palyra.Tier) bool { return true }, "strict", palyra.Allow},
		"not held":       {func(palyra.Tier) bool { return false }, "strict", palyra.Deny},
		"nobody asked":   {nil, "strict", palyra.Deny},
		"not enforced":   {func(palyra.Tier) bool { return true }, "none", palyra.Deny},
		"of another one": {func(t palyra.Tier) bool { return t == palyra.TierB }, "strict", palyra.Deny},
	} {
		e := engine(t, b)
		if err := e.Swap(Config{Bundle: b, Snapshot: e.Snapshot(), Probed: c.probed}); err != nil {
			t.Fatal(err)
		}
		r := write("a.txt")
		r.Plan.Tier, r.Plan.Enforcement.Mode = palyra.TierC, palyra.NetworkMode(c.mode)
		if v := e.Judge(t.Context(), r); v.Effect != c.want {
			t.Errorf("%s: %s (%s)", name, v.Effect, v.Reason)
		}
	}
}
