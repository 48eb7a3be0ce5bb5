//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/client/bundle"
)

// answered proposes a call, answers its question and returns the outcome.
func (d *daemon) answered(r client.CallRequest, with palyra.Answer, scope palyra.Scope) palyra.Outcome {
	d.t.Helper()
	person := d.client(client.OperatorDoor)
	a, _, ch, err := question(d.t.Context(), d.client(client.AgentDoor), person, r)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := person.Decide(d.t.Context(), client.DecideRequest{
		ID: a.ID, Answer: with, Scope: scope, Digest: a.PlanDigest,
		Reason: "test",
	}); err != nil {
		d.t.Fatal(err)
	}
	end := <-ch
	if end.err != nil {
		d.t.Fatalf("%v\n%s", end.err, d.log)
	}
	return end.out
}

// at once proposes a call that waits for nobody.
func (d *daemon) atOnce(r client.CallRequest) palyra.Outcome {
	d.t.Helper()
	r.NoWait = true
	out, err := d.client(client.AgentDoor).Call(d.t.Context(), r, nil)
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.log)
	}
	return out
}

// lived makes a history of every kind of call: one that ran, four that were asked
// about (three allowed, one of those for the session, one denied), one that the
// session's answer covered, one that policy denied, one of a tool that is not there.
func (d *daemon) lived() {
	t := d.t
	t.Helper()
	person := d.client(client.OperatorDoor)
	if out := d.atOnce(echo("x")); out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", out)
	}
	for _, text := range []string{"x", "y"} {
		if out := d.answered(write(d.work, "a.txt", text), palyra.AnswerAllow, palyra.ScopeOnce); out.Outcome != palyra.OutcomeFinished {
			t.Fatalf("%+v", out)
		}
	}
	if out := d.answered(write(d.work, "b.txt", "x"), palyra.AnswerDeny, ""); out.ReasonCode != palyra.ReasonApprovalDenied {
		t.Fatalf("%+v", out)
	}
	if out := d.answered(write(d.work, "c.txt", "x"), palyra.AnswerAllow, palyra.ScopeSession); out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", out)
	}
	if err := os.Remove(filepath.Join(d.work, "c.txt")); err != nil { // the plan binds that it is not there
		t.Fatal(err)
	}
	if out := d.atOnce(write(d.work, "c.txt", "x")); out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", out)
	}
	noEcho := `@id("no-echo") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo");`
	if _, _, err := person.ApplyPolicy(t.Context(), defaultWith(t, noEcho), false); err != nil {
		t.Fatal(err)
	}
	if out := d.atOnce(echo("y")); out.ReasonCode != palyra.ReasonPolicyDenied {
		t.Fatalf("%+v", out)
	}
	if _, err := person.RollbackPolicy(t.Context(), "", false); err != nil {
		t.Fatal(err)
	}
	if out := d.atOnce(client.CallRequest{Tool: "palyra.none", Surface: palyra.SurfaceCLI}); out.Layer != palyra.LayerCatalog {
		t.Fatalf("%+v", out)
	}
}

// policyJSON runs a command about policy and reads what it prints.
func policyJSON[T any](d *daemon, args ...string) (v T) {
	d.t.Helper()
	cmd := d.palyra(append(append([]string{"policy"}, args...), "--json")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		d.t.Fatalf("%v: %v\n%s\n%s", args, err, raw, stderr.String())
	}
	return v
}

// defaultWith is the default bundle and one file more, without the tests that hold
// for the default alone.
func defaultWith(t testing.TB, more string) map[string]string {
	t.Helper()
	files, err := bundle.Preset("ask")
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "tests/") })
	files["more.cedar"] = more
	return files
}

// layBundle writes such a bundle to a directory.
func layBundle(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range defaultWith(t, more) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func changes(r client.ReplayReport) map[string]int64 {
	out := map[string]int64{}
	for _, t := range r.Transitions {
		if t.Count != int64(len(t.Calls)) {
			out["listed wrongly"]++
		}
		if t.Count > 0 {
			out[t.From.String()+"→"+t.To.String()] = t.Count
		}
	}
	return out
}

// Real calls are judged again as they were first judged, by a candidate that
// changes each of them.
func TestReplayOfRealCalls(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(unlimited...)
	if out, err := d.palyra("workspace", "add", d.work).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d.lived()
	r := policyJSON[client.ReplayReport](d, "replay")
	if got := changes(r); r.Records != 8 || r.Same != 6 || !maps.Equal(got, map[string]int64{"deny→allow": 1}) {
		t.Errorf("the policies in force: %d records, %d the same, %v", r.Records, r.Same, got)
	}
	if want := (client.ReplayPrompts{Before: 4, After: 4}); r.Prompts != want {
		t.Errorf("%+v", r.Prompts)
	}
	if r.Unreplayable != 1 || len(r.Gaps) != 1 || !strings.Contains(r.Gaps[0].Reason, "before there was a plan (catalog)") ||
		len(r.Gaps[0].Calls) != 1 {
		t.Errorf("%+v", r.Gaps)
	}
	dir := layBundle(t, `
@id("no-echo") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo");
@id("a") permit (principal, action == Action::"tool.execute", resource == Tool::"palyra.fs.write") when { context.writes.contains("a.txt") };
@id("no-b") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.fs.write") when { context.writes.contains("b.txt") };`)
	r = policyJSON[client.ReplayReport](d, "replay", "--candidate", dir)
	if got := changes(r); r.Same != 3 || !maps.Equal(got, map[string]int64{"allow→deny": 1, "ask→allow": 2, "ask→deny": 1}) {
		t.Errorf("%d the same, %v", r.Same, got)
	}
	if want := (client.ReplayPrompts{Before: 4, After: 1, Saved: 2}); r.Prompts != want {
		t.Errorf("%+v", r.Prompts)
	}
	for _, c := range r.Transitions[0].Calls {
		if c.Tool != "palyra.echo" || len(c.Policies) != 1 || c.Policies[0] != "no-echo" || c.Before[0] != "read-only-tools" {
			t.Errorf("%+v", c)
		}
	}
	asked := layBundle(t, `@id("ask") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo") unless { context.approval.granted };`)
	r = policyJSON[client.ReplayReport](d, "replay", "--candidate", asked)
	if got := changes(r); !maps.Equal(got, map[string]int64{"allow→ask": 1, "deny→ask": 1}) || r.Prompts.Added != 2 {
		t.Errorf("%v %+v", got, r.Prompts)
	}
	replayTwice(t, d, dir)
	replayBadly(t, d)
	d.verify()
}

// replayTwice holds two replays against each other, byte by byte, and looks at the
// words for people.
func replayTwice(t *testing.T, d *daemon, dir string) {
	t.Helper()
	var first []byte
	for range 2 {
		out, err := d.palyra("policy", "replay", "--candidate", dir, "--json").Output()
		if err != nil || first != nil && !bytes.Equal(first, out) {
			t.Errorf("%v\n%s\n%s", err, first, out)
		}
		first = out
	}
	out, err := d.palyra("policy", "replay", "--candidate", dir).CombinedOutput()
	for _, want := range []string{
		"allow→deny", "ask→allow", "4 then, 1 now: 2 saved, 0 added", "before there was a plan", "no-b",
		"palyra.fs.write",
	} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q is missing: %v\n%s", want, err, out)
		}
	}
	if strings.Contains(string(out), "\x1b") {
		t.Errorf("not a terminal: %q", out)
	}
}

// replayBadly gives a replay what it cannot use.
func replayBadly(t *testing.T, d *daemon) {
	t.Helper()
	code := func(args ...string) (int, string) {
		t.Helper()
		out, err := d.palyra(append([]string{"policy"}, args...)...).CombinedOutput()
		exit := (*exec.ExitError)(nil)
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit == nil {
			return 0, string(out)
		}
		return exit.ExitCode(), string(out)
	}
	if n, out := code("replay", "--candidate", layBundle(t, "@id(\"x\")\npermit (principal, action, nonsense);")); n != 1 ||
		!strings.Contains(out, "more.cedar:2:") || !strings.Contains(out, "nothing was judged") {
		t.Errorf("broken: %d\n%s", n, out)
	}
	for _, args := range [][]string{
		{"replay", "--candidate", filepath.Join(d.work, "none")},
		{"replay", "--since", "soon"},
		{"replay", "--since", "-1h"},
		{"replay", "--since", "1h", "--until", "2h"},
		{"suggest", "--rules", "101"},
		{"suggest", "--since", "soon"},
	} {
		if n, out := code(args...); n == 0 || strings.Contains(out, "panic") {
			t.Errorf("%v: %d\n%s", args, n, out)
		}
	}
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	if r := policyJSON[client.ReplayReport](d, "replay", "--since", later); r.Records != 0 || len(r.Gaps) != 0 {
		t.Errorf("in the future: %+v", r)
	}
	if r := policyJSON[client.ReplayReport](d, "replay", "--since", "7d", "--until", later); r.Records != 8 {
		t.Errorf("of a week: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.client(client.OperatorDoor).ReplayPolicy(ctx, client.ReplayQuery{}, nil); err == nil {
		t.Error("cancelled, and yet a report")
	}
	if _, err := d.client(client.AgentDoor).ReplayPolicy(t.Context(), client.ReplayQuery{}, nil); err == nil {
		t.Error("an agent reads the past")
	}
}

// A suggestion is made of what people allowed; once somebody applies it the same
// call runs without a question, and what they denied does not.
func TestSuggestFromRealCalls(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(unlimited...)
	if out, err := d.palyra("workspace", "add", d.work).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d.lived()
	before, _ := inForce(t, d)
	dir := filepath.Join(t.TempDir(), "suggested")
	s := policyJSON[client.PolicySuggestion](d, "suggest", "--out", dir)
	if len(s.Rules) != 1 || s.Rules[0].Saves != 3 || len(s.Rules[0].Calls) != 3 || s.Report.Prompts.Before != 4 ||
		s.Report.Prompts.After != 1 {
		t.Fatalf("%+v %+v", s.Rules, s.Report.Prompts)
	}
	if text, err := os.ReadFile(filepath.Join(dir, s.File)); err != nil || !strings.Contains(string(text), s.Rules[0].ID) {
		t.Fatalf("%s, %v", text, err)
	}
	if after, _ := inForce(t, d); after != before {
		t.Fatal("a suggestion is in force")
	}
	if out, err := d.palyra("policy", "suggest", "--out", dir).CombinedOutput(); err == nil {
		t.Errorf("somebody's directory was written over:\n%s", out)
	}
	r := policyJSON[client.ReplayReport](d, "replay", "--candidate", dir)
	if got := changes(r); !maps.Equal(got, map[string]int64{"ask→allow": 4, "deny→allow": 1}) || r.Prompts.Saved != 3 {
		t.Errorf("%v %+v", got, r.Prompts)
	}
	if out := d.atOnce(write(d.work, "a.txt", "z")); out.ReasonCode != palyra.ReasonApprovalNotAwaited {
		t.Fatalf("before: %+v", out)
	}
	if out, err := d.palyra("policy", "apply", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := d.atOnce(write(d.work, "a.txt", "zz")); out.Outcome != palyra.OutcomeFinished {
		t.Errorf("after: %+v", out)
	}
	for _, name := range []string{"b.txt", "d.txt", ".git/hooks/pre-commit"} {
		if out := d.atOnce(write(d.work, name, "new")); out.Outcome == palyra.OutcomeFinished {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if s = policyJSON[client.PolicySuggestion](d, "suggest"); len(s.Rules) != 0 {
		t.Errorf("again: %+v", s.Rules)
	}
	d.verify()
}
