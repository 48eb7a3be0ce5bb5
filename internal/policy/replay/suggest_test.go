package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
	"palyra/internal/policy/tables"
)

// aProgram is a call of a program that Palyra understands and that writes, so that
// people are asked.
func aProgram(argv ...string) palyra.Request {
	caps := []palyra.Capability{palyra.ProcessExec}
	return palyra.Request{
		Principal: "agent:local", Owner: "user:ada", Session: "01SESSION", Surface: palyra.SurfaceMCP,
		Tool: palyra.Tool{Name: "palyra.process.run", Source: palyra.SourceBuiltin, Capabilities: caps, Workspace: true, Tier: palyra.TierC},
		Plan: palyra.Plan{
			Tool: "palyra.process.run", Capabilities: caps, Argv: argv, Executable: palyra.Executable{Path: "/usr/bin/" + argv[0]},
			Tier: palyra.TierC, Cwd: ".",
			Workspace: palyra.WorkspaceRef{Path: "/w", Known: true}, Enforcement: palyra.Enforcement{Mode: "strict"},
			Env: []palyra.EnvVar{{Name: "PATH"}, {Name: "HOME"}},
		},
	}
}

// suggestWords is an analysis that takes mkdir and touch for writes, git push for what
// cannot be taken back, and nothing else for understood.
func suggestWords(p palyra.Plan) palyra.Command {
	c := palyra.Command{Class: palyra.CommandUnknown, Programs: p.Argv[:1]}
	switch {
	case p.Argv[0] == "mkdir" || p.Argv[0] == "touch":
		c.Class, c.Understood = palyra.CommandWrite, true
	case p.Argv[0] == "git" && p.Argv[1] == "add":
		c.Class, c.Understood, c.Subcommand = palyra.CommandWrite, true, "add"
	case p.Argv[0] == "git":
		c.Class, c.Understood, c.Subcommand = palyra.CommandDestructive, true, p.Argv[1]
	}
	return c
}

// told is what came of calls: the default policies judged them first.
type told struct {
	t      *testing.T
	config policy.Config
	list   []Record
}

func newTold(t *testing.T) *told {
	t.Helper()
	return &told{t: t, config: policy.Config{Bundle: policytest.Defaults(t), Snapshot: policytest.Open(), Analyse: suggestWords}}
}

func (x *told) call(r palyra.Request, answer palyra.Answer) *Record {
	x.t.Helper()
	e, err := policy.New(x.config)
	if err != nil {
		x.t.Fatal(err)
	}
	one := Record{Call: palyra.CallID(fmt.Sprintf("CALL%d", len(x.list))), Request: r, Was: e.Judge(x.t.Context(), r), Answer: answer}
	if answer == palyra.AnswerAllow {
		one.Request.Approval = &palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeOnce, Fresh: true}
	}
	x.list = append(x.list, one)
	return &x.list[len(x.list)-1]
}

func (x *told) suggest(most int) Suggestion {
	x.t.Helper()
	s, err := Suggest(x.t.Context(), eachOf(x.list), x.config, tables.Failures, most, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return s
}

// with judges a request with a suggestion.
func (x *told) with(s Suggestion, r palyra.Request) palyra.Effect {
	x.t.Helper()
	b, report := policy.Check(s.Files)
	if b == nil {
		x.t.Fatal(report.Problems)
	}
	c := x.config
	c.Bundle = b
	e, err := policy.New(c)
	if err != nil {
		x.t.Fatal(err)
	}
	r.Approval = nil
	return e.Judge(x.t.Context(), r).Effect
}

// What was asked and allowed runs; everything beside it is asked as before.
func TestSuggestIsNarrow(t *testing.T) {
	x := newTold(t)
	for range 3 {
		x.call(aProgram("mkdir", "out"), palyra.AnswerAllow)
	}
	s := x.suggest(10)
	if len(s.Rules) != 1 || s.Rules[0].Saves != 3 || s.File != "suggested.cedar" || s.Report.Prompts != (Prompts{Before: 3, Saved: 3}) {
		t.Fatalf("%+v", s)
	}
	if s.Report.Transitions[2].Count != 3 || s.Report.Same != 0 || !slices.Equal(s.Rules[0].Calls,
		[]palyra.CallID{"CALL0", "CALL1", "CALL2"}) {
		t.Errorf("%+v", s.Report)
	}
	if got := x.with(s, aProgram("mkdir", "out")); got != palyra.Allow {
		t.Errorf("the same call: %s", got)
	}
	change := func(f func(*palyra.Request)) palyra.Request {
		r := aProgram("mkdir", "out")
		f(&r)
		return r
	}
	for name, r := range map[string]palyra.Request{
		"arguments":    aProgram("mkdir", "other"),
		"program":      aProgram("touch", "out"),
		"principal":    change(func(r *palyra.Request) { r.Principal = "agent:ci" }),
		"workspace":    change(func(r *palyra.Request) { r.Plan.Workspace.Path = "/other" }),
		"unregistered": change(func(r *palyra.Request) { r.Plan.Workspace.Known = false }),
		"directory":    change(func(r *palyra.Request) { r.Plan.Cwd = "sub" }),
		"tier":         change(func(r *palyra.Request) { r.Plan.Tier = palyra.TierBuiltin }),
		"network":      change(func(r *palyra.Request) { r.Plan.Enforcement.Mode = "none" }),
		"host":         change(func(r *palyra.Request) { r.Plan.Egress = []string{"a.example:443"} }),
		"secret":       change(func(r *palyra.Request) { r.Plan.Bindings = []string{"token"} }),
		"environment":  change(func(r *palyra.Request) { r.Plan.Env = []palyra.EnvVar{{Name: "LD_PRELOAD"}} }),
		"label":        change(func(r *palyra.Request) { r.Labels = []string{"secret-read"} }),
		"live input":   change(func(r *palyra.Request) { r.Plan.Stdin = palyra.StdinLive }),
		"profile":      change(func(r *palyra.Request) { r.Plan.Profile = "git" }),
		"profile asks": change(func(r *palyra.Request) { r.Plan.Asks = true }),
		"sockets":      change(func(r *palyra.Request) { r.Plan.UnixSockets = true }),
		"agent":        change(func(r *palyra.Request) { r.Plan.AgentSocket = true }),
		"child":        change(func(r *palyra.Request) { r.Parent = "01PARENT" }),
		"writes":       change(func(r *palyra.Request) { r.Plan.Writes = []string{"a"} }),
		"outside":      change(func(r *palyra.Request) { r.Plan.Writes = []string{"/etc/passwd"} }),
		"path":         change(func(r *palyra.Request) { r.Plan.Executable.Path = "/w/mkdir" }),
	} {
		if got := x.with(s, r); got == palyra.Allow {
			t.Errorf("another %s runs without a question", name)
		}
	}
}

// Several commands of one program make one rule, and it holds no word that nobody
// has seen.
func TestSuggestWidens(t *testing.T) {
	x := newTold(t)
	for i := range 4 {
		x.call(aProgram("git", "add", fmt.Sprint("f", i%2)), palyra.AnswerAllow)
	}
	x.call(aProgram("mkdir", "out"), palyra.AnswerAllow)
	s := x.suggest(1)
	if len(s.Rules) != 1 || s.Rules[0].Saves != 4 || !strings.Contains(s.Rules[0].Text, `context.subcommand == "add"`) {
		t.Fatalf("%+v", s)
	}
	if got := x.with(s, aProgram("git", "add", "f1", "f0")); got != palyra.Allow {
		t.Errorf("known words: %s", got)
	}
	if got := x.with(s, aProgram("git", "add", "f2")); got != palyra.Ask {
		t.Errorf("another file: %s", got)
	}
	if got := x.with(s, aProgram("git", "push")); got == palyra.Allow {
		t.Errorf("another subcommand: %s", got)
	}
	s = x.suggest(10)
	if len(s.Rules) != 2 || s.Rules[1].Saves != 1 || s.Report.Prompts.After != 0 {
		t.Errorf("%+v", s.Rules)
	}
}

func TestSuggestFiles(t *testing.T) {
	x := newTold(t)
	x.config.Bundle = policytest.Asking(t) // the default does not ask about these
	x.call(policytest.Write("a.txt"), palyra.AnswerAllow)
	x.call(policytest.Write("b.txt"), palyra.AnswerAllow)
	x.call(policytest.Write(".git/config"), palyra.AnswerAllow) // needs a fresh answer every time
	s := x.suggest(10)
	if len(s.Rules) != 1 || s.Rules[0].Saves != 2 {
		t.Fatalf("%+v", s.Rules)
	}
	for path, want := range map[string]palyra.Effect{
		"a.txt": palyra.Allow, "b.txt": palyra.Allow, "c.txt": palyra.Ask,
		".git/config": palyra.Ask, "../a.txt": palyra.Ask,
	} {
		if got := x.with(s, policytest.Write(path)); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// A yes to looking at a page is none to sending something there: policy sees how
// much is said, and no more than was seen is let through.
func TestSuggestSendsNoMore(t *testing.T) {
	x := newTold(t)
	page := func(arguments string) palyra.Request {
		r := fetched()
		r.Plan.Arguments = []byte(arguments)
		return r
	}
	x.call(page(`{"url":"https://a.example/"}`), palyra.AnswerAllow)
	x.call(page(`{"url":"https://a.example/docs"}`), palyra.AnswerAllow)
	s := x.suggest(10)
	if len(s.Rules) != 1 || s.Rules[0].Saves != 2 {
		t.Fatalf("%+v", s.Rules)
	}
	if got := x.with(s, page(`{"url":"https://a.example/x"}`)); got != palyra.Allow {
		t.Errorf("another page: %s", got)
	}
	if got := x.with(s, page(`{"url":"https://a.example/","method":"POST","body":"all of it"}`)); got != palyra.Ask {
		t.Errorf("something is sent: %s", got)
	}
}

// Nothing is suggested that would open what somebody denied, what nobody answered
// or what was never asked.
func TestSuggestOpensNothingElse(t *testing.T) {
	for name, f := range map[string]func(x *told){
		"denied by a person":   func(x *told) { x.call(aProgram("mkdir", "out"), palyra.AnswerDeny) },
		"not answered in time": func(x *told) { x.call(aProgram("mkdir", "out"), palyra.AnswerTimeout) },
		"withdrawn":            func(x *told) { x.call(aProgram("mkdir", "out"), palyra.AnswerError) },
		"still open":           func(x *told) { x.call(aProgram("mkdir", "out"), palyra.AnswerPending) },
		"denied by policy": func(x *told) {
			x.call(aProgram("mkdir", "out"), palyra.AnswerPending).Was.Effect = palyra.Deny
		},
		"ran under other policies": func(x *told) {
			x.call(aProgram("mkdir", "out"), palyra.AnswerPending).Was.Effect = palyra.Allow
		},
	} {
		x := newTold(t)
		for range 3 {
			x.call(aProgram("mkdir", "out"), palyra.AnswerAllow)
		}
		x.call(aProgram("mkdir", "two"), palyra.AnswerAllow)
		f(x)
		s := x.suggest(10)
		if len(s.Rules) != 1 || s.Rules[0].Saves != 1 || x.with(s, aProgram("mkdir", "out")) != palyra.Ask {
			t.Errorf("%s: %+v", name, s.Rules) // the other command can still be saved
		}
	}
}

// A wider rule that would open a denied call gives way to narrower ones.
func TestSuggestGoesAroundADenial(t *testing.T) {
	x := newTold(t)
	for _, dir := range []string{"a", "b"} {
		x.call(aProgram("mkdir", dir), palyra.AnswerAllow)
	}
	x.call(aProgram("mkdir", "a", "b"), palyra.AnswerDeny)
	s := x.suggest(10)
	if len(s.Rules) != 2 || x.with(s, aProgram("mkdir", "a", "b")) != palyra.Ask || x.with(s, aProgram("mkdir", "b")) != palyra.Allow {
		t.Errorf("%+v", s.Rules)
	}
}

// Calls that no rule may let run, however often people said yes.
func TestSuggestLeavesAlone(t *testing.T) {
	change := func(f func(*palyra.Request)) palyra.Request {
		r := aProgram("mkdir", "out")
		f(&r)
		return r
	}
	for name, r := range map[string]palyra.Request{
		"destructive":    aProgram("git", "push"),
		"not understood": aProgram("strange", "x"),
		"unregistered":   change(func(r *palyra.Request) { r.Plan.Workspace.Known = false }),
		"secret":         change(func(r *palyra.Request) { r.Plan.Bindings = []string{"token"} }),
		"live input":     change(func(r *palyra.Request) { r.Plan.Stdin = palyra.StdinLive }),
		"terminal":       change(func(r *palyra.Request) { r.Plan.Terminal = true }),
		"child":          change(func(r *palyra.Request) { r.Parent = "01PARENT" }),
		"another source": change(func(r *palyra.Request) { r.Tool.Source = palyra.SourceMCP }),
		"sealed path":    policytest.Write(".git/hooks/x"),
		"channel":        change(func(r *palyra.Request) { r.Tool.Capabilities = append(r.Tool.Capabilities, palyra.ChannelSend) }),
	} {
		x := newTold(t)
		for range 5 {
			x.call(r, palyra.AnswerAllow)
		}
		if s := x.suggest(10); len(s.Rules) != 0 || s.Files != nil || s.Report.Records != 5 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// More than a plain yes was wanted on purpose.
func TestSuggestLeavesStricterQuestions(t *testing.T) {
	for _, demand := range []string{"votes >= 2", "other_person", "device", "separation >= 1", "fresh"} {
		x := newTold(t)
		x.config.Bundle = policytest.Load(t,
			`@id("a") permit (principal, action in Action::"call", resource) when { context.approval.granted && context.approval.`+demand+` };`)
		for range 3 {
			x.call(aProgram("mkdir", "out"), palyra.AnswerAllow)
		}
		if s := x.suggest(10); len(s.Rules) != 0 {
			t.Errorf("%s: %+v", demand, s.Rules)
		}
	}
}

// A forbid is not argued with, and a test of the bundle not contradicted.
func TestSuggestKeepsTheBundle(t *testing.T) {
	files := policytest.Defaults(t).Files()
	files["no.cedar"] = `@id("no-mkdir") forbid (principal, action in Action::"call", resource) when { context.argv.contains("mkdir") } unless { context.approval.granted };`
	files["tests/own.yaml"] = "tests:\n  - name: touching a is asked about\n    request: {argv: [touch, a], workspace: known, tier: " +
		"C}\n    expect: ask\n"
	b, report := policy.Check(files)
	if b == nil {
		t.Fatal(report.Problems)
	}
	x := newTold(t)
	x.config.Bundle = b
	for range 3 {
		x.call(aProgram("mkdir", "out"), palyra.AnswerAllow)
		x.call(aProgram("git", "add", "x"), palyra.AnswerAllow)
	}
	s := x.suggest(10)
	if len(s.Rules) != 1 || !strings.Contains(s.Rules[0].Text, "git") {
		t.Fatalf("%+v", s.Rules)
	}
	for name, text := range files {
		if s.Files[name] != text {
			t.Errorf("%s is another", name)
		}
	}
	if len(s.Files) != len(b.Files())+1 {
		t.Errorf("%d files", len(s.Files))
	}
}

func TestSuggestHeedsTests(t *testing.T) {
	files := policytest.Asking(t).Files()
	delete(files, "tests/preset.yaml") // of commands, which nobody reads here
	files["tests/own.yaml"] = "tests:\n  - name: writing a.txt is asked about\n    request: {principal: agent:local, tool: " +
		"palyra.fs.write, writes: [a.txt], workspace: {path: /w}}\n    expect: ask\n"
	b, report := policy.Check(files)
	if b == nil {
		t.Fatal(report.Problems)
	}
	x := newTold(t)
	x.config.Bundle = b
	if bad := (&suggest{config: x.config, tests: tables.Failures}).failures(t.Context(), nil); len(bad) != 0 {
		t.Fatalf("%v", bad)
	}
	for _, path := range []string{"a.txt", "b.txt"} {
		r := policytest.Write(path)
		r.Plan.Cwd = "/w"
		x.call(r, palyra.AnswerAllow)
	}
	s := x.suggest(10)
	if len(s.Rules) != 1 || strings.Contains(s.Rules[0].Text, "a.txt") || !strings.Contains(s.Rules[0].Text, "b.txt") {
		t.Errorf("%+v", s.Rules)
	}
}

// What an earlier suggestion has put into force is not suggested again, and its
// file not written over.
func TestSuggestAgain(t *testing.T) {
	x := newTold(t)
	x.call(aProgram("mkdir", "out"), palyra.AnswerAllow)
	first := x.suggest(10)
	b, report := policy.Check(first.Files)
	if b == nil {
		t.Fatal(report.Problems)
	}
	x.config.Bundle = b
	if s := x.suggest(10); len(s.Rules) != 0 {
		t.Fatalf("%+v", s.Rules)
	}
	x.call(aProgram("touch", "a"), palyra.AnswerAllow)
	s := x.suggest(10)
	if len(s.Rules) != 1 || s.File != "suggested-2.cedar" || s.Files["suggested.cedar"] != first.Files["suggested.cedar"] {
		t.Errorf("%+v", s)
	}
}

// Hostile words stay words.
func TestSuggestQuotes(t *testing.T) {
	x := newTold(t)
	for _, word := range []string{`"; permit (principal, action, resource); //`, "a\nb\x00\x1b", `\"`, "ü€\u202e", "*", "${x}"} {
		x.call(aProgram("mkdir", word), palyra.AnswerAllow)
		r := aProgram("mkdir", "x")
		r.Plan.Workspace.Path = "/w/" + word
		x.call(r, palyra.AnswerAllow)
	}
	s := x.suggest(100)
	b, report := policy.Check(s.Files)
	if b == nil {
		t.Fatal(report.Problems)
	}
	if len(b.Policies()) != len(policytest.Defaults(t).Policies())+len(s.Rules) || s.Report.Prompts.After != 0 || s.Report.Failing != 0 {
		t.Errorf("%d rules, %d suggested, %+v", len(b.Policies()), len(s.Rules), s.Report.Prompts)
	}
	if got := x.with(s, aProgram("touch", "x")); got != palyra.Ask {
		t.Error(got)
	}
}

func TestSuggestIsDeterministicAndBounded(t *testing.T) {
	x := newTold(t)
	for i := range 100 {
		x.call(aProgram("mkdir", fmt.Sprint("d", i)), palyra.AnswerAllow)
		x.call(aProgram("touch", fmt.Sprint("t", i%7)), palyra.AnswerAllow)
		x.list = append(x.list, Record{Call: "GAP", Gap: "lost"})
	}
	var first string
	for range 3 {
		raw, err := json.Marshal(x.suggest(5))
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(raw)
		}
		if string(raw) != first {
			t.Fatal("two suggestions differ")
		}
	}
	s := x.suggest(5)
	if len(s.Rules) != 5 || s.Rules[0].Saves != 100 || s.Report.Unreplayable != 100 || len(s.Rules[0].Calls) != suggestNamed {
		t.Errorf("%d rules, %+v", len(s.Rules), s.Rules[0])
	}
	for _, r := range s.Rules[1:] {
		if r.Saves != 1 { // 100 names are no few words
			t.Errorf("%+v", r)
		}
	}
}

// Who was not disturbed is saved nothing.
func TestSuggestCountsPeople(t *testing.T) {
	x := newTold(t)
	x.call(aProgram("mkdir", "out"), palyra.AnswerAllow)
	x.call(aProgram("mkdir", "out"), palyra.AnswerAllow).Joined = true
	x.call(aProgram("mkdir", "out"), palyra.AnswerAllow).Request.Approval = &palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeSession}
	if s := x.suggest(10); len(s.Rules) != 1 || s.Rules[0].Saves != 1 || s.Report.Prompts != (Prompts{Before: 1, Saved: 1}) {
		t.Errorf("%+v", s)
	}
}

func TestSuggestStops(t *testing.T) {
	x := newTold(t)
	for range 3 {
		x.call(aProgram("mkdir", "out"), palyra.AnswerAllow)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Suggest(ctx, eachOf(x.list), x.config, tables.Failures, 1, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	broken := errors.New("broken")
	if _, err := Suggest(t.Context(), func(func(Lot) error) error { return broken }, x.config, tables.Failures, 1, nil); !errors.Is(err,
		broken) {
		t.Error(err)
	}
	for _, c := range []struct {
		each Records
		c    policy.Config
		most int
	}{{nil, x.config, 1}, {eachOf(nil), policy.Config{}, 1}, {eachOf(nil), x.config, 0}} {
		if _, err := Suggest(t.Context(), c.each, c.c, tables.Failures, c.most, nil); palyra.CodeOf(err) != palyra.Invalid {
			t.Error(err)
		}
	}
}

// What runs had changed is judged again beside the calls, and no rule is made of answers about it.
func TestWhatRunsChangedIsReplayed(t *testing.T) {
	x := newTold(t)
	many := &palyra.EffectFacts{Removed: 30, RemovedFiles: 30, Share: -1}
	staged := func(argv ...string) palyra.Request {
		r := aProgram(argv...)
		r.Plan.Staging.Writes = palyra.WritesStaged
		return r
	}
	call := staged("mkdir", "out")
	did := call
	did.Effects = many
	x.call(call, palyra.AnswerPending)
	x.call(did, palyra.AnswerAllow)
	if w := x.list; w[0].Was.Effect != palyra.Allow || w[1].Was.Effect != palyra.Ask {
		t.Fatalf("%s, %s", w[0].Was.Effect, w[1].Was.Effect)
	}
	if s := x.suggest(10); len(s.Rules) != 0 || s.Report.Records != 1 {
		t.Errorf("%+v of %d", s.Rules, s.Report.Records)
	}
	candidate := policy.Config{Bundle: policytest.Load(t, policytest.PermitAll), Snapshot: policytest.Open(), Analyse: suggestWords}
	e, err := policy.New(candidate)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), eachOf(x.list), e, nil)
	if err != nil || r.Records != 2 || r.Prompts.Before != 1 || r.Prompts.After != 0 || r.Prompts.Saved != 1 {
		t.Errorf("%+v, %v", r.Prompts, err)
	}
	candidate.Analyse = func(palyra.Plan) palyra.Command {
		return palyra.Command{Class: palyra.CommandReadOnly, Understood: true}
	}
	if e, err = policy.New(candidate); err != nil {
		t.Fatal(err)
	}
	r, err = Run(t.Context(), eachOf(x.list[1:]), e, nil)
	if err != nil || r.Same != 1 || r.Prompts.Saved != 0 {
		t.Errorf("of a look: %+v, %v", r, err)
	}
}
