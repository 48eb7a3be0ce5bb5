package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"pgregory.net/rapid"

	"palyra"
)

func TestDefaultPoliciesExplainThemselves(t *testing.T) {
	for _, p := range defaults(t).Policies() {
		if p.Reason == "" || p.Remedy == "" || p.Line == 0 || !strings.HasSuffix(p.File, ".cedar") {
			t.Errorf("%+v", p)
		}
	}
}

// builtin is a tool as the catalog describes it and a plan of ordinary use.
func builtin(name string, change func(*palyra.Request)) palyra.Request {
	r := echo()
	r.Tool.Name, r.Plan.Tool = palyra.ToolName(name), palyra.ToolName(name)
	if change != nil {
		change(&r)
	}
	return r
}

func reads(caps ...palyra.Capability) func(*palyra.Request) {
	return func(r *palyra.Request) {
		r.Tool.Capabilities, r.Plan.Capabilities = caps, caps
		r.Tool.Workspace = slices.Contains(caps, palyra.FilesystemRead)
		if r.Tool.Workspace {
			r.Plan.Workspace = palyra.WorkspaceRef{Path: "/w", Known: true}
			r.Plan.Reads = []string{"a.txt"}
		}
	}
}

func fromSkill(in palyra.Tier) func(*palyra.Request) {
	return func(r *palyra.Request) {
		r.Tool.Source, r.Plan.Source, r.Tool.Tier, r.Plan.Tier = palyra.SourceSkill, palyra.SourceSkill, in, in
	}
}

func acts(workspace bool, caps ...palyra.Capability) func(*palyra.Request) {
	return func(r *palyra.Request) {
		r.Tool.Capabilities, r.Plan.Capabilities = caps, caps
		r.Tool.ReadOnly, r.Plan.ReadOnly = false, false
		if r.Tool.Workspace = workspace; workspace {
			r.Plan.Workspace = palyra.WorkspaceRef{Path: "/w", Known: true}
		}
	}
}

// Every built-in tool, in a registered workspace and in a new one.
func TestDefaultBuiltins(t *testing.T) {
	e := engine(t, defaults(t))
	one := palyra.Need{Votes: 1}
	for _, c := range []struct {
		request palyra.Request
		want    palyra.Effect
		by      string
		new     string // policies when the workspace is new; empty: none is used
	}{
		{builtin("palyra.echo", nil), palyra.Allow, "read-only-tools", ""},
		{builtin("palyra.sleep", nil), palyra.Allow, "read-only-tools", ""},
		{builtin("palyra.call.wait", nil), palyra.Allow, "read-only-tools", ""},
		{builtin("palyra.artifact.read", reads(palyra.ArtifactsRead)), palyra.Allow, "read-only-tools", ""},
		{builtin("palyra.fs.read", reads(palyra.FilesystemRead)), palyra.Allow, "read-only-tools", "new-workspace-asks other-needs-approval"},
		{builtin("palyra.fs.list", reads(palyra.FilesystemRead)), palyra.Allow, "read-only-tools", "new-workspace-asks other-needs-approval"},
		{builtin("palyra.fs.search", reads(palyra.FilesystemRead)), palyra.Allow, "read-only-tools", "new-workspace-asks other-needs-approval"},
		{
			builtin("palyra.fs.write", acts(true, palyra.FilesystemWrite)), palyra.Allow, "workspace-files",
			"new-workspace-asks sensitive-needs-approval",
		},
		{
			builtin("palyra.fs.edit", acts(true, palyra.FilesystemWrite)), palyra.Allow, "workspace-files",
			"new-workspace-asks sensitive-needs-approval",
		},
		{
			builtin("palyra.fs.apply_patch", acts(true, palyra.FilesystemWrite)), palyra.Allow, "workspace-files",
			"new-workspace-asks sensitive-needs-approval",
		},
		{
			builtin("palyra.process.run", acts(true, palyra.ProcessExec)), palyra.Ask, "sensitive-needs-approval",
			"new-workspace-asks sensitive-needs-approval",
		},
		{builtin("palyra.http.fetch", acts(false, palyra.Network)), palyra.Ask, "sensitive-needs-approval", ""},
		{builtin("palyra.channel.send", acts(false, palyra.ChannelSend)), palyra.Ask, "sensitive-needs-approval", ""},
		{builtin("palyra.browser.open", acts(false, palyra.Browser, palyra.Network)), palyra.Ask, "sensitive-needs-approval", ""},
		{builtin("skill.lint.run", fromSkill(palyra.TierA)), palyra.Ask, "other-needs-approval", ""},
		{builtin("skill.lint.read", fromSkill(palyra.TierBuiltin)), palyra.Allow, "enabled-skills-are-read", ""},
		{builtin("mcp.github.list_issues", fromMCP), palyra.Ask, "other-needs-approval", ""},
	} {
		name := c.request.Tool.Name
		v := e.Judge(t.Context(), c.request)
		if v.Effect != c.want || ids(v) != c.by {
			t.Errorf("%s: %s by %q", name, v.Effect, ids(v))
		}
		if v.Effect == palyra.Ask && v.Need != one {
			t.Errorf("%s: needs %+v", name, v.Need)
		}
		approved := c.request
		approved.Approval = &palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeSession}
		if v := e.Judge(t.Context(), approved); v.Effect != palyra.Allow {
			t.Errorf("%s, approved: %s", name, v.Reason)
		}
		if c.new != "" {
			c.request.Plan.Workspace.Known = false
			if v := e.Judge(t.Context(), c.request); v.Effect != palyra.Ask || v.Need != one || ids(v) != c.new {
				t.Errorf("%s in a new workspace: %s %+v by %q", name, v.Effect, v.Need, ids(v))
			}
		}
	}
}

// What a plan does counts, not what its tool says of itself.
func TestDefaultDoesNotTrustReadOnly(t *testing.T) {
	e := engine(t, defaults(t))
	for name, change := range map[string]func(*palyra.Request){
		"the plan does not agree":     func(r *palyra.Request) { r.Plan.ReadOnly = false },
		"the tool does not agree":     func(r *palyra.Request) { r.Tool.ReadOnly = false },
		"it writes":                   func(r *palyra.Request) { r.Plan.Writes = []string{"a"} },
		"it connects":                 func(r *palyra.Request) { r.Plan.Egress = []string{"example.com:443"} },
		"it uses a secret":            func(r *palyra.Request) { useSecrets(r, "github") },
		"it runs a program":           func(r *palyra.Request) { r.Plan.Executable = palyra.Executable{Path: "/bin/true"} },
		"it has an argv":              func(r *palyra.Request) { r.Plan.Argv = []string{"true"} },
		"a capability of the tool":    func(r *palyra.Request) { r.Tool.Capabilities = []palyra.Capability{palyra.Network} },
		"a capability of the plan":    func(r *palyra.Request) { r.Plan.Capabilities = []palyra.Capability{palyra.SecretsRead} },
		"a capability nobody knows":   func(r *palyra.Request) { r.Plan.Capabilities = []palyra.Capability{"time_travel"} },
		"a workspace nobody knows":    func(r *palyra.Request) { r.Plan.Workspace.Path = "/w" },
		"a workspace that is missing": func(r *palyra.Request) { r.Tool.Workspace = true },
		"a tool without a source":     func(r *palyra.Request) { r.Tool.Source = "" },
	} {
		r := echo()
		change(&r)
		if v := e.Judge(t.Context(), r); v.Effect != palyra.Ask {
			t.Errorf("%s: %s by %q", name, v.Effect, ids(v))
		}
	}
}

func TestDefaultAllowlists(t *testing.T) {
	b := defaults(t)
	for _, c := range []struct {
		name   string
		change func(*palyra.Snapshot)
		by     string
	}{
		{"nothing at all", func(s *palyra.Snapshot) { *s = palyra.Snapshot{} }, "tools-allowlist callers-principal callers-door"},
		{"no tools", func(s *palyra.Snapshot) { s.AllowedTools = nil }, "tools-allowlist"},
		{"another tool", func(s *palyra.Snapshot) { s.AllowedTools = []string{"palyra.sleep", "palyra.ech"} }, "tools-allowlist"},
		{"no principal", func(s *palyra.Snapshot) { s.Principals = nil }, "callers-principal"},
		{"users only", func(s *palyra.Snapshot) { s.Principals = []string{"user:*"} }, "callers-principal"},
		{"no door", func(s *palyra.Snapshot) { s.Channels = nil }, "callers-door"},
		{"another door", func(s *palyra.Snapshot) { s.Channels = []string{"mcp"} }, "callers-door"},
		{"all of them", func(s *palyra.Snapshot) {
			s.AllowedTools, s.Principals, s.Channels = []string{"palyra.echo"}, []string{"agent:local"}, []string{"cli"}
		}, ""},
	} {
		s := open()
		c.change(&s)
		e, err := New(Config{Bundle: b, Snapshot: s})
		if err != nil {
			t.Fatal(err)
		}
		r := echo()
		for _, facts := range []*palyra.ApprovalFacts{nil, meets(palyra.Need{Votes: 5, OtherPerson: true, Device: true, Fresh: true})} {
			r.Approval = facts
			v := e.Judge(t.Context(), r)
			if c.by == "" && v.Effect != palyra.Allow || c.by != "" && (v.Effect != palyra.Deny || ids(v) != c.by) {
				t.Errorf("%s: %s by %q", c.name, v.Effect, ids(v))
			}
		}
	}
}

// Guarded paths and paths outside need an answer of their own.
func TestDefaultDestructive(t *testing.T) {
	e := engine(t, defaults(t))
	for _, path := range []string{
		".git/hooks/pre-commit", "sub/.GIT/config", ".github/workflows/ci.yml", ".envrc", ".palyra/policy/x.cedar",
		"../other", "/etc/passwd", "",
	} {
		r := write("ok.txt", path)
		v := e.Judge(t.Context(), r)
		if v.Effect != palyra.Ask || v.Need != (palyra.Need{Votes: 1, Fresh: true}) || v.Risk.Level != palyra.RiskCritical {
			t.Errorf("%q: %s %+v %+v", path, v.Effect, v.Need, v.Risk)
		}
		for _, c := range []struct {
			facts palyra.ApprovalFacts
			want  palyra.Effect
		}{
			{palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeOnce, Fresh: true}, palyra.Allow},
			{palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeSession, Fresh: true}, palyra.Deny},
			{palyra.ApprovalFacts{Votes: 5, Scope: palyra.ScopeOnce, Device: true}, palyra.Deny},
			{palyra.ApprovalFacts{Scope: palyra.ScopeOnce, Fresh: true}, palyra.Deny},
		} {
			r.Approval = &c.facts
			if v := e.Judge(t.Context(), r); v.Effect != c.want {
				t.Errorf("%q with %+v: %s", path, c.facts, v.Effect)
			}
		}
	}
}

// A profile that opens what is sealed needs an answer of its own, for one call.
func TestDefaultProfilesThatAsk(t *testing.T) {
	e := engine(t, defaults(t))
	r := write("ok.txt")
	r.Plan.Tier, r.Plan.Profile, r.Plan.Asks, r.Plan.Enforcement.Mode = palyra.TierC, "git-setup", true, "strict"
	if v := e.Judge(t.Context(), r); v.Effect != palyra.Ask || v.Need != (palyra.Need{Votes: 1, Fresh: true}) {
		t.Errorf("%s %+v", v.Effect, v.Need)
	}
	for scope, want := range map[palyra.Scope]palyra.Effect{palyra.ScopeOnce: palyra.Allow, palyra.ScopeSession: palyra.Deny} {
		r.Approval = &palyra.ApprovalFacts{Votes: 1, Scope: scope, Fresh: true}
		if v := e.Judge(t.Context(), r); v.Effect != want {
			t.Errorf("%s: %s", scope, v.Effect)
		}
	}
}

// anyRequest draws a request of any shape a plan can have.
func anyRequest(t *rapid.T) palyra.Request {
	caps := rapid.SliceOfDistinct(rapid.SampledFrom([]palyra.Capability{
		palyra.ProcessExec, palyra.Network, palyra.SecretsRead, palyra.FilesystemWrite, palyra.FilesystemRead,
		palyra.ArtifactsRead, palyra.ChannelSend, palyra.Browser, palyra.NodeInvoke, palyra.DevicePair, "unknown",
	}), func(c palyra.Capability) palyra.Capability { return c })
	list := func(label string, of ...string) []string {
		return rapid.SliceOfN(rapid.SampledFrom(of), 0, 3).Draw(t, label)
	}
	r := palyra.Request{
		Principal: rapid.SampledFrom([]palyra.Principal{"agent:a", "user:u", "device:d", "system:s"}).Draw(t, "principal"),
		Owner:     rapid.SampledFrom([]palyra.Principal{"", "user:ada", "agent:x"}).Draw(t, "owner"),
		Session:   "01S", Surface: rapid.SampledFrom([]palyra.Surface{"cli", "mcp", ""}).Draw(t, "door"),
		Labels: list("labels", "untrusted-input", "secret-read", "external-write"), CallsUsed: rapid.Int64().Draw(t, "used"),
		Tool: palyra.Tool{
			Name: rapid.SampledFrom([]palyra.ToolName{"palyra.x", "mcp.y"}).Draw(t, "tool"), ReadOnly: rapid.Bool().Draw(t, "tool reads"),
			Source:       rapid.SampledFrom([]palyra.Source{"builtin", "skill", "mcp", ""}).Draw(t, "source"),
			Capabilities: caps.Draw(t, "tool caps"), Workspace: rapid.Bool().Draw(t, "needs workspace"),
		},
		Plan: palyra.Plan{
			ReadOnly: rapid.Bool().Draw(t, "plan reads"), Capabilities: caps.Draw(t, "plan caps"), Arguments: []byte(`{}`),
			Argv: list("argv", "git", "push", "--force", "a b"), Reads: list("reads", "a", "b"),
			Writes: list("writes", "a", ".git/config", "../x"), Egress: list("egress", "example.com:443", "[::1]:80"),
			Bindings: list("bindings", "github", "npm"), Tier: rapid.SampledFrom([]palyra.Tier{"builtin", "A", "B", "C", "node"}).Draw(t, "tier"),
			Stdin: rapid.SampledFrom([]string{"", "live", "sha256:0"}).Draw(t, "stdin"), Env: []palyra.EnvVar{{Name: "PATH"}},
		},
	}
	useSecrets(&r, r.Plan.Bindings...)
	r.Plan.Tool = r.Tool.Name
	if rapid.Bool().Draw(t, "has workspace") {
		r.Plan.Workspace = palyra.WorkspaceRef{Path: "/w", Known: rapid.Bool().Draw(t, "known")}
	}
	if rapid.Bool().Draw(t, "has executable") {
		r.Plan.Executable = palyra.Executable{Path: "/usr/bin/git", Digest: palyra.SumBytes(nil)}
	}
	return r
}

func anyFacts(t *rapid.T, label string) palyra.ApprovalFacts {
	return palyra.ApprovalFacts{
		Votes: rapid.IntRange(0, 6).Draw(t, label+" votes"), OtherPerson: rapid.Bool().Draw(t, label+" other"),
		Device:     rapid.Bool().Draw(t, label+" device"),
		Separation: rapid.SampledFrom(separations).Draw(t, label+" separation"), Fresh: rapid.Bool().Draw(t, label+" fresh"),
		Scope: rapid.SampledFrom([]palyra.Scope{palyra.ScopeOnce, palyra.ScopeSession, palyra.ScopeTimeboxed}).Draw(t, label+" scope"),
	}
}

// join is at least as much as both.
func join(a, b palyra.ApprovalFacts) palyra.ApprovalFacts {
	out := palyra.ApprovalFacts{
		Votes: max(a.Votes, b.Votes), OtherPerson: a.OtherPerson || b.OtherPerson, Device: a.Device || b.Device,
		Fresh: a.Fresh || b.Fresh, Separation: separations[max(a.Separation.Rank(), b.Separation.Rank())], Scope: a.Scope,
	}
	if b.Scope == palyra.ScopeOnce { // narrower is stronger
		out.Scope = b.Scope
	}
	return out
}

// Under the default policies more of an approval never turns an allow into a
// deny, what is asked for is enough, and nothing is ever both allowed and in
// error.
func TestDefaultIsMonotone(t *testing.T) {
	b, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		e, err := New(Config{Bundle: b, Snapshot: open()})
		if err != nil {
			t.Fatal(err)
		}
		r := anyRequest(t)
		v := e.Judge(t.Context(), r)
		if len(v.Errors) > 0 {
			t.Fatalf("the default policies fail: %v", v.Errors)
		}
		less, more := anyFacts(t, "less"), anyFacts(t, "more")
		judge := func(f palyra.ApprovalFacts) palyra.Effect {
			r.Approval = &f
			return e.Judge(t.Context(), r).Effect
		}
		if judge(less) == palyra.Allow && judge(join(less, more)) != palyra.Allow {
			t.Fatalf("%+v allows, %+v does not", less, join(less, more))
		}
		if v.Effect == palyra.Allow && judge(more) != palyra.Allow {
			t.Fatalf("allowed without an approval, denied with %+v", more)
		}
		if v.Effect == palyra.Ask && judge(*meets(v.Need)) != palyra.Allow {
			t.Fatalf("needs %+v and is not content with it", v.Need)
		}
		if v.Effect == palyra.Deny && judge(more) != palyra.Deny {
			t.Fatalf("denied, and yet %+v allows it", more)
		}
	})
}

// Every request and entity the code builds has the shape the schema promises,
// so that a policy that passed the checker cannot miss an attribute.
func TestRequestsFitTheSchema(t *testing.T) {
	b, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := &state{bundle: b, tools: newNames([]string{"palyra.*"})}
		c, err := s.newCall(anyRequest(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, entity := range c.world.own {
			if err := b.valid.Entity(entity); err != nil {
				t.Fatalf("%s: %v", entity.UID, err)
			}
		}
		for _, p := range c.pairs {
			for _, a := range []answer{{}, ladder[0]} {
				req := cedar.Request{Principal: c.principal, Action: p.action, Resource: p.resource, Context: c.context(a)}
				if err := b.valid.Request(req); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A machine becomes a device only by an answer of its own, whoever offers it.
func TestDefaultPairing(t *testing.T) {
	e := engine(t, defaults(t))
	r := builtin("palyra.device.pair", acts(false, palyra.DevicePair))
	r.Principal, r.Owner = "device:dev-1", "user:alice"
	v := e.Judge(t.Context(), r)
	if v.Effect != palyra.Ask || !v.Need.Fresh || v.Risk.Level != palyra.RiskCritical {
		t.Errorf("%s %+v %s", v.Effect, v.Need, v.Risk.Level)
	}
	joins := slices.ContainsFunc(v.Pairs, func(p palyra.PairResult) bool { return p.Action == "device.join" && p.Effect == palyra.Ask })
	if !joins {
		t.Errorf("%+v", v.Pairs)
	}
	for _, c := range []struct {
		facts palyra.ApprovalFacts
		want  palyra.Effect
	}{
		{palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeOnce, Fresh: true}, palyra.Allow},
		{palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeOnce}, palyra.Deny},
		{palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeSession, Fresh: true}, palyra.Deny},
	} {
		r.Approval = &c.facts
		if v := e.Judge(t.Context(), r); v.Effect != c.want && (c.want != palyra.Deny || v.Effect == palyra.Allow) {
			t.Errorf("%+v: %s", c.facts, v.Effect)
		}
	}
}
