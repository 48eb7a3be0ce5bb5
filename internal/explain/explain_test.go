package explain

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/config"
	"palyra/internal/policy"
	"palyra/internal/rpc/wire"
)

func proposal(tool, args string) palyra.Proposal {
	return palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
		Tool:     palyra.ToolName(tool), Arguments: json.RawMessage(args), NoWait: true,
	}
}

// loaded is the configuration where nobody chose.
func loaded(t *testing.T) config.Config {
	t.Helper()
	c, err := config.Load(config.Options{Home: t.TempDir(), Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A hold that is over is not spoken of.
func TestHoldsEnd(t *testing.T) {
	p := &Explainer{Config{Settings: loaded(t), Now: time.Now}}
	for age, want := range map[time.Duration]bool{0: true, 24 * time.Hour: false} {
		c := palyra.Call{Finished: time.Now().Add(-age)}
		f := p.noteDenyHold(&c, palyra.ReasonRecentlyDenied, []wire.Flip{{Kind: flipAnswer, Text: "x"}})
		if held := f[0].Text != "x"; held != want {
			t.Errorf("after %s: %+v", age, f)
		}
	}
}

func TestEdits(t *testing.T) {
	plan := palyra.Plan{Tier: palyra.TierB, Argv: []string{"x"}, Asks: true}
	for _, c := range []struct{ args, kind, want string }{
		{`{"command":"sh","args":["-c","git status -s"]}`, "the program itself", `{"args":["status","-s"],"command":"git"}`},
		{`{"script":"ls -la\n"}`, "the program itself", `{"args":["-la"],"command":"ls"}`},
		{`{"script":"ls | wc"}`, "the program itself", ""},
		{`{"script":"A=b ls"}`, "the program itself", ""},
		{`{"script":"#!/bin/sh\nls"}`, "the program itself", ""},
		{`{"script":"ls 'a b'"}`, "the program itself", ""},
		{`{"command":"bash","args":["-c","ls","x"]}`, "the program itself", ""},
		{`{"command":"x","tier":"b"}`, "--tier c", `{"command":"x","tier":"c"}`},
		{`{"command":"x","tier":"c"}`, "--tier c", ""},
		{`{"command":"x","egress":["a:1"]}`, "leave out --egress", `{"command":"x"}`},
		{`{"command":"x"}`, "leave out --egress", ""},
		{`{"command":"x","limits":{"cpu_ms":12345678901234567890}}`, "leave out --env", ""},
		{
			`{"command":"x","limits":{"cpu_ms":12345678901234567890},"env":{"A":"<b>"}}`, "leave out --env",
			`{"command":"x","limits":{"cpu_ms":12345678901234567890}}`,
		},
		{`{"command":"x"}`, "--profile none", `{"command":"x","profile":"none"}`},
	} {
		args, ok := object(json.RawMessage(c.args))
		all := edits(&palyra.Call{Plan: plan}, "")
		i := slices.IndexFunc(all, func(e edit) bool { return strings.Contains(e.text, c.kind) })
		if !ok || i < 0 {
			t.Fatal(c.args)
		}
		got := ""
		if all[i].apply(args) {
			raw, err := canon.JSON(args)
			if err != nil {
				t.Fatal(err)
			}
			got = string(raw)
		}
		if got != c.want {
			t.Errorf("%s %s: %s", c.args, c.kind, got)
		}
	}
}

// Settings are proposed in words that the configuration takes, and what only a run
// shows is not said to be tried.
func TestSettings(t *testing.T) {
	p := &Explainer{Config{Settings: loaded(t)}}
	own := palyra.Call{
		Plan:     palyra.Plan{Limits: palyra.Limits{WallMS: 10, MemoryBytes: 1 << 40}},
		Proposal: proposal("palyra.process.run", `{"command":"x","limits":{"memory_bytes":8589934592,"cpu_ms":5},"timeout_ms":600000}`),
	}
	for _, c := range []struct {
		reason palyra.Reason
		killed string
		want   string
		open   string
	}{
		{palyra.ReasonQuotaExceeded, "memory", "process.memory_bytes = 2199023255552", openRun},
		{palyra.ReasonQuotaExceeded, "cpu", "process.cpu_ms = 1200000", openRun},
		{palyra.ReasonQuotaExceeded, "moon", "", ""},
		{palyra.ReasonQuotaExceeded, "", "", ""},
		{palyra.ReasonTimedOut, "", "tool_call.execution_timeout_ms = 240000", openRun},
		{palyra.ReasonPosture, "", `process.posture = "off"`, ""},
		{palyra.ReasonDisabled, "", `process.tier = "c"`, ""},
		{palyra.ReasonBudgetSpent, "", "tool_call.max_calls_per_run = 128", ""},
		{palyra.ReasonApprovalExpired, "", "approvals.wait_ms = 600000", openTime},
		{palyra.ReasonMalformedInput, "", "process.memory_bytes = 8589934592\ntool_call.execution_timeout_ms = 600000", ""},
		{palyra.ReasonWeakEnforcement, "", "", ""},
		{palyra.ReasonRecentlyDenied, "", "", ""}, // a hold that is on stays on
		{palyra.ReasonEgressDenied, "", "", ""},
		{palyra.ReasonUnknownTool, "", "", ""},
	} {
		got := p.relevantSettings(t.Context(), &own, c.reason, c.killed)
		if c.want == "" {
			if len(got) > 0 {
				t.Errorf("%s %s: %+v", c.reason, c.killed, got)
			}
			continue
		}
		if len(got) != 1 || strings.Join(got[0].uses, "\n") != c.want || got[0].open != c.open {
			t.Errorf("%s %s: %+v", c.reason, c.killed, got)
			continue
		}
		flags := map[string]string{}
		for _, use := range got[0].uses {
			key, value, _ := strings.Cut(use, " = ")
			flags[key] = strings.Trim(value, `"`)
		}
		want, err := config.Load(config.Options{Home: t.TempDir(), Env: []string{}, Flags: flags})
		if err != nil {
			t.Fatalf("%v: %v", got[0].uses, err)
		}
		conf := p.Settings
		got[0].set(&conf)
		conf.Process.Dir = ""
		if !reflect.DeepEqual([]any{conf.Process, conf.ToolCall, conf.Approvals}, []any{want.Process, want.ToolCall, want.Approvals}) {
			t.Errorf("%v is tried as %+v", got[0].uses, conf)
		}
	}
}

// A run that has fewer calls of its own is not told to raise everybody's.
func TestSettingsOfARunsOwnBudget(t *testing.T) {
	p := &Explainer{Config{Settings: loaded(t)}}
	c := palyra.Call{Proposal: palyra.Proposal{Proposer: palyra.Proposer{CallsMax: 3, CallsUsed: 3}}}
	if got := p.relevantSettings(t.Context(), &c, palyra.ReasonBudgetSpent, ""); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// The settings that are proposed for a host are those under which it is taken.
func TestWhyOfHosts(t *testing.T) {
	settings := loaded(t)
	for name, c := range map[string]struct {
		allowed []string
		args    string
		want    string
	}{
		"this machine, no list": {nil, `{"egress":["localhost:1"]}`, `egress.private_ranges = ["127.0.0.0/8"]`},
		"not listed": {
			[]string{"a.example"},
			`{"egress":["b.example:1","a.example:1"]}`,
			`egress.allowed_hosts = ["a.example","b.example:1"]`,
		},
		"this machine, a list": {
			[]string{"a.example"},
			`{"egress":["localhost:1"]}`,
			"egress.private_ranges = [\"127.0.0.0/8\"]\negress.allowed_hosts = [\"a.example\",\"localhost:1\"]",
		},
		"listed, this machine":   {[]string{"localhost"}, `{"egress":["localhost:1"]}`, `egress.private_ranges = ["127.0.0.0/8"]`},
		"nothing wrong":          {nil, `{"egress":["a.example:1"]}`, ""},
		"not a host":             {nil, `{"egress":["::"]}`, ""},
		"not a host and a list":  {[]string{"a.example"}, `{"egress":[""]}`, ""},
		"arguments of something": {nil, `[]`, ""},
	} {
		conf := settings.Egress
		conf.AllowedHosts = c.allowed
		got := hostSettings(conf, named(proposal("palyra.process.run", c.args)))
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: %+v", name, got)
		case c.want != "" && (len(got) != 1 || strings.Join(got[0].uses, "\n") != c.want || got[0].open != "" || got[0].kind != flipConfig):
			t.Errorf("%s: %+v", name, got)
		}
	}
	if takes(config.Egress{Mode: "strict", PrivateRanges: []string{"x"}}, nil) || takes(config.Egress{Mode: "moon"}, nil) {
		t.Error("settings that are none were taken")
	}
}

// The hosts of a call are found whatever its tool is.
func TestNamed(t *testing.T) {
	for _, c := range []struct{ tool, args, want string }{
		{"palyra.process.run", `{"egress":["a:1","b:2"]}`, "[a:1 b:2]"},
		{"palyra.http.fetch", `{"url":"https://a.example/x","redirect_to":["b:2"]}`, "[a.example:443 b:2]"},
		{"palyra.http.fetch", `{"url":"http://a.example"}`, "[a.example:80]"},
		{"palyra.http.fetch", `{"url":"http://[::1]:7/"}`, "[[::1]:7]"},
		{"palyra.http.fetch", `{"url":"::"}`, "[]"},
		{"palyra.egress.allow", `{"host":"a","port":3}`, "[a:3]"},
		{"palyra.echo", `{"text":"a:1"}`, "[]"},
		{"palyra.echo", `null`, "[]"},
	} {
		if got := fmt.Sprint(named(proposal(c.tool, c.args))); got != c.want {
			t.Errorf("%s %s: %s", c.tool, c.args, got)
		}
	}
}

// A program is not proposed with nothing to work on.
func TestInsideLeavesSomething(t *testing.T) {
	plan := palyra.Plan{
		Workspace: palyra.WorkspaceRef{Path: "/w"}, Cwd: "/w", Executable: palyra.Executable{Path: "/usr/bin/cat"},
		Env: []palyra.EnvVar{{Name: "PATH", Value: "/usr/bin"}},
	}
	for line, want := range map[string]bool{
		"cat /etc/hosts": false, "cat -n /etc/hosts": false, "cat a.txt /etc/hosts": true,
		"cat a.txt": false,
	} {
		plan.Argv = strings.Fields(line)
		args := map[string]any{"args": []any{}}
		for _, a := range plan.Argv[1:] {
			args["args"] = append(args["args"].([]any), a)
		}
		if got := editInside(plan).apply(args); got != want {
			t.Errorf("%s: %v", line, args)
		}
	}
}

func TestRefusedHosts(t *testing.T) {
	got := refusedHosts([]palyra.EgressFlow{
		{Host: "a", Port: 1, Verdict: "deny"},
		{Host: "a", Port: 1, Verdict: "deny"},
		{Host: "b", Port: 2, Verdict: "allow"},
		{Host: "c", Verdict: "deny"},
		{Host: "::1", Port: 3, Verdict: "deny"},
	})
	if !slices.Equal(got, []string{"a:1", "[::1]:3"}) {
		t.Error(got)
	}
}

// How a call ended is told with who answered.
func TestBecame(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	for want, c := range map[string]palyra.Call{
		"answered deny by user:me at 2030-01-02T03:04:05Z\nit ended: refused": {
			Decision: palyra.Decision{Answer: palyra.AnswerDeny, By: "user:me", At: at},
			Outcome:  &palyra.Outcome{Outcome: "refused", Layer: palyra.LayerApproval},
		},
		"lease G by user:me covered it; nobody was asked\nit ended: failed, by signal KILL": {
			Decision: palyra.Decision{Answer: palyra.AnswerAllow, By: "user:me", Reused: true, Lease: "G"},
			Outcome:  &palyra.Outcome{Outcome: "failed", Signal: "KILL"},
		},
		"answered allow by user:me\nit has not ended: pending": {
			Decision: palyra.Decision{Answer: palyra.AnswerAllow, By: "user:me"},
			State:    palyra.Pending,
		},
	} {
		if got := strings.Join(describeEnd(&c), "\n"); got != want {
			t.Errorf("%s", got)
		}
	}
}

// What policy says of a command is told of a call on record as well, where its end has other words.
func TestJudgement(t *testing.T) {
	asks := policy.Explanation{Verdict: palyra.Ask, Reason: "needs an approval; about this command: rm removes x"}
	for said, want := range map[string][]string{
		"the caller does not wait": {"policy now: " + asks.Reason}, asks.Reason: nil,
	} {
		if got := judgement(said, asks); !slices.Equal(got, want) {
			t.Errorf("%q: %q", said, got)
		}
	}
	if got := judgement("x", policy.Explanation{Verdict: palyra.Allow, Reason: "y"}); got != nil {
		t.Errorf("of an allowed call: %q", got)
	}
}

// Everything that policy is told of changes is told to whoever asks why, by the name that policies use; and what lies in
// quarantine is named.
func TestWhyNamesWhatARunDid(t *testing.T) {
	c := &palyra.Call{
		Keep:    &palyra.Keep{Effects: palyra.Effects{Created: 1}},
		Outcome: &palyra.Outcome{Quarantined: []palyra.PathText{"a/.envrc", "b"}},
	}
	facts := reflect.ValueOf(&c.Keep.Facts).Elem()
	for i := range facts.NumField() {
		switch f := facts.Field(i); f.Kind() {
		case reflect.Int64:
			f.SetInt(7)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			one := reflect.MakeSlice(f.Type(), 1, 1)
			one.Index(0).SetString("name")
			f.Set(one)
		}
		name, _, _ := strings.Cut(facts.Type().Field(i).Tag.Get("json"), ",")
		if got := describeFacts(c.Keep.Facts); !strings.Contains("; "+got+"; ", "; "+name+" ") && !strings.Contains("; "+got+";", "; "+name+";") {
			t.Errorf("%s is not told: %s", name, got)
		}
	}
	if got := strings.Join(describeChanges(c), "\n"); !strings.Contains(got, "(1 path)") ||
		!strings.Contains(got, "policy saw of it: created 7; ") {
		t.Error(got)
	}
	if got := strings.Join(describeQuarantine(c), "\n"); !strings.HasSuffix(got, ": a/.envrc, b") {
		t.Error(got)
	}
}
