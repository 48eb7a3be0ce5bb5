package process

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"palyra"
)

// tiers is a host that has tier B only.
type tiers struct {
	asked *palyra.Limits // what was asked for last
	err   error
}

func (h tiers) Promise(_ context.Context, t palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	if h.asked != nil {
		*h.asked = l
	}
	if t != palyra.TierB {
		return palyra.Enforcement{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "no tier %s here", t)
	}
	return palyra.Enforcement{
		Mode: "strict", Mechanisms: []string{"cell", "seccomp"},
		Limits: map[string]palyra.Hold{"memory": "polled", "cpu": "rlimit+polled", "disk": "none", "open_files": "rlimit"},
	}, h.err
}

// everywhere is a host that has every tier, and one answer for all.
type everywhere struct{}

var answer = palyra.Enforcement{Mode: "strict", Mechanisms: []string{"cell"}, Limits: map[string]palyra.Hold{"cpu": "rlimit"}}

func (everywhere) Promise(context.Context, palyra.Tier, palyra.Limits) (palyra.Enforcement, error) {
	return answer, nil
}

func driver(t testing.TB, c Config) *Driver {
	t.Helper()
	if c.Tiers == nil {
		c.Tiers = tiers{}
	}
	c.Enabled = true
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func planOf(args string) palyra.Plan {
	return palyra.Plan{
		Tool: Name, Arguments: json.RawMessage(args), Workspace: palyra.WorkspaceRef{Path: "/work"},
		Limits: palyra.Limits{WallMS: 120_000, OutputBytes: 1 << 20},
	}
}

// filled fills a plan from arguments without looking at the file system.
func filled(t testing.TB, d *Driver, args string) (palyra.Plan, error) {
	t.Helper()
	p := planOf(args)
	a, err := decode(p)
	if err != nil {
		return p, err
	}
	_, err = d.fill(t.Context(), a, &p)
	return p, err
}

func wants(t testing.TB, what string, err error, reason palyra.Reason, remedy string) {
	t.Helper()
	e := (*palyra.Error)(nil)
	if !errors.As(err, &e) || e.Reason != reason || e.Remedy == "" || !strings.Contains(e.Remedy, remedy) || e.Code == palyra.Internal {
		t.Errorf("%s: %+v, want %s and %q", palyra.Clip(what, 100), err, reason, remedy)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{
		{},
		{Tiers: tiers{}, Tier: palyra.TierA},
		{Tiers: tiers{}, Tier: palyra.TierBuiltin},
		{Tiers: tiers{}, Path: []string{"bin"}},
		{Tiers: tiers{}, Path: []string{""}},
		{Tiers: tiers{}, Path: []string{"/bin/"}},
		{Tiers: tiers{}, Path: []string{"/a:/b"}},
		{Tiers: tiers{}, Limits: palyra.Limits{MemoryBytes: -1}},
		{Tiers: tiers{}, Limits: palyra.Limits{WallMS: 1}},
		{Tiers: tiers{}, Limits: palyra.Limits{OutputBytes: 1}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
}

func TestDisabled(t *testing.T) {
	d, err := New(Config{Tiers: tiers{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.Tool(Name); !ok || len(d.Specs()) != 2 {
		t.Error("a disabled tool is not known")
	}
	p := planOf(`{"command":"true"}`)
	wants(t, "disabled", d.Plan(t.Context(), &palyra.Call{}, &p), palyra.ReasonDisabled, "process.tier")
}

func TestPlanRefusesBeforeItLooks(t *testing.T) {
	d := driver(t, Config{})
	p := planOf(`{"command":"true"}`)
	p.Tool = "palyra.echo"
	if err := d.Plan(t.Context(), &palyra.Call{}, &p); palyra.AsError(err).Reason != palyra.ReasonUnknownTool {
		t.Error(err)
	}
	p = planOf(`{"command":"true"}`)
	p.Workspace.Path = ""
	wants(t, "no workspace", d.Plan(t.Context(), &palyra.Call{}, &p), palyra.ReasonWorkspaceDenied, "--workspace")
}

func TestBadArguments(t *testing.T) {
	long := strings.Repeat("x", maxArg)
	many := `"` + strings.Repeat(`x","`, maxArgs) + `x"`
	total := `"` + strings.Repeat(long+`","`, 8) + `x"`
	for _, c := range []struct {
		args   string
		reason palyra.Reason
		remedy string
	}{
		{``, palyra.ReasonSchemaMismatch, string(Name)},
		{`[]`, palyra.ReasonSchemaMismatch, string(Name)},
		{`{"command":1}`, palyra.ReasonSchemaMismatch, string(Name)},
		{`{"command":"x","more":1}`, palyra.ReasonSchemaMismatch, string(Name)},
		{`{}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"args":["x"]}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"x","script":"y"}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"script":"x","args":["y"]}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"script":"x"}`, palyra.ReasonTierUnavailable, "sh"},
		{`{"command":"a\u0000b"}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"x","args":["\u0000"]}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"x","cwd":"\u0000"}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"` + strings.Repeat("x", maxPath+1) + `"}`, palyra.ReasonMalformedInput, "4096"},
		{`{"command":"x","cwd":"` + strings.Repeat("x", maxPath+1) + `"}`, palyra.ReasonMalformedInput, "4096"},
		{`{"command":"x","args":["` + long + `x"]}`, palyra.ReasonMalformedInput, "131071"},
		{`{"command":"x","args":[` + many + `]}`, palyra.ReasonMalformedInput, "4096"},
		{`{"command":"x","args":[` + total + `]}`, palyra.ReasonMalformedInput, "1048576"},
		{`{"command":"x","env":{"A":"` + long + `"}}`, palyra.ReasonMalformedInput, "131069"},
		{`{"command":"x","env":{"A":"\u0000"}}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"x","stdin":"a","stdin_b64":"YQ=="}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"x","stdin":"a","stdin_live":true}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"x","stdin_b64":"YQ"}`, palyra.ReasonMalformedInput, "padding"},
		{`{"command":"x","stdin_b64":"YR=="}`, palyra.ReasonMalformedInput, "padding"},
		{`{"command":"x","stdin":"` + strings.Repeat("x", maxStdin+1) + `"}`, palyra.ReasonInputTooLarge, "1048576"},
		{`{"command":"x","terminal":{"rows":-1}}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"x","terminal":{"cols":1001}}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"x","terminal":{},"stdin":""}`, palyra.ReasonMalformedInput, "stdin_live"},
		{`{"command":"x","tier":"a"}`, palyra.ReasonMalformedInput, "b or c"},
		{`{"command":"x","egress":["example.org:443"]}`, palyra.ReasonEgressDenied, "tier c"},
		{`{"command":"x","profile":"go"}`, palyra.ReasonTierUnavailable, "tier c"},
		{`{"command":"x","profile":"../x"}`, palyra.ReasonMalformedInput, "palyra sandbox profiles"},
		{`{"command":"x","profile":"` + strings.Repeat("x", maxProfile+1) + `"}`, palyra.ReasonMalformedInput, "palyra sandbox profiles"},
		{`{"command":"x","require_limits":true}`, palyra.ReasonWeakEnforcement, "require_limits"},
		{`{"script":"` + strings.Repeat("x", maxArg) + `"}`, palyra.ReasonMalformedInput, "131070"},
		{`{"script":"\u0000"}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"script":"x","args":["y"]}`, palyra.ReasonMalformedInput, string(Name)},
		{`{"command":"x","timeout_ms":120001}`, palyra.ReasonMalformedInput, "120000"},
		{`{"command":"x","timeout_ms":0}`, palyra.ReasonMalformedInput, "120000"},
	} {
		_, err := filled(t, driver(t, Config{}), c.args)
		wants(t, c.args, err, c.reason, c.remedy)
	}
	if _, err := filled(t, driver(t, Config{}), `{"command":"x","tier":"c"}`); palyra.AsError(err).Reason != palyra.ReasonTierUnavailable {
		t.Error(err)
	}
}

func TestTextIsUTF8(t *testing.T) { // JSON cannot carry it otherwise, other callers could
	wants(t, "bad bytes", text("x", "a\xff", 10), palyra.ReasonMalformedInput, string(Name))
}

func TestFilled(t *testing.T) {
	var asked palyra.Limits
	d := driver(t, Config{Tiers: tiers{asked: &asked}, Limits: palyra.Limits{Processes: 9}})
	p, err := filled(t, d, `{"command":"a","args":["b","","c d"],"env":{"Z":"1","A":""},"stdin":"in","limits":{"memory_bytes":5},"timeout_ms":7}`)
	if err != nil {
		t.Fatal(err)
	}
	want := palyra.Limits{
		WallMS: 7, OutputBytes: 1 << 20, CPUMS: most.CPUMS, MemoryBytes: 5, Processes: 9, OpenFiles: most.OpenFiles,
		FileBytes: most.FileBytes, EmittedBytes: most.EmittedBytes, DiskBytes: most.DiskBytes,
	}
	if p.Limits != want || asked != want {
		t.Errorf("%+v, asked %+v", p.Limits, asked)
	}
	env := []palyra.EnvVar{{Name: "A", Digest: palyra.SumBytes(nil)}, {Name: "Z", Digest: palyra.SumBytes([]byte("1")), Value: "1"}}
	if !slices.Equal(p.Argv, []string{"a", "b", "", "c d"}) || !slices.Equal(p.Env, env) || p.Stdin != string(palyra.SumBytes([]byte("in"))) ||
		p.Tier != palyra.TierB || p.Terminal || p.Egress != nil || p.Enforcement.Mode != "strict" {
		t.Errorf("%+v", p)
	}
}

// A plan keeps what was promised, whatever becomes of the tier's own copy.
func TestPromiseIsCopied(t *testing.T) {
	p, err := filled(t, driver(t, Config{Tiers: everywhere{}}), `{"command":"a"}`)
	if err != nil {
		t.Fatal(err)
	}
	p.Enforcement.Mechanisms[0], p.Enforcement.Limits["cpu"] = "changed", "changed"
	if answer.Mechanisms[0] != "cell" || answer.Limits["cpu"] != "rlimit" {
		t.Error("the plan shares memory with the tier")
	}
}

func TestTierIsAskedFirst(t *testing.T) {
	d := driver(t, Config{Tiers: tiers{err: palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "broken")}})
	if _, err := filled(t, d, `{"command":"x","egress":["a:1"]}`); palyra.AsError(err).Text != "broken" {
		t.Error(err)
	}
	if p, err := filled(t, driver(t, Config{Tiers: everywhere{}, Tier: palyra.TierC}), `{"command":"x","tier":"b"}`); err != nil ||
		p.Tier != palyra.TierB {
		t.Errorf("%v, %v", p.Tier, err)
	}
}

// Every limit can be lowered to anything above nothing and never raised.
func TestLimitsOnlyLower(t *testing.T) {
	d := driver(t, Config{Limits: palyra.Limits{
		CPUMS: 100, MemoryBytes: 100, Processes: 100, OpenFiles: 100, FileBytes: 100,
		EmittedBytes: 100, DiskBytes: 100,
	}})
	for _, b := range bounds(&palyra.Limits{}) {
		at := func(n string) (palyra.Plan, error) {
			return filled(t, d, `{"command":"x","limits":{"`+b.name+`":`+n+`}}`)
		}
		for _, n := range []string{"0", "-1", "101", "9007199254740993", "-9223372036854775808"} {
			_, err := at(n)
			wants(t, b.name+" "+n, err, palyra.ReasonMalformedInput, "100")
		}
		for _, n := range []string{"1", "100"} {
			p, err := at(n)
			if err != nil {
				t.Fatal(b.name, n, err)
			}
			raw, _ := json.Marshal(p.Limits)
			var got map[string]json.Number
			if json.Unmarshal(raw, &got) != nil || got[b.name].String() != n {
				t.Errorf("%s %s: %s", b.name, n, raw)
			}
		}
	}
	if n := reflect.TypeFor[palyra.Limits]().NumField(); n != len(bounds(&palyra.Limits{}))+2 {
		t.Errorf("palyra.Limits has %d limits: one is nobody's", n)
	}
}

func TestEgress(t *testing.T) {
	d := driver(t, Config{Tiers: everywhere{}, Tier: palyra.TierC})
	p, err := filled(t, d, `{"command":"x","egress":["b.example:443","a.example:80","b.example:443"]}`)
	if err != nil || !slices.Equal(p.Egress, []string{"a.example:80", "b.example:443"}) {
		t.Errorf("%q, %v", p.Egress, err)
	}
	for _, bad := range []string{
		"", ":", "a", "a:", ":443", "a:0", "a:65536", "a:080", "a:+1", "a:http", "A.example:443", "a..b:1", "-a:1", "*.a:1", "a b:1", "a:1:2",
		"::1:1", "[::1]:1", "a\n:1",
		strings.Repeat("a", 64) + ":1", strings.Repeat("a.", 127) + "aa:1",
	} {
		raw, _ := json.Marshal([]string{bad})
		_, err := filled(t, d, `{"command":"x","egress":`+string(raw)+`}`)
		wants(t, bad, err, palyra.ReasonMalformedInput, "example.org:443")
	}
	_, err = filled(t, d, `{"command":"x","egress":["a:1"`+strings.Repeat(`,"a:1"`, maxEgress)+`]}`)
	wants(t, "too many", err, palyra.ReasonMalformedInput, "32")
}

func TestStdin(t *testing.T) {
	d := driver(t, Config{})
	bytes := string([]byte{0, 1, 0xff})
	for args, want := range map[string]string{
		`{"command":"x"}`:                    "",
		`{"command":"x","stdin":""}`:         "",
		`{"command":"x","stdin":"é\n"}`:      "é\n",
		`{"command":"x","stdin_b64":"AAH/"}`: bytes,
		`{"command":"x","stdin_live":true}`:  "",
		`{"command":"x","stdin_b64":"` + base64.StdEncoding.EncodeToString(make([]byte, maxStdin)) + `"}`: string(make([]byte, maxStdin)),
	} {
		p, err := filled(t, d, args)
		if err != nil {
			t.Fatal(palyra.Clip(args, 80), err)
		}
		got, err := d.Stdin(p)
		if err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v", palyra.Clip(args, 80), len(got), err)
		}
		if live := strings.Contains(args, "live"); live != (p.Stdin == palyra.StdinLive) ||
			want != "" && p.Stdin != string(palyra.SumBytes([]byte(want))) {
			t.Errorf("%s: %s", palyra.Clip(args, 80), p.Stdin)
		}
	}
	p, _ := filled(t, d, `{"command":"x","stdin":"a"}`)
	p.Stdin = string(palyra.SumBytes([]byte("b")))
	_, err := d.Stdin(p)
	wants(t, "another stdin", err, palyra.ReasonPlanChanged, "anew")
	if _, err := d.Stdin(planOf(`{"command":1}`)); palyra.CodeOf(err) != palyra.Invalid {
		t.Error(err)
	}
}

func TestSize(t *testing.T) {
	d := driver(t, Config{})
	for args, want := range map[string][2]int{
		`{"command":"x"}`:                                   {},
		`{"command":"x","terminal":{}}`:                     {24, 80},
		`{"command":"x","terminal":{"rows":3}}`:             {3, 80},
		`{"command":"x","terminal":{"rows":1000,"cols":1}}`: {1000, 1},
		`{"command":"x","terminal":{"rows":1001}}`:          {},
		`[]`: {},
	} {
		if rows, cols := d.Size(planOf(args)); [2]int{rows, cols} != want {
			t.Errorf("%s: %d × %d", args, rows, cols)
		}
	}
	if p, err := filled(t, d, `{"command":"x","terminal":{},"stdin_live":true}`); err != nil || !p.Terminal || p.Stdin != palyra.StdinLive {
		t.Errorf("%+v, %v", p, err)
	}
}

// Whatever the arguments are, they are refused with a reason or are ones that a
// program can be given.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		`{"command":"x","args":["y"],"env":{"A":"b"},"cwd":"d"}`, `{"command":"x","stdin_b64":"YQ==","limits":{"cpu_ms":1}}`,
		`{"script":"x"}`, `{"script":"-x","tier":"c","profile":"none"}`,
		`{"command":"x","tier":"c","profile":"full","require_limits":true,"env":{"GOROOT":"x"}}`,
		`{"command":"x","terminal":{"rows":1},"stdin_live":true,"egress":["a:1"],"tier":"c"}`, `{"command":"\u0000"}`, `null`, ``,
	} {
		f.Add([]byte(s))
	}
	d := driver(f, Config{Tiers: everywhere{}})
	f.Fuzz(func(t *testing.T, args []byte) {
		p, err := filled(t, d, string(args))
		if err != nil {
			if e := (*palyra.Error)(nil); !errors.As(err, &e) || e.Code == palyra.Internal || !utf8.ValidString(e.Text) {
				t.Fatalf("%q: %v", args, err)
			}
			return
		}
		total := 0
		for _, s := range p.Argv {
			total += len(s)
			if strings.IndexByte(s, 0) >= 0 || len(s) > maxArg {
				t.Fatalf("argv %q", s)
			}
		}
		for i, v := range p.Env {
			total += len(v.Name) + len(v.Value)
			if strings.ContainsAny(v.Name, "=\x00") || strings.IndexByte(v.Value, 0) >= 0 || meddling(v.Name) != "" ||
				i > 0 && p.Env[i-1].Name >= v.Name {
				t.Fatalf("env %+v", p.Env)
			}
		}
		if total > maxArgTotal || p.Argv[0] == "" || p.Limits.CPUMS < 1 || p.Limits.CPUMS > most.CPUMS {
			t.Fatalf("%+v", p)
		}
		in, err := d.Stdin(p)
		if err != nil || len(in) > maxStdin || (len(in) > 0) != (p.Stdin != "" && p.Stdin != palyra.StdinLive) {
			t.Fatalf("stdin %d, %q, %v", len(in), p.Stdin, err)
		}
	})
}
