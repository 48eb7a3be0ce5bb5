package tables

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
)

// tablePolicies say something about most of what a table can write.
const tablePolicies = `
@id("reads") permit (principal, action == Action::"tool.execute", resource)
when { context.read_only && resource.source == "builtin" };
@id("new-asks") forbid (principal, action, resource) when { context has workspace_known && context.workspace_needed && !context.workspace_known } unless { context.approval.granted };
@id("program") permit (principal, action, resource == Tool::"palyra.process.run") when { context.approval.granted };
@id("write") permit (principal, action, resource == Tool::"palyra.fs.write") when { context.approval.granted };
@id("hooks") forbid (principal, action in Action::"call", resource) when { context.destructive }
unless { context.approval.votes >= 2 && context.approval.other_person && context.approval.fresh };
@id("fetch") permit (principal, action, resource == Tool::"palyra.http.fetch") when { context.approval.granted };
@id("never") forbid (principal, action in Action::"call", resource) when { context.capabilities.contains("network") };
@id("listed") forbid (principal, action in Action::"call", resource) unless { resource in ToolGroup::"allowed" };
@id("tried") forbid (principal, action in Action::"call", resource) when { context.tier == "C" && !context.probed };
@id("zero") forbid (principal, action in Action::"call", resource)
when { context has executable && context.executable.digest == "sha256:0000000000000000000000000000000000000000000000000000000000000000"
  && context.cwd == "/workspace" && context.mechanisms.contains("seccomp") && context.calls_used == 3 };
`

func tableOf(test string) map[string]string {
	return map[string]string{"tests/a.yaml": "tests:\n" + test}
}

// tabled reads the one test of a table that must be good.
func tabled(t *testing.T, request string) tableTest {
	t.Helper()
	read, faults := readTable("tests/a.yaml", "tests:\n- {name: a, expect: deny, request: "+request+"}\n", policytest.Load(t, tablePolicies))
	if len(faults) > 0 {
		t.Fatalf("%s: %v", request, faults)
	}
	return read.tests[0]
}

// judged runs tables with a bundle and a configuration.
func judged(ctx context.Context, b *policy.Bundle, base palyra.Snapshot, files map[string]string) ([]Result, []policy.Problem) {
	return Run(ctx, policy.Config{Bundle: b, Snapshot: base}, files)
}

// loaded is the bundle that most tables are judged with.
func loaded(t *testing.T) *policy.Bundle {
	t.Helper()
	return policytest.Load(t, tablePolicies)
}

func TestTableGood(t *testing.T) {
	text, err := os.ReadFile("testdata/tables/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := policytest.Load(t, tablePolicies)
	files := map[string]string{
		"tests/good.yaml": string(text), "a.cedar": tablePolicies, "tests/deep/x.yaml": "?", "tests/x.txt": "?",
		"x.yaml": "?",
	}
	results, problems := judged(t.Context(), b, policytest.Open(), files)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if len(results) != strings.Count(string(text), "- name:") {
		t.Fatalf("%d results", len(results))
	}
	lines := strings.Split(string(text), "\n")
	for _, r := range results {
		if !r.OK || r.Text != "" || r.File != "tests/good.yaml" {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(lines[r.Line-1], r.Name) {
			t.Errorf("%s is not in line %d", r.Name, r.Line)
		}
	}
}

// A test that expects anything else than what policy says fails, and says why.
func TestTableFails(t *testing.T) {
	b := policytest.Load(t, tablePolicies)
	for _, c := range []struct{ request, expect, want string }{
		{"{tool: palyra.fs.read}", "deny", "expected deny, got allow; decided by reads"},
		{"{tool: palyra.fs.read}", "ask", "expected ask, got allow"},
		{"{argv: [ls]}", "allow", "expected allow, got ask"},
		{"{argv: [ls]}", "{verdict: ask, need: {votes: 2}}", "expected need.votes 2, got 1"},
		{"{argv: [ls]}", "{verdict: ask, need: {fresh: true}}", "expected need.fresh true, got false"},
		{"{argv: [ls]}", "{verdict: ask, need: {separation: device}}", "expected need.separation device, got none"},
		{"{argv: [ls]}", "{verdict: ask, policies: [reads]}", "policy reads did not decide"},
		{"{argv: [ls]}", "{verdict: ask, not_policies: [program]}", "policy program decided"},
		{"{tool: palyra.device.pair}", "allow", "no policy decided: no policy permits tool.execute"},
	} {
		results, problems := judged(t.Context(), b, policytest.Open(), tableOf("- {name: a, request: "+c.request+", expect: "+c.expect+"}\n"))
		if len(problems) > 0 || len(results) != 1 || results[0].OK || !strings.Contains(results[0].Text, c.want) {
			t.Errorf("%s expects %s: %+v %v", c.request, c.expect, results, problems)
		}
	}
}

// A deny that comes from a failing policy proves nothing.
func TestTableFailsOnErrors(t *testing.T) {
	b := policytest.Load(t, `@id("a") permit (principal, action, resource); @id("overflow") forbid (principal, action in Action::"call", resource)
when { context.calls_used + 9223372036854775807 > 0 };`)
	results, problems := judged(t.Context(), b, policytest.Open(), tableOf(
		"- {name: a, request: {tool: palyra.echo, calls_used: 1}, expect: deny}\n"))
	if len(problems) > 0 || len(results) != 1 || results[0].OK || !strings.Contains(results[0].Text, "could not be evaluated") {
		t.Fatalf("%+v %v", results, problems)
	}
}

func TestTableFaults(t *testing.T) {
	b := policytest.Load(t, tablePolicies)
	head := "tests:\n- name: a\n  expect: deny\n  request: "
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "1:1: the file is empty"},
		"comment only":      {"# x\n", "1:1: the file is empty"},
		"not YAML":          {"tests:\n\t- x", "2:1: "},
		"two documents":     {"tests: []\n---\ntests: []\n", "second document"},
		"a list":            {"- a\n", "1:1: the file must be a mapping"},
		"unknown key":       {"tests: []\nextra: 1\n", `2:1: the file has no key "extra"; it has config, tests`},
		"no tests":          {"config: {}\n", `1:1: the file needs the key "tests"`},
		"empty tests":       {"tests: []\n", "1:8: tests must be a list of 1 to 2000 tests"},
		"key twice":         {"tests: []\ntests: []\n", `2:1: the key "tests" is there twice`},
		"anchor":            {"tests: &a []\n", "1:8: anchors and aliases are not used here"},
		"alias":             {"config: {allowed_tools: &x [a]}\ntests: *x\n", "2:8: anchors and aliases"},
		"merge":             {head + "{<<: {tool: palyra.echo}}", "a key must be a word"},
		"tag":               {head + "{tool: !!str palyra.echo}", "4:19: tags are not used here"},
		"binary":            {head + "{tool: !!binary aGk=}", "tags are not used here"},
		"NUL":               {head + `{argv: ["a\0"]}`, "4:20: a NUL is in it"},
		"deep":              {head + many(20, "[") + many(20, "]"), "nested more than 16 deep"},
		"long":              {head + "{argv: [" + many(maxTableWord+1, "x") + "]}", "4:20: longer than"},
		"large":             {many(maxTable+1, "#"), "larger than"},
		"not UTF-8":         {"tests: \xff", "1:1: not valid UTF-8"},
		"no request":        {"tests: [{name: a, expect: deny}]", `1:9: a test needs the key "request"`},
		"no expect":         {"tests: [{name: a, request: {tool: palyra.echo}}]", `a test needs the key "expect"`},
		"no name":           {"tests: [{expect: deny, request: {tool: palyra.echo}}]", `a test needs the key "name"`},
		"a name that hides": {"tests: [{name: \"a\\u202eb\", expect: deny, request: {tool: palyra.echo}}]", "1:16: a name is printable text"},
		"names twice":       {"tests:\n- &x {name: a}", "anchors"},
		"same name": {
			head + "{tool: palyra.echo}\n- {name: a, expect: deny, request: {tool: palyra.echo}}",
			`5:3: there is another test named "a"`,
		},
		"empty request":  {head + "{}", "4:12: a request needs a tool, argv or script"},
		"former key too": {head + "{argv: [a], surface: api, door: cli}", `a request says surface twice`},
		"former list too": {
			"config: {tool_execute_channels: [], tool_execute_surfaces: []}\n" + head + "{argv: [a]}",
			`config says tool_execute_surfaces twice`,
		},
		"request key":       {head + "{tol: x}", `4:13: a request has no key "tol"`},
		"unknown tool":      {head + "{tool: nope}", `4:19: "nope" is no tool of Palyra's own`},
		"own tool anew":     {head + "{tool: {name: palyra.echo, capabilities: []}}", "is Palyra's own tool"},
		"tool without caps": {head + "{tool: {name: x}}", `tool needs the key "capabilities"`},
		"unknown cap":       {head + "{tool: {name: x, capabilities: [netwrok]}}", "4:44: must be one of artifacts_read, browser"},
		"caps no list":      {head + "{tool: {name: x, capabilities: network}}", "must be a list"},
		"source":            {head + "{tool: {name: x, capabilities: [], source: web}}", "must be one of agent, builtin, mcp, skill"},
		"principal":         {head + "{tool: palyra.echo, principal: bob}", "4:43: must be a principal"},
		"owner":             {head + "{tool: palyra.echo, owner: 'user:'}", "must be a principal"},
		"door":              {head + "{tool: palyra.echo, door: window}", "must be one of acp, api, cli, cron, hook, mcp"},
		"tier":              {head + "{argv: [a], tier: D}", "must be one of A, B, C, builtin, node"},
		"tier list":         {head + "{argv: [a], tier: [C]}", "must be one of"},
		"network":           {head + "{argv: [a], network: open}", "must be one of none, preflight, strict"},
		"host":              {head + "{argv: [a], egress: ['x.example:1', 'x.example']}", "4:48: must be host:port"},
		"hosts":             {head + "{argv: [a], egress: x}", "must be a list"},
		"null":              {head + "{argv: [a, ~]}", "4:23: must be a word"},
		"null word":         {head + "{tool: palyra.echo, profile: }", "must be a word"},
		"no program":        {head + "{argv: []}", "4:19: argv needs at least the program"},
		"both":              {head + "{argv: [a], script: a}", "4:32: give argv or script, not both"},
		"shebang":           {head + "{script: '#!/usr/bin/perl'}", "a script is for sh"},
		"argv of echo":      {head + "{tool: palyra.echo, argv: [a]}", "palyra.echo runs no program"},
		"flag":              {head + "{argv: [a], probed: maybe}", "must be true or false"},
		"quoted flag":       {head + "{argv: [a], probed: 'true'}", "must be true or false"},
		"number":            {head + "{argv: [a], calls_used: -1}", "must be a number from 0"},
		"huge number":       {head + "{argv: [a], calls_used: 99999999999999999999}", "must be a number from 0"},
		"fraction":          {head + "{argv: [a], calls_used: 1.5}", "must be a number from 0"},
		"relative program":  {head + "{argv: [a], executable: a}", "absolute and clean"},
		"unclean program":   {head + "{argv: [a], executable: /a/../b}", "absolute and clean"},
		"digest":            {head + "{argv: [a], executable: {path: /a, digest: x}}", "a digest is sha256:"},
		"workspace":         {head + "{argv: [a], workspace: old}", "must be one of known, new, none"},
		"workspace path":    {head + "{argv: [a], workspace: {path: a}}", "absolute and clean"},
		"cwd outside":       {head + "{argv: [a], cwd: ../x}", "4:29: a call works below its workspace"},
		"cwd beside":        {head + "{argv: [a], cwd: /workspaces}", "a call works below its workspace"},
		"cwd of none":       {head + "{argv: [a], workspace: none, cwd: /}", "a call works below its workspace"},
		"votes":             {head + "{argv: [a], approval: {votes: 0}}", "must be a number from 1 to 100"},
		"effects":           {head + "{argv: [a], effects: {created: -1}}", "must be a number from 0"},
		"effects key":       {head + "{argv: [a], effects: {secrets: 1}}", `effects has no key "secrets"`},
		"effects list":      {head + "{argv: [a], effects: {trusted: x}}", "must be a list"},
		"scope":             {head + "{argv: [a], approval: {scope: always}}", "must be one of once, session, timeboxed"},
		"separation":        {head + "{argv: [a], approval: {separation: far}}", "must be one of device, none"},
		"approval":          {head + "{argv: [a], approval: yes}", "approval must be a mapping"},
		"config key":        {"config: {tools: []}\n" + head + "{argv: [a]}", `config has no key "tools"`},
		"long list":         {head + "{argv: [a" + many(maxTableList, ",a") + "]}", "must be a list of at most 1024 words"},
		"expect":            {"tests: [{name: a, expect: maybe, request: {argv: [a]}}]", "1:27: must be one of allow, ask, deny"},
		"expect list":       {"tests: [{name: a, expect: [deny], request: {argv: [a]}}]", "expect must be a mapping"},
		"no verdict":        {"tests: [{name: a, expect: {policies: [reads]}, request: {argv: [a]}}]", `expect needs the key "verdict"`},
		"need of a deny": {
			"tests: [{name: a, expect: {verdict: deny, need: {votes: 1}}, request: {argv: [a]}}]",
			"only the verdict ask has a need",
		},
		"need votes": {
			"tests: [{name: a, expect: {verdict: ask, need: {votes: 6}}, request: {argv: [a]}}]",
			"must be a number from 1 to 5",
		},
		"need key": {"tests: [{name: a, expect: {verdict: ask, need: {people: 6}}, request: {argv: [a]}}]", `need has no key "people"`},
		"unknown policy": {
			"tests: [{name: a, expect: {verdict: deny, not_policies: [reads, nope]}, request: {argv: [a]}}]",
			`1:65: the bundle has no policy "nope"`,
		},
		"policies word": {"tests: [{name: a, expect: {verdict: deny, policies: reads}, request: {argv: [a]}}]", "must be a list"},
		"ask after answer": {
			"tests: [{name: a, expect: ask, request: {argv: [a], approval: {}}}]",
			"1:9: with an approval the verdict is allow or deny",
		},
	} {
		results, problems := judged(t.Context(), b, policytest.Open(), map[string]string{"tests/x.yaml": c.text})
		if len(results) > 0 {
			t.Errorf("%s: ran %v", name, results)
		}
		if !slices.ContainsFunc(problems, func(p policy.Problem) bool {
			return strings.Contains(p.String(), "tests/x.yaml:"+c.want) || strings.Contains(p.Text, c.want)
		}) {
			t.Errorf("%s: %v, want %s", name, problems, c.want)
		}
	}
}

func TestTableFaultsAreAllTold(t *testing.T) {
	b := policytest.Load(t, tablePolicies)
	_, problems := judged(t.Context(), b, policytest.Open(), tableOf("- {name: a, request: {tool: x, door: y}, expect: z}\n"))
	if len(problems) != 3 {
		t.Fatalf("%v", problems)
	}
	text := ""
	for i := range 2 * maxTableFault {
		text += fmt.Sprintf("- {name: a%d, request: {tool: x}, expect: deny}\n", i)
	}
	if _, problems = judged(t.Context(), b, policytest.Open(), tableOf(text)); len(problems) != maxTableFault+1 {
		t.Fatalf("%d problems are told", len(problems))
	}
}

// A broken file does not keep the others from running, nor do they hide it.
func TestTableFilesStandAlone(t *testing.T) {
	good := "tests: [{name: a, expect: allow, request: {tool: palyra.echo}}]"
	files := map[string]string{"tests/a.yaml": good, "tests/b.yaml": "?", "tests/c.yaml": good}
	results, problems := judged(t.Context(), loaded(t), policytest.Open(), files)
	if len(results) != 2 || results[0].File != "tests/a.yaml" || results[1].File != "tests/c.yaml" || len(problems) == 0 ||
		problems[0].File != "tests/b.yaml" {
		t.Fatalf("%v %v", results, problems)
	}
	for i := range maxTables {
		files[fmt.Sprintf("tests/more%d.yaml", i)] = good
	}
	if results, problems = judged(t.Context(), loaded(t), policytest.Open(), files); len(results) > 0 || len(problems) != 1 {
		t.Fatalf("%d results, %v", len(results), problems)
	}
}

func TestTableTestsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("tests:\n")
	for i := range maxTableTests {
		fmt.Fprintf(&b, "- {name: %d, request: {tool: palyra.echo}, expect: allow}\n", i)
	}
	files := map[string]string{}
	for i := range maxAllTests/maxTableTests + 1 {
		files[fmt.Sprintf("tests/%d.yaml", i)] = b.String()
	}
	results, problems := judged(t.Context(), loaded(t), policytest.Open(), files)
	if len(results) != maxAllTests || len(problems) != 1 || problems[0].File != "tests/5.yaml" {
		t.Fatalf("%d results, %v", len(results), problems)
	}
	files = map[string]string{"tests/a.yaml": b.String() + "- {name: x, request: {tool: palyra.echo}, expect: allow}\n"}
	if results, problems = judged(t.Context(), loaded(t), policytest.Open(), files); len(results) > 0 || len(problems) != 1 {
		t.Fatalf("%d results, %v", len(results), problems)
	}
}

// Text that is made to be slow to read ends as a problem all the same.
func TestTableHostileText(t *testing.T) {
	b := policytest.Load(t, tablePolicies)
	fill := func(s string) string { return strings.Repeat(s, maxTable/len(s)) }
	for _, text := range []string{
		fill("["), fill("{"), fill("? "), fill("- "), fill("a: "), fill("{a: "), fill("#\n"), fill("&a "), fill("*a\n"), fill("- a\n"),
		fill("a:\n"), fill("'"), fill("---\n"),
		"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n" + fill("- *c\n")[:1000], "tests: |\n" + fill("  x\n")[:maxTable-100], "%YAML 9.9\n---\n",
	} {
		results, problems := judged(t.Context(), b, policytest.Open(), map[string]string{"tests/a.yaml": text})
		if len(results) > 0 || len(problems) == 0 || len(problems) > maxTableFault+1 {
			t.Errorf("%q…: %d results, %d problems", text[:10], len(results), len(problems))
		}
	}
}

func TestTableInterruptedIsNoSuccess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results, problems := judged(ctx, loaded(t), policytest.Open(), tableOf("- {name: a, request: {tool: palyra.echo}, expect: allow}\n"))
	if len(results) > 0 || len(problems) != 1 || problems[0].Line != 1 {
		t.Fatalf("%v %v", results, problems)
	}
}

func TestTableWithoutABundleOrASnapshot(t *testing.T) {
	if _, problems := Run(t.Context(), policy.Config{}, nil); len(problems) != 1 {
		t.Fatal(problems)
	}
	bad := policytest.Open()
	bad.ProcessRunner = map[string]any{"x": func() {}} // has no digest
	_, problems := judged(t.Context(), loaded(t), bad, tableOf("- {name: a, request: {tool: palyra.echo}, expect: allow}\n"))
	if len(problems) != 1 {
		t.Fatal(problems)
	}
}

// The lists of the configuration hold unless the file has its own; also an empty
// one is a list.
func TestTableLists(t *testing.T) {
	b := policytest.Defaults(t)
	base := policytest.Open()
	base.AllowedTools = []string{"palyra.sleep"}
	test := "tests: [{name: a, expect: deny, request: {tool: palyra.echo}}]"
	for text, want := range map[string]bool{
		test: true,
		"config: {allowed_tools: [palyra.echo]}\n" + test:                                                       false,
		"config: {allowed_tools: ['*'], tool_execute_principals: []}\n" + test:                                  true,
		"config: {allowed_tools: ['*'], tool_execute_channels: [mcp]}\n" + test:                                 true,
		"config: {allowed_tools: []}\n" + test:                                                                  true,
		"config: {allowed_tools: ['*'], tool_execute_principals: [x, agent:local]}\n" + test:                    false,
		"config: {allowed_tools: ['*'], tool_execute_channels: [cli], tool_execute_principals: ['*']}\n" + test: false,
	} {
		results, problems := judged(t.Context(), b, base, map[string]string{"tests/a.yaml": text})
		if len(problems) > 0 || len(results) != 1 || results[0].OK != want {
			t.Errorf("%s: %v %v", text, results, problems)
		}
	}
	if !slices.Equal(base.AllowedTools, []string{"palyra.sleep"}) {
		t.Error("the configuration was changed")
	}
}

// What a request leaves open is as planning makes it.
func TestTableRequest(t *testing.T) {
	run := tableTools[processTool]
	digest := func(p string) palyra.Executable {
		return palyra.Executable{Path: p, Digest: palyra.SumBytes([]byte(p))}
	}
	strict := palyra.Enforcement{Mode: "strict"}
	here := palyra.WorkspaceRef{Path: tableRoot, Known: true}
	plan := palyra.Plan{
		Tool: processTool, Source: palyra.SourceBuiltin, Capabilities: run.Capabilities, Workspace: here, Cwd: tableRoot, Tier: palyra.TierC,
		Enforcement: strict,
		Executable:  digest("/usr/bin/git"), Argv: []string{"git", "status"},
	}
	with := func(change func(*palyra.Plan)) palyra.Plan {
		p := plan
		change(&p)
		return p
	}
	for text, want := range map[string]palyra.Plan{
		"{argv: [git, status]}":              plan,
		"{argv: [git, status], cwd: a/../b}": with(func(p *palyra.Plan) { p.Cwd = "/workspace/b" }),
		"{argv: [./x], cwd: /workspace/b}": with(func(p *palyra.Plan) {
			p.Cwd, p.Argv, p.Executable = "/workspace/b", []string{"./x"}, digest("/workspace/b/x")
		}),
		"{argv: [git, status], egress: ['a.example:443'], tier: B}": with(func(p *palyra.Plan) {
			p.Egress, p.Tier = []string{"a.example:443"}, palyra.TierB
			p.Capabilities = append(slices.Clone(p.Capabilities), palyra.Network)
		}),
		"{script: '+x', workspace: new}": with(func(p *palyra.Plan) {
			p.Argv, p.Executable, p.Workspace.Known = []string{"/bin/sh", "-c", "\n+x"}, digest("/bin/sh"), false
		}),
		"{argv: [git, status], network: none, stdin_live: true, executable: /opt/git}": with(func(p *palyra.Plan) {
			p.Enforcement.Mode, p.Stdin, p.Executable = "none", palyra.StdinLive, digest("/opt/git")
		}),
		"{tool: palyra.echo}": {Tool: "palyra.echo", Source: palyra.SourceBuiltin, ReadOnly: true, Tier: palyra.TierBuiltin},
	} {
		got := tabled(t, text)
		if diff := cmp.Diff(want, got.ask.Plan); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if confined := want.Tier != palyra.TierBuiltin; got.probed != confined {
			t.Errorf("%s: probed %v", text, got.probed)
		}
	}
}

func TestTableCaller(t *testing.T) {
	for text, want := range map[string]palyra.Request{
		"{tool: palyra.echo}":                                       {Principal: "agent:local", Owner: "user:owner", Surface: palyra.SurfaceCLI},
		"{tool: palyra.echo, principal: user:ada}":                  {Principal: "user:ada", Surface: palyra.SurfaceCLI},
		"{tool: palyra.echo, principal: device:x, owner: user:ada}": {Principal: "device:x", Owner: "user:ada", Surface: palyra.SurfaceCLI},
		"{tool: palyra.echo, principal: system:cron, door: cron}":   {Principal: "system:cron", Surface: palyra.SurfaceCron},
	} {
		got := tabled(t, text).ask
		if got.Principal != want.Principal || got.Owner != want.Owner || got.Surface != want.Surface {
			t.Errorf("%s: %+v", text, got)
		}
	}
	got := tabled(t, "{tool: palyra.echo, approval: {}}").ask.Approval
	if diff := cmp.Diff(&palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeOnce, Fresh: true}, got); diff != "" {
		t.Error(diff)
	}
}

// Tests see what the analysis says of a command, where there is one.
func TestTableAnalyses(t *testing.T) {
	b := policytest.Load(t, `@id("look") permit (principal, action == Action::"tool.execute", resource) when { context.command.understood && context.command.class == "read_only" };`)
	c := policy.Config{Bundle: b, Snapshot: policytest.Open(), Analyse: func(p palyra.Plan) palyra.Command {
		if slices.Equal(p.Argv, []string{"ls"}) {
			return palyra.Command{Class: palyra.CommandReadOnly, Understood: true, Programs: []string{"ls"}}
		}
		return palyra.Command{Class: palyra.CommandUnknown}
	}}
	files := tableOf("- {name: a, request: {argv: [ls]}, expect: allow}\n- {name: b, request: {argv: [ls, x]}, expect: deny}\n")
	if results, problems := Run(t.Context(), c, files); len(problems) > 0 || len(results) != 2 || !results[0].OK || !results[1].OK {
		t.Fatalf("%v %v", results, problems)
	}
	if results, _ := judged(t.Context(), b, policytest.Open(), files); results[0].OK || !results[1].OK {
		t.Fatalf("without the analysis: %v", results)
	}
}

// Whatever is in a file, it is read without a panic; what is taken is within the
// limits and can be judged, and what is not has a place.
func FuzzTable(f *testing.F) {
	good, err := os.ReadFile("testdata/tables/good.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add("tests:\n- {name: a, request: {script: 'ls'}, expect: {verdict: ask, need: {votes: 2}}}")
	f.Add("a: &a [*a]")
	f.Add("? [a]\n: b")
	b := policytest.Load(f, tablePolicies)
	f.Fuzz(func(t *testing.T, text string) {
		results, problems := judged(t.Context(), b, policytest.Open(), map[string]string{"tests/a.yaml": text})
		if len(results) > 0 && len(problems) > 0 || len(results)+len(problems) == 0 {
			t.Fatalf("%d results and %d problems", len(results), len(problems))
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Line > len(text)+2 || p.Text == "" {
				t.Fatalf("%+v", p)
			}
		}
		for _, r := range results {
			if strings.Contains(r.Text, "cannot be put into policy's terms") {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// Every key that a request has is one that changes what is judged, or a test would
// say what it does not mean.
func TestTableKeys(t *testing.T) {
	d := &tableDraft{}
	keys := slices.Sorted(maps.Keys(d.planKeys()))
	keys = append(keys, slices.Sorted(maps.Keys(d.callKeys()))...)
	values := map[string]string{
		"argv": "[b]", "script": "a", "executable": "/a", "workspace": "new", "cwd": "a", "env": "[A]", "reads": "[a]", "writes": "[a]",
		"egress": "['a.example:1']", "secrets": "[a]", "tier": "B", "profile": "go", "asks": "true", "network": "none", "mechanisms": "[a]",
		"unix_sockets": "true", "stdin_live": "true", "principal": "agent:x", "owner": "user:x", "door": "mcp", "surface": "mcp",
		"labels": "[a]", "roles": "[admin]", "owner_roles": "[owner]",
		"device_id": "dev-1", "time": "'2026-01-31T09:30:00Z'", "approval": "{}",
		"removes": "[a]", "staged": "true", "live_asked": "true", "effects": "{created: 1}",
		"calls_used": "1", "probed": "false", "tool": "{name: x, capabilities: [process_exec]}",
	}
	base := tabled(t, "{argv: [a]}")
	for _, key := range keys {
		text := "{argv: [a], " + key + ": " + values[key] + "}"
		if key == "argv" || key == "script" {
			text = "{" + key + ": " + values[key] + "}"
		}
		if got := tabled(t, text); got.probed == base.probed && cmp.Equal(got.ask, base.ask) {
			t.Errorf("%s changes nothing", key)
		}
	}
}
