package policy

import (
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"palyra"
)

// judgedBy is the effect of a policy on a request.
func judgedBy(t *testing.T, c Config, r palyra.Request) palyra.Effect {
	t.Helper()
	c.Snapshot = open()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	v := e.Judge(t.Context(), r)
	if len(v.Errors) > 0 {
		t.Fatal(v.Errors)
	}
	return v.Effect
}

// knows is a registry with one answer.
func knows(s palyra.Standing) func(palyra.Principal, palyra.Principal) (palyra.Standing, error) {
	return func(palyra.Principal, palyra.Principal) (palyra.Standing, error) { return s, nil }
}

func TestRolesOfTheRegistry(t *testing.T) {
	const operators = `@id("a") permit (principal in Role::"operator", action == Action::"tool.execute", resource);`
	const admins = `@id("a") permit (principal is Agent, action == Action::"tool.execute", resource) when { principal has owner && principal.owner in Role::"admin" };`
	const agents = `@id("a") permit (principal in Role::"agent", action == Action::"tool.execute", resource);`
	user := echo()
	user.Principal, user.Owner = "user:ada", ""
	recorded := user
	recorded.Standing = &palyra.Standing{Roles: []palyra.Role{palyra.RoleOperator}}
	device := echo()
	device.Principal = "device:dev-1"
	for name, c := range map[string]struct {
		policies string
		request  palyra.Request
		knows    palyra.Standing
		want     palyra.Effect
	}{
		"a person with the role":      {operators, user, palyra.Standing{Roles: []palyra.Role{palyra.RoleOperator}}, palyra.Allow},
		"a person with another":       {operators, user, palyra.Standing{Roles: []palyra.Role{palyra.RoleViewer}}, palyra.Deny},
		"a person removed":            {operators, user, palyra.Standing{}, palyra.Deny},
		"a device":                    {operators, device, palyra.Standing{Roles: []palyra.Role{palyra.RoleOperator}}, palyra.Allow},
		"an agent never has it":       {operators, echo(), palyra.Standing{Roles: []palyra.Role{palyra.RoleOperator}}, palyra.Deny},
		"an agent is one":             {agents, echo(), palyra.Standing{}, palyra.Allow},
		"an agent of an admin":        {admins, echo(), palyra.Standing{Owner: []palyra.Role{palyra.RoleAdmin}}, palyra.Allow},
		"an agent of a viewer":        {admins, echo(), palyra.Standing{Owner: []palyra.Role{palyra.RoleViewer}}, palyra.Deny},
		"an agent of nobody any more": {admins, echo(), palyra.Standing{}, palyra.Deny},
		"as it was":                   {operators, recorded, palyra.Standing{}, palyra.Allow},
	} {
		if got := judgedBy(t, Config{Bundle: load(t, c.policies), Standing: knows(c.knows)}, c.request); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestABundleAddsToWhatTheRegistryKnows(t *testing.T) {
	b, err := Load(fstest.MapFS{
		"a.cedar": {Data: []byte(`@id("a") permit (principal is Agent, action == Action::"tool.execute", resource)
			when { principal has owner && principal.owner in Team::"web" && principal.owner in Role::"admin" };`)},
		entitiesFile: {Data: []byte(`[{"uid":{"type":"User","id":"ada"},"parents":[{"type":"Team","id":"web"}]}]`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[palyra.Role]palyra.Effect{palyra.RoleAdmin: palyra.Allow, palyra.RoleViewer: palyra.Deny} {
		if got := judgedBy(t, Config{Bundle: b, Standing: knows(palyra.Standing{Owner: []palyra.Role{role}})}, echo()); got != want {
			t.Errorf("%s: %s", role, got)
		}
	}
}

func TestRolesThatCannotBeReadDeny(t *testing.T) {
	broken := func(palyra.Principal, palyra.Principal) (palyra.Standing, error) {
		return palyra.Standing{}, errors.New("disk")
	}
	e, err := New(Config{Bundle: load(t, `@id("a") permit (principal, action, resource);`), Snapshot: open(), Standing: broken})
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Judge(t.Context(), echo()); v.Effect != palyra.Deny || len(v.Errors) == 0 {
		t.Errorf("%+v", v)
	}
}

// What a call is part of and when it comes can be asked for.
func TestEntitiesAndTime(t *testing.T) {
	at := func(text string) time.Time {
		m, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	r := echo()
	r.Plan.Workspace = palyra.WorkspaceRef{Path: "/srv/ada/web", Known: true}
	r.Labels, r.CallsMax = []string{palyra.LabelSecret}, 3
	r.At = at("2026-02-01T23:30:00-02:00") // a Monday in UTC
	mine := r
	mine.Tool.Name, mine.Plan.Tool, mine.Tool.Source = "allowed", "allowed", palyra.SourceMCP
	for when, want := range map[string]bool{
		`context.place in Workspace::"/srv/ada"`:                               true,
		`context.place in Workspace::"/"`:                                      true,
		`context.place == Workspace::"/srv/ada/web"`:                           true,
		`context.place in Workspace::"/srv/ad"`:                                false,
		`context.place in Workspace::"/srv/ada/web/x"`:                         false,
		`context.place.name == "/srv/ada/web"`:                                 true,
		`context.session == Session::"01SESSION"`:                              true,
		`context.session.labels.contains("secret-read")`:                       true,
		`context.time.hour == 1 && context.time.minute == 30`:                  true,
		`context.time.weekday == 1 && context.time.unix == 1769995800`:         true,
		`context.budget == 3`:                                                  true,
		`resource in ToolGroup::"builtin" && resource in ToolGroup::"allowed"`: true,
		`resource in ToolGroup::"mcp"`:                                         false,
	} {
		text := `@id("a") permit (principal, action == Action::"tool.execute", resource) when { context has place && context has time && ` +
			when + ` };`
		if got := judgedBy(t, Config{Bundle: load(t, text)}, r); (got == palyra.Allow) != want {
			t.Errorf("%s: %s", when, got)
		}
	}
	e, err := New(Config{
		Bundle:   load(t, `@id("a") permit (principal, action, resource) when { resource in ToolGroup::"allowed" };`),
		Snapshot: palyra.Snapshot{AllowedTools: []string{"x"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Judge(t.Context(), mine); v.Effect != palyra.Deny {
		t.Error("a tool is on the allowlist by its name")
	}
}

func TestNowIsAskedOnlyWhereNobodySays(t *testing.T) {
	b := load(t, `@id("a") permit (principal, action, resource) when { context has time && context.time.hour == 9 };`)
	nine := func() time.Time { return time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC) }
	said := echo()
	said.At = nine().Add(time.Hour)
	for name, c := range map[string]struct {
		now  func() time.Time
		r    palyra.Request
		want palyra.Effect
	}{
		"now": {nine, echo(), palyra.Allow}, "said": {nine, said, palyra.Deny}, "never": {nil, echo(), palyra.Deny},
	} {
		if got := judgedBy(t, Config{Bundle: b, Now: c.now}, c.r); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Whatever the registry says, entities have the shape that the schema promises.
func TestStandingFitsTheSchema(t *testing.T) {
	b := defaults(t)
	roles := rapid.SliceOf(rapid.SampledFrom([]palyra.Role{palyra.RoleOwner, palyra.RoleAdmin, palyra.RoleViewer, palyra.RoleNode, "strange"}))
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		r.Standing = &palyra.Standing{Roles: roles.Draw(t, "roles"), Owner: roles.Draw(t, "owner"), Device: rapid.String().Draw(t, "device")}
		r.At = time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "at"), 0)
		r.Plan.Workspace.Path = rapid.String().Draw(t, "workspace")
		c, err := (&state{bundle: b}).newCall(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.world.own {
			if err := b.valid.Entity(e); err != nil {
				t.Fatalf("%s: %v", e.UID, err)
			}
		}
	})
}

// The rules about labels ask and let an answer pass; without the label, or with
// nothing to send, they say nothing.
func TestDefaultLabels(t *testing.T) {
	permits, err := Preset(DefaultPreset)
	if err != nil {
		t.Fatal(err)
	}
	permits["mine.cedar"] = `@id("mine") permit (principal, action in Action::"call", resource);` // an operator who permits all
	b, report := Check(permits)
	if b == nil {
		t.Fatal(report.Problems)
	}
	e := engine(t, b)
	fetch := builtin("palyra.http.fetch", acts(false, palyra.Network))
	fetch.Plan.Egress = []string{"a.example:443"}
	bound := fetch
	useSecrets(&bound, "npm")
	chat := builtin("palyra.channel.send", acts(false, palyra.ChannelSend))
	for name, c := range map[string]struct {
		r      palyra.Request
		labels []string
		want   string
	}{
		"send":                            {fetch, nil, ""},
		"send after a page":               {fetch, []string{palyra.LabelUntrusted, palyra.LabelSent}, ""},
		"send after a secret":             {fetch, []string{palyra.LabelSecret}, "send-after-secret-needs-approval"},
		"write after a secret":            {write("a.txt"), []string{palyra.LabelSecret, palyra.LabelUntrusted}, ""},
		"look after a secret":             {echo(), []string{palyra.LabelSecret, palyra.LabelUntrusted}, ""},
		"message after a page":            {chat, []string{palyra.LabelUntrusted}, "send-after-untrusted-input-needs-approval"},
		"send with a secret after a page": {bound, []string{palyra.LabelUntrusted}, "send-after-untrusted-input-needs-approval"},
		"send with a secret":              {bound, nil, ""},
	} {
		c.r.Labels = c.labels
		v := e.Judge(t.Context(), c.r)
		if c.want == "" && v.Effect != palyra.Allow || c.want != "" && (v.Effect != palyra.Ask || v.Need.Fresh || v.Policies[0].ID != c.want) {
			t.Errorf("%s: %s %+v", name, v.Effect, v.Policies)
		}
		c.r.Approval = &palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeSession}
		if v := e.Judge(t.Context(), c.r); v.Effect != palyra.Allow {
			t.Errorf("%s: an answer does not help: %+v", name, v)
		}
	}
}
