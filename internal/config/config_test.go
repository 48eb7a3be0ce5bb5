package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

// place is a home with a system file, apart from the machine's own.
func place(t *testing.T, user, system string) Options {
	t.Helper()
	home := t.TempDir()
	write := func(path, text string) string {
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	write(filepath.Join(home, "config.toml"), user)
	return Options{Home: home, Env: []string{}, SystemFile: write(filepath.Join(home, "system.toml"), system)}
}

func TestDefaults(t *testing.T) {
	c, err := Load(place(t, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	got := c
	got.Paths, got.origins = Paths{}, nil
	if !cmp.Equal(want, got, cmp.AllowUnexported(Config{}, Paths{})) {
		t.Errorf("got %+v", got)
	}
	if got := c.Approvals.Wait(); got != 5*time.Minute {
		t.Errorf("wait %v", got)
	}
	if got := c.Sessions.Idle(); got != 12*time.Hour {
		t.Errorf("idle %v", got)
	}
	if c.ToolCall.ExecutionTimeout() != 2*time.Minute || c.ToolCall.MaxCallsPerRun != 64 || c.Approvals.MaxPending != 32 {
		t.Errorf("limits %+v %+v", c.ToolCall, c.Approvals)
	}
	if c.Approvals.DenyHold() != 5*time.Minute || c.Approvals.OnceTTL() != 5*time.Minute || c.Approvals.MaxTTL() != 24*time.Hour {
		t.Errorf("approvals %+v", c.Approvals)
	}
	for _, o := range c.Origins() {
		if o.Source != fromDefault || o.Where != "" || o.Text == "" || !looksLikeSetting(o.Variable) {
			t.Errorf("origin of %s: %+v", o.Key, o)
		}
	}
}

func TestPrecedence(t *testing.T) {
	o := place(t,
		"[tool_call]\nmax_calls_per_run = 3\nexecution_timeout_ms = 3\n\n[approvals]\nwait_ms = 3\n",
		"tool_call = { max_calls_per_run = 2, execution_timeout_ms = 2 }\n[approvals]\nwait_ms = 2\nmax_pending = 2\n[tools]\nallowed = "+
			"[\"palyra.echo\"]\n")
	o.Env = []string{"PALYRA_TOOL_CALL_MAX_CALLS_PER_RUN=4", "PALYRA_APPROVALS_WAIT_MS=4", "OTHER=x", "PALYRA_HOME=/nowhere"}
	o.Flags = map[string]string{"approvals.wait_ms": "5"}
	c, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		value  any
		source Source
		where  string
	}
	got := map[string]row{}
	for _, x := range c.Origins() {
		got[x.Key] = row{x.Value, x.Source, strings.TrimPrefix(x.Where, o.Home+"/")}
	}
	for key, want := range map[string]row{
		"approvals.wait_ms":              {int64(5), fromFlag, "--set approvals.wait_ms"},
		"tool_call.max_calls_per_run":    {int64(4), fromEnv, "PALYRA_TOOL_CALL_MAX_CALLS_PER_RUN"},
		"tool_call.execution_timeout_ms": {int64(3), fromUser, "config.toml:3"},
		"approvals.max_pending":          {int64(2), fromSystem, "system.toml:4"},
		"tools.allowed":                  {[]string{"palyra.echo"}, fromSystem, "system.toml:6"},
		"log.level":                      {"info", fromDefault, ""},
	} {
		if diff := cmp.Diff(want, got[key], cmp.AllowUnexported(row{})); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	if c.Paths.Home != o.Home {
		t.Errorf("--home lost to PALYRA_HOME: %s", c.Paths.Home)
	}
}

// A former name of a setting counts as the present one does, in every place; both
// in one place are refused.
func TestFormerNames(t *testing.T) {
	const was, is = "tools.tool_execute_channels", "tools.tool_execute_surfaces"
	file := func(keys ...string) string {
		text := "[tools]\n"
		for _, k := range keys {
			text += strings.TrimPrefix(k, "tools.") + " = [\"cli\"]\n"
		}
		return text
	}
	for name, give := range map[string]func(o *Options, keys ...string){
		"env": func(o *Options, keys ...string) {
			for _, k := range keys {
				o.Env = append(o.Env, variableOf(k)+"=cli")
			}
		},
		"flags": func(o *Options, keys ...string) {
			o.Flags = map[string]string{}
			for _, k := range keys {
				o.Flags[k] = "cli"
			}
		},
		"file": func(o *Options, keys ...string) { *o = place(t, file(keys...), "") },
	} {
		o := place(t, "", "")
		give(&o, was)
		c, err := Load(o)
		if err != nil || !cmp.Equal(c.Tools.Surfaces, []string{"cli"}) || c.Default(is) {
			t.Errorf("%s: %v", name, err)
		}
		o = place(t, "", "")
		give(&o, was, is)
		if _, err := Load(o); err == nil || !strings.Contains(err.Error(), "former name, and both are set") {
			t.Errorf("%s with both: %v", name, err)
		}
	}
}

// A list in a stronger place replaces the weaker one, never mixes with it.
func TestListsReplace(t *testing.T) {
	o := place(t, "[tools]\nallowed = [\"c\"]\n", "[tools]\nallowed = [\"a\", \"b\"]\n")
	c, err := Load(o)
	if err != nil || !cmp.Equal(c.Tools.Allowed, []string{"c"}) {
		t.Errorf("got %q, %v", c.Tools.Allowed, err)
	}
	o.Env = []string{"PALYRA_TOOLS_ALLOWED="}
	c, err = Load(o)
	if err != nil || c.Tools.Allowed == nil || len(c.Tools.Allowed) != 0 {
		t.Errorf("an empty variable should admit nothing: %q, %v", c.Tools.Allowed, err)
	}
	o.Env = []string{"PALYRA_TOOLS_ALLOWED= a , b,"}
	if c, err = Load(o); err != nil || !cmp.Equal(c.Tools.Allowed, []string{"a", "b"}) {
		t.Errorf("got %q, %v", c.Tools.Allowed, err)
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name, file, env, flag string
		want                  []string
	}{
		{name: "unknown key", file: "[approvals]\n\nwait = 3\n", want: []string{"config.toml:3: approvals.wait: unknown key"}},
		{name: "unknown section", file: "[aprovals]\nwait_ms = 3\n", want: []string{"config.toml:1: aprovals: unknown key"}},
		{
			name: "two unknown keys", file: "[log]\na = 1\nb = 2\n",
			want: []string{"config.toml:2: log.a: unknown key", "config.toml:3: log.b: unknown key"},
		},
		{name: "other case", file: "[log]\nLevel = 'debug'\n", want: []string{"config.toml:2: log.Level: unknown key"}},
		{name: "section in other case", file: "[LOG]\nlevel = 'debug'\n", want: []string{"config.toml:1: LOG: unknown key"}},
		{name: "wrong type", file: "[approvals]\nwait_ms = 'long'\n", want: []string{"config.toml:2: "}},
		{name: "wrong types", file: "[approvals]\nwait_ms = 1.5\nmax_pending = true\n[tools]\nallowed = 'x'\ntool_execute_channels = " +
			"[1]\n[log]\nlevel = 3\nformat = 2026-01-02\n", want: []string{
			"config.toml:2: approvals.wait_ms: this must be a whole number, not a number with a fraction",
			"config.toml:3: approvals.max_pending: this must be a whole number, not true or false",
			"config.toml:5: tools.allowed: this must be a list of texts, not a text",
			"config.toml:6: tools.tool_execute_channels: this must be a list of texts, and has a number in it",
			"config.toml:8: log.level: this must be a text in quotes, not a number",
			"config.toml:9: log.format: this must be a text in quotes, not a date or time",
		}},
		{
			name: "section that is none", file: "log = 3\n[[tools]]\nallowed = []\n",
			want: []string{"config.toml:1: log: this is a section: [log]", "config.toml:2: tools: this is a section: [tools]"},
		},
		{
			name: "all at once", file: "[approvals]\nwait = 1\nwait_ms = 'x'\nmax_pending = 0\n[nothing]\n", env: "PALYRA_LOG_LEVL=x",
			want: []string{
				"config.toml:2: approvals.wait: unknown key", "config.toml:3: approvals.wait_ms: this must be a whole number, not a text",
				"config.toml:4: approvals.max_pending: 0 is out of range", "config.toml:5: nothing: unknown key",
				"PALYRA_LOG_LEVL: no setting has this variable",
			},
		},
		{name: "not TOML", file: "[approvals\n", want: []string{"config.toml:1: "}},
		{name: "key twice", file: "[log]\nlevel = 'info'\nlevel = 'debug'\n", want: []string{"config.toml:3: "}},
		{
			name: "out of range", file: "[approvals]\nwait_ms = 0\n",
			want: []string{"config.toml:2: approvals.wait_ms: 0 is out of range: 1 to 604800000"},
		},
		{
			name: "negative", file: "[tool_call]\nmax_calls_per_run = -1\n",
			want: []string{"config.toml:2: tool_call.max_calls_per_run: -1 is out of range: 1 to 1000000"},
		},
		{name: "too large for a number", file: "[approvals]\nwait_ms = 99999999999999999999\n", want: []string{"config.toml:2: "}},
		{
			name: "word not in the list", file: "[log]\nlevel = 'loud'\n",
			want: []string{`config.toml:2: log.level: "loud" is not one of debug, info, warn, error`},
		},
		{
			name: "star in the middle", file: "[tools]\nallowed = ['a*b']\n",
			want: []string{`config.toml:2: tools.allowed: "a*b": a star stands alone or at the end, after a dot`},
		},
		{name: "star after no dot", file: "[tools]\nallowed = ['fs*']\n", want: []string{`config.toml:2: tools.allowed: "fs*": a star`}},
		{
			name: "name with an escape", file: "[tools]\nallowed = [\"a\\u001b\"]\n",
			want: []string{`config.toml:2: tools.allowed: "a\x1b" is not a name`},
		},
		{
			name: "relative store", file: "[store]\npath = 'x.db'\n",
			want: []string{`config.toml:2: store.path: "x.db" is not an absolute, clean path`},
		},
		{
			name: "variable that is no number", env: "PALYRA_APPROVALS_WAIT_MS=5m",
			want: []string{`PALYRA_APPROVALS_WAIT_MS: approvals.wait_ms: "5m" is not a whole number`},
		},
		{
			name: "variable out of range", env: "PALYRA_APPROVALS_MAX_PENDING=0",
			want: []string{"PALYRA_APPROVALS_MAX_PENDING: approvals.max_pending: 0 is out of range"},
		},
		{
			name: "variable that is no setting", env: "PALYRA_APPROVALS_WAIT=5",
			want: []string{"PALYRA_APPROVALS_WAIT: no setting has this variable"},
		},
		{name: "flag that is no setting", flag: "approvals.wait", want: []string{"--set approvals.wait: approvals.wait: unknown key"}},
		{
			name: "flag that is no number", flag: "approvals.wait_ms",
			want: []string{`--set approvals.wait_ms: approvals.wait_ms: "v" is not a whole number`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := place(t, c.file, "")
			if c.env != "" {
				o.Env = []string{c.env}
			}
			if c.flag != "" {
				o.Flags = map[string]string{c.flag: "v"}
			}
			got := Check(o)
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for i, p := range got {
				if text := strings.TrimPrefix(p.String(), o.Home+"/"); !strings.HasPrefix(text, c.want[i]) {
					t.Errorf("got  %s\nwant %s", text, c.want[i])
				}
			}
			_, err := Load(o)
			var e *palyra.Error
			if !errors.As(err, &e) || e.Code != palyra.Invalid || e.Reason != palyra.ReasonConfig || e.Remedy == "" {
				t.Errorf("Load: %#v", err)
			}
		})
	}
}

func TestLoadCountsProblems(t *testing.T) {
	o := place(t, "[log]\nlevel = 'x'\nformat = 'y'\n", "")
	c, err := Load(o)
	if err == nil || !strings.Contains(err.Error(), "log.level") || !strings.Contains(err.Error(), "(and 1 more)") {
		t.Errorf("got %v", err)
	}
	if c.ToolCall != (ToolCall{}) {
		t.Error("a bad configuration was returned")
	}
}

func TestUnsafeFiles(t *testing.T) {
	o := place(t, "[log]\nlevel = 'debug'\n", "")
	file := filepath.Join(o.Home, "config.toml")
	for _, mode := range []os.FileMode{0o620, 0o602, 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(o)
		var e *palyra.Error
		if !errors.As(err, &e) || e.Reason != palyra.ReasonUnsafePermissions {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(o); err != nil {
		t.Errorf("mode 644: %v", err)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		list []string
		name string
		want bool
	}{
		{nil, "palyra.echo", false},
		{[]string{"*"}, "palyra.echo", true},
		{[]string{"palyra.echo"}, "palyra.echo", true},
		{[]string{"palyra.echo"}, "palyra.echo2", false},
		{[]string{"palyra.fs.*"}, "palyra.fs.write", true},
		{[]string{"palyra.fs.*"}, "palyra.fsx", false},
		{[]string{"palyra.fs.*"}, "palyra.fs", false},
		{[]string{"palyra.f*"}, "palyra.fs.write", false},
		{[]string{"x", "agent:local"}, "agent:local", true},
	} {
		if got := Match(c.list, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.list, c.name, got)
		}
	}
}

// Every field of Config is a setting and every setting has a field: a key that
// only one side knows would be accepted and ignored.
func TestEveryFieldIsASetting(t *testing.T) {
	var doc strings.Builder
	section := ""
	for _, s := range settings {
		head, key, _ := strings.Cut(s.key, ".")
		if head != section {
			section = head
			doc.WriteString("[" + head + "]\n")
		}
		value := map[bool]string{true: "['x']", false: "'x'"}
		c := Default()
		switch s.value(&c).(type) {
		case *int64:
			doc.WriteString(key + " = 1\n")
		case *string:
			doc.WriteString(key + " = " + value[false] + "\n")
		case *[]string:
			doc.WriteString(key + " = " + value[true] + "\n")
		}
	}
	c := Default()
	c.origins = map[string]origin{}
	if problems := c.fromTOML("f", []byte(doc.String()), fromUser); problems != nil {
		t.Fatalf("%v\n%s", problems, doc.String())
	}
	want := Config{
		ToolCall: ToolCall{1, 1, 1, 1, 1, 1, 1}, Approvals: Approvals{1, 1, 1, 1, 1, 1},
		Tools:    Tools{[]string{"x"}, []string{"x"}, []string{"x"}},
		Sessions: Sessions{1}, Policy: Policy{"x", "x"},
		Process: Process{"x", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "x", 1, "x", 1, "x", "x", "x", 1, "x", "x", 1, 1, 1, 1},
		Egress:  Egress{"x", []string{"x"}, []string{"x"}, "x", "x", 1, "x", "x"}, Undo: Retention{1, 1},
		Dotenv: Dotenv{"x", []string{"x"}, []string{"x"}},
		Remote: Remote{"x", []string{"x"}, 1}, Console: Console{"x", "x", "x", "x", "x", "x", "x", []string{"x"}}, MCP: MCP{1},
		Models: Models{"x", 1, 1, 1, 1, []string{"x"}},
		Limits: Limits{1, 1, 1, 1}, Log: Log{"x", "x"}, Store: Store{"x"},
	}
	got := c
	got.origins = nil
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Config{}, Paths{})); diff != "" {
		t.Error(diff)
	}
	if len(c.origins) != len(settings) {
		t.Errorf("%d origins for %d settings", len(c.origins), len(settings))
	}
}

// Whatever a file holds: no panic, and no value out of its range without a
// problem that says so.
func FuzzFile(f *testing.F) {
	f.Add([]byte("[approvals]\nwait_ms = 5\n"))
	f.Add([]byte("tool_call = { max_calls_per_run = 2 }\nlog.level='info'\n"))
	f.Add([]byte("[[tools]]\nallowed=[1,'a']\n[store]\npath=\"\"\"\n/x\"\"\""))
	f.Add([]byte("[approvals]\nmax_ttl_ms = 0x7fffffffffffffff # \xff\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := Default()
		c.origins = map[string]origin{}
		problems := c.fromTOML("f", raw, fromUser)
		if problems != nil {
			want := Default()
			c.origins = nil
			if !cmp.Equal(want, c, cmp.AllowUnexported(Config{}, Paths{})) {
				t.Fatalf("values were taken from a bad file: %+v", c)
			}
			return
		}
		changed := map[string]bool{}
		for _, o := range c.Origins() {
			changed[o.Key] = o.Source == fromUser
		}
		def := Default()
		for i, o := range c.Origins() {
			if !changed[o.Key] && !cmp.Equal(o.Value, def.Origins()[i].Value) {
				t.Fatalf("%s changed and its origin does not say so", o.Key)
			}
		}
	})
}

// Where a configuration is can be said of one that cannot be used.
func TestLocate(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte("no = = toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Locate(Options{Env: []string{"PALYRA_HOME=" + home}})
	if err != nil || p.Config != filepath.Join(home, "config.toml") {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestStorePathMovesTheState(t *testing.T) {
	o := place(t, "[store]\npath = '/elsewhere/s.db'\n", "")
	c, err := Load(o)
	if err != nil || c.Paths.State != "/elsewhere/s.db" {
		t.Errorf("got %s, %v", c.Paths.State, err)
	}
}
