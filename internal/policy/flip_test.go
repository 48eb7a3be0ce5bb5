package policy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra/internal/policy/risk"

	"github.com/cedar-policy/cedar-go"
	"pgregory.net/rapid"

	"palyra"
)

// applied does what a flip says, by its change alone: settings and the workspace's
// registration to the request's world, policies to the files, which are then read
// as a bundle that somebody wants to put into force.
func applied(t interface {
	Helper()
	Fatalf(string, ...any)
}, c Config, r palyra.Request, f Flip,
) (Config, palyra.Request) {
	t.Helper()
	files := c.Bundle.Files()
	var policies []string
	for line := range strings.SplitSeq(f.Change, "\n") {
		setting, value, isSetting := strings.Cut(line, " = ")
		lists := map[string]*[]string{
			"tools.allowed": &c.Snapshot.AllowedTools, "tools.tool_execute_principals": &c.Snapshot.Principals,
			"tools.tool_execute_surfaces": &c.Snapshot.Channels,
		}
		switch {
		case strings.HasPrefix(line, "palyra workspace add "):
			r.Plan.Workspace.Known = true
		case isSetting && lists[setting] != nil:
			*lists[setting] = nil
			if err := json.Unmarshal([]byte(value), lists[setting]); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		default:
			policies = append(policies, line)
		}
	}
	text := strings.Join(policies, "\n")
	list, err := cedar.NewPolicyListFromBytes("x", []byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	places, _ := scan(text)
	for i, p := range list {
		put(files, string(p.Annotations()["id"]), text[places[i].offset:places[i].end])
	}
	b, report := Check(files)
	if b == nil {
		t.Fatalf("%v\n%s", report.Problems, text)
	}
	c.Bundle = b
	return c, r
}

// put replaces the policy of that id, or adds it.
func put(files map[string]string, id, text string) {
	for name, old := range files {
		places, _ := scan(old)
		for _, s := range places {
			if strings.HasSuffix(name, cedarSuffix) && strings.Contains(old[s.offset:s.end], `@id("`+id+`")`) {
				files[name] = old[:s.offset] + text + old[s.end:]
				return
			}
		}
	}
	files["added.cedar"] += text + "\n"
}

// facts is an approval that meets a need and no more.
func facts(n palyra.Need) *palyra.ApprovalFacts {
	return &palyra.ApprovalFacts{
		Votes: n.Votes, OtherPerson: n.OtherPerson, Device: n.Device, Separation: n.Separation, Scope: palyra.ScopeOnce, Fresh: true,
	}
}

// Whatever is said to turn an answer turns it, to what was said, when it is done
// with the files themselves.
func TestFlipsFlip(t *testing.T) {
	bundles := map[string]*Bundle{}
	for _, name := range Presets() {
		bundles[name] = bundleOf(t, name)
	}
	bundles["broken"] = load(t, permitAll+`@id("b") @reason("x") forbid (principal, action in Action::"call", resource) when { `+
		overflow("true")+` };`)
	bundles["no"] = load(t, `@id("n") forbid (principal, action, resource); @id("never") forbid (principal, action in Action::"call", resource) when { context.tier != "x" };`)
	seen, unturned := map[string]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.SampledFrom(classes).Draw(t, "class")
		name := rapid.SampledFrom(append(Presets(), "broken", "no")).Draw(t, "bundle")
		c := Config{
			Bundle: bundles[name], Analyse: func(palyra.Plan) palyra.Command { return understood(class) },
			Snapshot: palyra.Snapshot{
				AllowedTools: []string{"palyra.*"}, Principals: rapid.SampledFrom([][]string{{"*"}, {"user:*"}}).Draw(t, "who"),
				Channels: rapid.SampledFrom([][]string{{"*"}, {"cli"}}).Draw(t, "surfaces"),
			},
		}
		r := anyRequest(t)
		e, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		x := e.Why(t.Context(), r)
		if x.Verdict == palyra.Allow && len(x.Flips) > 0 {
			t.Fatal("an allow was turned")
		}
		if x.Verdict != palyra.Allow && len(x.Flips) == 0 {
			unturned++
		}
		for _, f := range x.Flips {
			seen[name]++
			seen[f.Kind]++
			check(t, c, r, x, f)
		}
	})
	if unturned > 0 {
		t.Errorf("%d refusals without a way out", unturned)
	}
	for _, want := range []string{"default", "strict", "ci", "readonly", "broken", "no", flipAnswer, flipConfig, flipPolicy} {
		if seen[want] == 0 {
			t.Errorf("no flip of %q in %v", want, seen)
		}
	}
}

func check(t *rapid.T, c Config, r palyra.Request, x Explanation, f Flip) {
	if !f.Verified || f.Becomes <= x.Verdict || f.Text == "" {
		t.Fatalf("%+v", f)
	}
	if f.Kind == flipAnswer {
		r.Approval = facts(x.Need)
	} else {
		c, r = applied(t, c, r, f)
	}
	other, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if v := other.Judge(context.Background(), r); v.Effect != f.Becomes {
		t.Fatalf("%s, not %s: %s %v\n%+v", v.Effect, f.Becomes, v.Reason, v.Errors, f)
	}
}

// What a flip permits is this call and no other.
func TestFlipsAreNarrow(t *testing.T) {
	c := Config{Bundle: bundleOf(t, "ci"), Snapshot: open(), Analyse: func(
		palyra.Plan,
	) palyra.Command {
		return palyra.Command{Class: palyra.CommandUnknown}
	}}
	r := program("curl", "-o", "x", "a b")
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	x := e.Why(t.Context(), r)
	if x.Verdict != palyra.Deny || len(x.Flips) != 1 || x.Flips[0].Kind != flipPolicy || x.Flips[0].Becomes != palyra.Allow {
		t.Fatalf("%+v", x)
	}
	if !strings.Contains(x.Remedy, strings.ReplaceAll(x.Flips[0].Change, "\n", " ")) {
		t.Errorf("the refusal says\n%s\nand the flip\n%s", x.Remedy, x.Flips[0].Change)
	}
	c, r = applied(t, c, r, x.Flips[0])
	other, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*palyra.Request){
		"other words":     func(r *palyra.Request) { r.Plan.Argv = []string{"curl", "-o", "x", "a", "b"} },
		"other program":   func(r *palyra.Request) { r.Plan.Executable.Path = "/w/curl" },
		"other workspace": func(r *palyra.Request) { r.Plan.Workspace.Path = "/v" },
		"other tier":      func(r *palyra.Request) { r.Plan.Tier = palyra.TierB },
		"other agent":     func(r *palyra.Request) { r.Principal = "agent:other" },
		"a host":          func(r *palyra.Request) { r.Plan.Egress = []string{"example.com:443"} },
		"a secret":        func(r *palyra.Request) { useSecrets(r, "github") },
		"live input":      func(r *palyra.Request) { r.Plan.Stdin = palyra.StdinLive },
		"a write":         func(r *palyra.Request) { r.Plan.Writes = []string{"a"} },
		"sockets":         func(r *palyra.Request) { r.Plan.UnixSockets = true },
		"an agent":        func(r *palyra.Request) { r.Plan.AgentSocket = true },
		"a question":      func(r *palyra.Request) { r.Plan.Asks = true },
		"another profile": func(r *palyra.Request) { r.Plan.Profile = "git-setup" },
		"elsewhere":       func(r *palyra.Request) { r.Plan.Cwd = "/w/other" },
		"any host":        func(r *palyra.Request) { r.Plan.Enforcement.Mode = "none" },
		"a variable": func(r *palyra.Request) {
			r.Plan.Env = append(slices.Clone(r.Plan.Env), palyra.EnvVar{Name: "LD_PRELOAD", Value: "/w/x.so"})
		},
	} {
		one := r
		change(&one)
		if v := other.Judge(t.Context(), one); v.Effect != palyra.Deny {
			t.Errorf("%s: %s", name, v.Effect)
		}
	}
}

// Policy does not see what a program reads or the values of its variables. A permit
// for `python3 -` runs whatever is fed to it, so nobody is told to make one in place
// of an answer, and where there is no other way it is said.
func TestFlipsOfWhatPolicyDoesNotSee(t *testing.T) {
	for name, change := range map[string]func(*palyra.Request){
		"input":     func(r *palyra.Request) { r.Plan.Stdin = string(palyra.SumBytes([]byte("print(1)"))) },
		"variables": func(r *palyra.Request) { r.Plan.Arguments = []byte(`{"command":"python3","env":{"PYTHONPATH":"x"}}`) },
		"unread":    func(r *palyra.Request) { r.Plan.Arguments = []byte(`null and void`) },
	} {
		r := program("python3", "-")
		change(&r)
		asked := engineOf(t, "default", palyra.Command{Class: palyra.CommandUnknown, RunsCode: true}).Why(t.Context(), r)
		if asked.Verdict != palyra.Ask || len(asked.Flips) != 1 || asked.Flips[0].Kind != flipAnswer {
			t.Errorf("%s: %s %+v", name, asked.Verdict, asked.Flips)
		}
		denied := engineOf(t, "ci", palyra.Command{}).Why(t.Context(), r)
		if denied.Verdict != palyra.Deny || len(denied.Flips) != 1 || !strings.Contains(denied.Flips[0].Text, "any input") ||
			!strings.Contains(denied.Remedy, "any input") {
			t.Errorf("%s: %s %q %+v", name, denied.Verdict, denied.Remedy, denied.Flips)
		}
	}
	plain := engineOf(t, "default", palyra.Command{Class: palyra.CommandUnknown, RunsCode: true}).Why(t.Context(), program("python3", "a.py"))
	if len(plain.Flips) != 2 || plain.Flips[1].Kind != flipPolicy || strings.Contains(plain.Flips[1].Text, "any input") {
		t.Errorf("%+v", plain.Flips)
	}
}

// A name that ends in a star would be a beginning in the lists of the configuration,
// and let others in.
func TestFlipsNameNoBeginnings(t *testing.T) {
	e, err := New(Config{Bundle: bundleOf(t, "default"), Snapshot: palyra.Snapshot{
		AllowedTools: []string{"palyra.*"},
		Principals:   []string{"user:*"}, Channels: []string{"*"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := write("a.txt")
	r.Principal = "agent:a*"
	for _, f := range e.Why(t.Context(), r).Flips {
		if strings.Contains(f.Change, "agent:a*") {
			t.Errorf("%+v", f)
		}
	}
}

// Where an answer must be a new one nobody is told how to be asked no more.
func TestFlipsRespectFreshAnswers(t *testing.T) {
	for name, e := range map[string]*Engine{
		"destructive": engineOf(t, "default", palyra.Command{Class: palyra.CommandDestructive, Understood: true}),
		"strict":      engineOf(t, "strict", understood(palyra.CommandWrite)),
		"fresh only":  engine(t, permitWhen(t, "context.approval.fresh")),
	} {
		x := e.Why(t.Context(), program("git", "push"))
		if x.Verdict != palyra.Ask || len(x.Flips) != 1 || x.Flips[0].Kind != flipAnswer {
			t.Errorf("%s: %s %+v", name, x.Verdict, x.Flips)
		}
	}
}

// An answer that did not suffice is told apart from the one that does.
func TestFlipsOfAnAnswer(t *testing.T) {
	e := engine(t, permitWhen(t, "context.approval.votes > 2"))
	r := write("a.txt")
	r.Approval = meets(palyra.Need{Votes: 1})
	x := e.Why(t.Context(), r)
	if x.Verdict != palyra.Deny || len(x.Flips) == 0 || x.Flips[0].Kind != flipAnswer || x.Flips[0].Text != "an approval by 3 people" {
		t.Errorf("%s %+v", x.Verdict, x.Flips)
	}
}

// A workspace's own forbid is told apart from the bundle's, and the change is to
// its file.
func TestFlipsOfAProject(t *testing.T) {
	own, err := LoadProject(dir(`@id("mine") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.fs.write");`), nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Bundle: load(t, permitAll), Snapshot: open(), Project: func(string, ...string) (*Bundle, error) { return own, nil }})
	if err != nil {
		t.Fatal(err)
	}
	x := e.Why(t.Context(), write("a.txt"))
	if len(x.Flips) != 1 || !strings.Contains(x.Flips[0].Text, ProjectDir+"/a.cedar:1") || x.Flips[0].Becomes != palyra.Allow ||
		!strings.Contains(x.Flips[0].Change, `@id("mine")`) {
		t.Errorf("%+v", x.Flips)
	}
}

func TestScopeEnd(t *testing.T) {
	for _, c := range []struct{ policy, want string }{
		{`permit (principal, action, resource);`, `permit (principal, action, resource)`},
		{
			`@id("a") @permit("(") /* forbid ( */ forbid // )` + "\n" + `(principal in Role::")", action, resource) when { (true) };`,
			`@id("a") @permit("(") /* forbid ( */ forbid // )` + "\n" + `(principal in Role::")", action, resource)`,
		},
		{`nothing`, `nothing`},
		{`@forbid`, `@forbid`},
		{``, ``},
	} {
		if got := c.policy[:scopeEnd(c.policy)]; got != c.want {
			t.Errorf("%q", got)
		}
	}
}

// The search ends, whoever gives up on it and however large the bundle is.
func TestFlipsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if x := engineOf(t, "ci", palyra.Command{}).Why(ctx, program("x")); x.Verdict != palyra.Deny || len(x.Flips) != 0 || x.Remedy == "" {
		t.Errorf("%+v", x)
	}
	e := engine(t, grown(t, 2000))
	s := search{ctx: t.Context(), from: trial{e.live.Load(), write("a.txt")}, was: palyra.Allow}
	many := make([]change, 16)
	for i := range many {
		many[i] = change{kind: flipConfig, apply: func(*trial) {}}
	}
	if found := s.tryCombinations(many); found != nil || s.tries < maxTrials {
		t.Errorf("%v after %d", found, s.tries)
	}
}

func TestFlipsOfLongCalls(t *testing.T) {
	r := program("x", strings.Repeat("y", 4000))
	x := engineOf(t, "ci", palyra.Command{}).Why(t.Context(), r)
	if strings.Contains(x.Remedy, "yyy") || !strings.Contains(x.Remedy, "policy why") || len(x.Flips) != 1 ||
		!strings.Contains(x.Flips[0].Change, "yyy") {
		t.Errorf("%+v", x)
	}
}

// A workspace that is not registered is the one thing in the way.
func TestFlipsOfAWorkspace(t *testing.T) {
	r := program("ls")
	r.Plan.Workspace = palyra.WorkspaceRef{Path: "/it's here"}
	x := engineOf(t, "default", understood(palyra.CommandReadOnly)).Why(t.Context(), r)
	if len(x.Flips) != 2 || x.Flips[0].Kind != flipAnswer || x.Flips[1].Kind != flipWorkspace ||
		x.Flips[1].Change != `palyra workspace add '/it'\''s here'` || x.Flips[1].Becomes != palyra.Allow {
		t.Errorf("%+v", x.Flips)
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"/a/b-c": "/a/b-c", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'"} {
		if got := risk.ShellWord(in); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}
