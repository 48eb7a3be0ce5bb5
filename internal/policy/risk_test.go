package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/policy/risk"
)

func TestRisk(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*palyra.Request)
		level   palyra.RiskLevel
		factors string
	}{
		{"nothing", func(*palyra.Request) {}, palyra.RiskLow, ""},
		{"reading", func(r *palyra.Request) {
			r.Tool.Capabilities = []palyra.Capability{palyra.FilesystemRead, palyra.ArtifactsRead}
		}, palyra.RiskLow, ""},
		{"writing", func(r *palyra.Request) {
			r.Plan.Capabilities, r.Plan.Writes = []palyra.Capability{palyra.FilesystemWrite}, []string{"a"}
		}, palyra.RiskMedium, "filesystem_write"},
		{"running", func(r *palyra.Request) { r.Plan.Capabilities = []palyra.Capability{palyra.ProcessExec} }, palyra.RiskHigh, "process_exec"},
		{"unknown capability", func(r *palyra.Request) { r.Plan.Capabilities = []palyra.Capability{"x"} }, palyra.RiskHigh, "x"},
		{"new workspace", func(r *palyra.Request) { r.Plan.Workspace.Path = "/w" }, palyra.RiskMedium, "new_workspace: /w"},
		{"known workspace", func(r *palyra.Request) { r.Plan.Workspace = palyra.WorkspaceRef{Path: "/w", Known: true} }, palyra.RiskLow, ""},
		{"outside", func(r *palyra.Request) { r.Plan.Writes = []string{"../a"} }, palyra.RiskCritical, "outside_workspace: ../a"},
		{"guarded", func(r *palyra.Request) { r.Plan.Writes = []string{".git/config"} }, palyra.RiskCritical, "guarded_path: .git/config"},
		{"guarded by where it is led to", func(r *palyra.Request) {
			r.Plan.Writes, r.Plan.Guarded = []string{"a", "c/config.toml"}, []string{"c/config.toml"}
		}, palyra.RiskCritical, "guarded_path: c/config.toml"},
		{"hosts", func(r *palyra.Request) { r.Plan.Egress = []string{"b:2", "a:1", "b:2"} }, palyra.RiskMedium, "egress: a:1, egress: b:2"},
		{"names below", func(r *palyra.Request) { r.Plan.Egress = []string{"*.b:2"} }, palyra.RiskHigh, "wildcard_host: *.b:2, egress: *.b:2"},
		{"secret", func(r *palyra.Request) { useSecrets(r, "github") }, palyra.RiskHigh, "secret: github"},
		{
			"secret and host", func(r *palyra.Request) { useSecrets(r, "g"); r.Plan.Egress = []string{"a:1"} }, palyra.RiskCritical,
			"secret_may_leave, secret: g, egress: a:1",
		},
		{
			"send after reading a secret", func(r *palyra.Request) { r.Labels, r.Plan.Egress = []string{"secret-read"}, []string{"a:1"} },
			palyra.RiskCritical,
			"secret_may_leave, egress: a:1",
		},
		{
			"write after a strange page", func(r *palyra.Request) { r.Labels, r.Plan.Writes = []string{"untrusted-input"}, []string{"a"} },
			palyra.RiskHigh,
			"after_untrusted_input",
		},
		{"read after a strange page", func(r *palyra.Request) { r.Labels = []string{"untrusted-input"} }, palyra.RiskLow, ""},
		{"tier B", func(r *palyra.Request) { r.Plan.Tier = palyra.TierB }, palyra.RiskMedium, "no_full_sandbox: tier B"},
		{"live stdin", func(r *palyra.Request) { r.Plan.Stdin = "live" }, palyra.RiskHigh, "stdin_live"},
		{"foreign tool", func(r *palyra.Request) { r.Tool.Source = palyra.SourceMCP }, palyra.RiskMedium, "third_party_tool: mcp"},
	} {
		r := echo()
		c.change(&r)
		got := risk.Examine(r).Risk()
		if got.Level != c.level || strings.Join(got.Factors, ", ") != c.factors {
			t.Errorf("%s: %s %q", c.name, got.Level, got.Factors)
		}
	}
}

func TestLongFactorsAreCut(t *testing.T) {
	r := echo()
	r.Plan.Writes = []string{"../" + strings.Repeat("a", 10_000)}
	if f := risk.Examine(r).Risk().Factors[0]; len(f) > 300 || !strings.HasSuffix(f, "...") {
		t.Errorf("%d bytes", len(f))
	}
}

// No two argv give the same command line.
func TestCommandLineIsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "a b", `"a`, `\`, "'", "\x00", "\xff", "--x=1", "$(id)"}))
		a, b := rapid.SliceOf(word).Draw(t, "a"), rapid.SliceOf(word).Draw(t, "b")
		if risk.CommandLine(a) == risk.CommandLine(b) && !cmp.Equal(append([]string{}, a...), append([]string{}, b...)) {
			t.Fatalf("%q and %q both give %s", a, b, risk.CommandLine(a))
		}
	})
	if got := risk.CommandLine([]string{"git", "commit", "-m", "a b", "--x=1", ""}); got != `git commit -m "a b" --x=1 ""` {
		t.Error(got)
	}
}

func TestHosts(t *testing.T) {
	got, err := HostsOf([]string{"Example.COM.:443", "[::1]:80", "10.0.0.1:65535"})
	want := []Host{{"example.com", 443}, {"::1", 80}, {"10.0.0.1", 65535}}
	if err != nil || len(got) != len(want) {
		t.Fatal(got, err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

// What the plan says reaches policies, each thing under its name.
func TestContextReachesPolicies(t *testing.T) {
	r := write("docs/a.md", "b")
	r.Session, r.Labels, r.CallsUsed = "01S", []string{"secret-read"}, 3
	r.Plan.Argv, r.Plan.Cwd = []string{"git", "push", "origin main"}, "/w/sub"
	r.Plan.Executable = palyra.Executable{Path: "/usr/bin/git", Digest: palyra.SumBytes([]byte("git"))}
	useSecrets(&r, "gh")
	r.Plan.Egress, r.Plan.Tier = []string{"GitHub.com:443"}, palyra.TierC
	r.Plan.Env, r.Plan.Reads, r.Plan.Stdin = []palyra.EnvVar{{Name: "HOME", Value: "/h"}}, []string{"r"}, "live"
	r.Plan.Arguments = []byte(`{"a":1}`)
	for _, cond := range []string{
		`context.tool == "palyra.fs.write" && resource.name == context.tool && resource.source == "builtin"`,
		`context.capabilities.contains("filesystem_write") && resource.capabilities.contains("filesystem_write") && resource.sensitive && context.sensitive`,
		`!context.read_only && !resource.read_only && !context.destructive`,
		`context has executable && context.executable.path == "/usr/bin/git" && context.executable.name == "git" && context.executable.digest like "sha256:*"`,
		`context.argv.containsAll(["git", "push", "origin main"]) && context.command_line == "git push \"origin main\""`,
		`context.cwd == "/w/sub" && context.env.contains("HOME") && context.stdin_live`,
		`context.reads == ["r"] && context.writes.containsAll(["docs/a.md", "b"])`,
		`context.egress.contains({host: "github.com", port: 443}) && context.hosts == ["github.com"] && context.secrets == ["gh"]`,
		`context.tier == "C" && context.input_bytes == 7 && context.calls_used == 3 && context.budget == 64`,
		`context.labels == ["secret-read"] && context.risk.level == "critical" && context.risk.rank == 3 && context.risk.factors.contains("secret_may_leave")`,
		`context.session_id == "01S" && context.door == "mcp" && context.door_allowed && context.principal_allowed`,
		`context has workspace && context.workspace == "/w" && context.workspace_needed && context.workspace_known`,
		`!context.approval.granted && context.approval.votes == 0 && context.approval.scope == ""`,
		`principal is Agent && principal has owner && principal.owner == User::"ada" && principal in Role::"agent"`,
		`!(context has run_id) && !(context has subcommand) && resource in ToolGroup::"allowed"`,
	} {
		text := `@id("p") permit (principal, action == Action::"tool.execute", resource) when { ` + cond + ` };
			@id("rest") permit (principal, action == Action::"vault.use", resource);`
		if v := engine(t, load(t, text)).Judge(t.Context(), r); v.Effect != palyra.Allow {
			t.Errorf("%s: %s %v", cond, v.Effect, v.Errors)
		}
	}
}

// An address that is nobody's but this machine's and its neighbours' is the most
// that can be asked for.
func TestPrivateAddressesAreCritical(t *testing.T) {
	e := engine(t, defaults(t))
	for host, want := range map[string]palyra.RiskLevel{
		"example.org:443": palyra.RiskMedium, "9.9.9.9:443": palyra.RiskMedium, "[2606:4700::1]:443": palyra.RiskMedium,
		"[64:ff9b::909:909]:443": palyra.RiskMedium, "127.0.0.1:80": palyra.RiskCritical, "10.1.2.3:80": palyra.RiskCritical,
		"169.254.169.254:80": palyra.RiskCritical, "[::1]:80": palyra.RiskCritical, "[::ffff:10.0.0.1]:80": palyra.RiskCritical,
		"[fd00::1]:80":       palyra.RiskCritical,
		"100.100.100.200:80": palyra.RiskCritical, "[64:ff9b::a9fe:a9fe]:80": palyra.RiskCritical, "[2002:7f00:1::]:80": palyra.RiskCritical,
		"198.18.0.1:80":  palyra.RiskCritical,
		"192.0.0.192:80": palyra.RiskCritical, "168.63.129.16:80": palyra.RiskCritical, "240.0.0.1:80": palyra.RiskCritical,
		"34.118.224.1:443":  palyra.RiskCritical,
		"[fe80::1%eth0]:80": palyra.RiskCritical, "[2001:db8::1]:80": palyra.RiskCritical, "localhost:80": palyra.RiskCritical,
		"a.LOCALHOST.:80": palyra.RiskCritical,
	} {
		r := echo()
		r.Plan.Egress = []string{host}
		if v := e.Judge(t.Context(), r); v.Risk.Level != want {
			t.Errorf("%s: %s %v", host, v.Risk.Level, v.Risk.Factors)
		}
	}
}
