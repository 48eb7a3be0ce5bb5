package daemon

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/policy"
	"palyra/internal/policy/inforce"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
	"palyra/internal/store"
)

const noEcho = `@id("no-echo") @reason("quiet") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo");`

// with is the default bundle and one file more.
func with(t *testing.T, text string) map[string]string {
	t.Helper()
	files, err := policy.Preset(policy.DefaultPreset)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, "tests/") }) // which say what the preset itself says
	files["more.cedar"] = text
	return files
}

// person is the owner, who signed this.
func person(t *testing.T, d *Daemon, fields map[string]any) rpc.Caller {
	t.Helper()
	ops, err := d.access.Operators(t.Context())
	if err != nil || len(ops) == 0 {
		t.Fatalf("%v, %v", ops, err)
	}
	return rpc.Caller{
		Principal: ops[0].Principal, Role: palyra.RoleOwner, Cap: palyra.RoleOwner, Signed: true, Operator: ops[0],
		Evidence: palyra.Signature{Intent: palyra.Intent{KeyID: ops[0].KeyID, Method: "palyra.v1.PolicyService/ApplyPolicy"}, Fields: fields},
	}
}

func echoes(t *testing.T, d *Daemon) palyra.Verdict {
	t.Helper()
	why, err := d.explainer().Explain(t.Context(), "", palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
		Tool:     "palyra.echo", Arguments: json.RawMessage(`{"text":"x"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return why.Verdict
}

func mustApply(t *testing.T, d *Daemon, files map[string]string) wire.Activation {
	t.Helper()
	_, a, err := bundlesPart{d.bundles}.Apply(t.Context(), person(t, d, map[string]any{}), files, false)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// What is applied judges at once, and after every later start; what was before
// can be put back.
func TestApplyHoldsAndRollsBack(t *testing.T) {
	dir := home(t)
	d, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	first := d.policy.Bundle().Digest()
	a := mustApply(t, d, with(t, noEcho))
	if v := echoes(t, d); v.Effect != palyra.Deny || v.Bundle != a.Bundle || a.Bundle == first || !a.InForce {
		t.Fatalf("%+v under %+v", v, a)
	}
	if d.bundles.Name() != "custom" {
		t.Errorf("preset %s", d.bundles.Name())
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, setting := range []string{"", "tool_call.max_calls_per_run=7", ""} { // a change of the configuration chooses no policies
		if d, err = start(t, dir, setting); err != nil {
			t.Fatal(err)
		}
		if v := echoes(t, d); v.Effect != palyra.Deny || v.Bundle != a.Bundle {
			t.Fatalf("after a start with %q: %+v", setting, v)
		}
		if (setting == "") != (d.policy.Snapshot().MaxCallsPerRun == 64) {
			t.Errorf("the configuration %q is not in force", setting)
		}
		_ = d.Close()
	}
	if d, err = open(t, dir); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	back, err := bundlesPart{d.bundles}.Rollback(t.Context(), person(t, d, map[string]any{}), "", false)
	if err != nil || back.Bundle != first || echoes(t, d).Effect != palyra.Allow || d.bundles.Name() != "ask" {
		t.Fatalf("%+v, %v", back, err)
	}
	all, err := bundlesPart{d.bundles}.Activations(t.Context(), 2)
	if err != nil || len(all) != 2 || all[0] != back || all[1].Bundle != a.Bundle || all[1].InForce {
		t.Errorf("%+v, %v", all, err)
	}
	again, err := bundlesPart{d.bundles}.Rollback(t.Context(), person(t, d, nil), a.Bundle, false)
	if err != nil || again.Bundle != a.Bundle {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := (bundlesPart{d.bundles}).Rollback(t.Context(), person(t, d, nil), palyra.SumBytes(nil),
		false); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("a bundle that never was: %v", err)
	}
}

func start(t *testing.T, dir, setting string) (*Daemon, error) {
	t.Helper()
	flags := map[string]string{"process.dir": filepath.Join(t.TempDir(), "cells")}
	if key, value, ok := strings.Cut(setting, "="); ok {
		flags[key] = value
	}
	cfg, err := config.Load(config.Options{Home: dir, Env: []string{}, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return New(t.Context(), Config{Settings: cfg, Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

func TestNothingToRollBackTo(t *testing.T) {
	d := testDaemon(t)
	if _, err := (bundlesPart{d.bundles}).Rollback(t.Context(), person(t, d, nil), "", false); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
}

// Tests that fail are told on one line, each with its place.
func TestApplyTellsWhichTestsFailed(t *testing.T) {
	d := testDaemon(t)
	files := with(t, noEcho)
	files["tests/echo.yaml"] = "tests:\n  - name: echo runs\n    request: {tool: palyra.echo}\n    expect: allow\n  - name: so it " +
		"does\n    request: {tool: palyra.echo}\n    expect: allow\n"
	_, _, err := bundlesPart{d.bundles}.Apply(t.Context(), person(t, d, nil), files, false)
	text := palyra.AsError(err).Text
	if strings.Contains(text, "\n") || !strings.Contains(text, "tests/echo.yaml:2: echo runs: ") ||
		!strings.Contains(text, "; tests/echo.yaml:5: so it does: ") {
		t.Errorf("%q", text)
	}
}

// A bundle with anything wrong changes nothing, and the refusal says where.
func TestApplyRefuses(t *testing.T) {
	d := testDaemon(t)
	before := d.policy.Bundle()
	head, _ := d.journal.Head(t.Context())
	nobody := `@id("nobody") forbid (principal, action in [Action::"policy.write", Action::"approval.decide"], resource);`
	failing := with(t, noEcho)
	failing["tests/echo.yaml"] = "tests:\n  - name: echo runs\n    request: {tool: palyra.echo}\n    expect: allow\n"
	for name, c := range map[string]struct {
		files map[string]string
		code  palyra.Code
		say   string
	}{
		"nothing":       {map[string]string{}, palyra.Invalid, "no policy"},
		"a typo":        {with(t, "\n  @id(\"x\") permit (principal, action, resource) when { context.tol };"), palyra.Invalid, "more.cedar:2:"},
		"a stray file":  {map[string]string{"../x.cedar": noEcho}, palyra.Invalid, "a bundle has no such file"},
		"a failed test": {failing, palyra.Invalid, "echo runs"},
		"nobody's say": {with(t, nobody), palyra.Conflict, "no owner could answer approvals any more, because of nobody " +
			"(more.cedar:1); no owner could change policy any more, because of nobody (more.cedar:1)"},
	} {
		_, _, err := bundlesPart{d.bundles}.Apply(t.Context(), person(t, d, nil), c.files, false)
		if e := palyra.AsError(err); e.Code != c.code || !strings.Contains(e.Text, c.say) || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	after, _ := d.journal.Head(t.Context())
	if d.policy.Bundle() != before || after.Size != head.Size || echoes(t, d).Effect != palyra.Allow {
		t.Error("a refused bundle left something behind")
	}
	check, err := bundlesPart{d.bundles}.Check(t.Context(), with(t, nobody))
	if err != nil || len(check.Warnings) != 2 || len(check.Problems) != 0 || check.Bundle == "" {
		t.Errorf("%+v, %v", check, err)
	}
	if _, _, err := (bundlesPart{d.bundles}).Apply(t.Context(), person(t, d, nil), with(t, nobody), true); err != nil {
		t.Errorf("with force: %v", err)
	}
	if _, err := (bundlesPart{d.bundles}).Rollback(t.Context(), person(t, d, nil), "", true); palyra.CodeOf(err) != palyra.Denied {
		t.Errorf("policy.write was taken from everybody, and yet: %v", err)
	}
}

func TestApplyNeedsASignatureAndARole(t *testing.T) {
	d := testDaemon(t)
	unsigned := person(t, d, nil)
	unsigned.Signed = false
	viewer := person(t, d, nil)
	viewer.Role = palyra.RoleViewer
	for name, who := range map[string]rpc.Caller{"unsigned": unsigned, "viewer": viewer, "nobody": {}} {
		if _, _, err := (bundlesPart{d.bundles}).Apply(t.Context(), who, with(t, noEcho), true); palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("%s applied: %v", name, err)
		}
		if _, err := (bundlesPart{d.bundles}).Rollback(t.Context(), who, "", true); palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("%s rolled back: %v", name, err)
		}
	}
}

// The journal has who applied what, with a signature that can be checked against
// the texts that are kept.
func TestActivationEvidence(t *testing.T) {
	d := testDaemon(t)
	files := with(t, noEcho+strings.Repeat(" ", 200_000)) // more than a line of the journal holds
	fields := map[string]any{"files": anyMap(files), "force": false}
	body, err := palyra.IntentBody(fields)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	who := person(t, d, fields)
	who.Evidence.Intent.Body = body
	signed, err := who.Evidence.Intent.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	who.Evidence.PublicKey, who.Evidence.Sig = base64.StdEncoding.EncodeToString(public), base64.StdEncoding.EncodeToString(
		ed25519.Sign(private, signed))
	_, a, err := bundlesPart{d.bundles}.Apply(t.Context(), who, files, false)
	if err != nil {
		t.Fatal(err)
	}
	var last palyra.PolicyActivated
	if err := d.journal.Bodies(t.Context(), "policy.activated", func(raw []byte) error { return json.Unmarshal(raw, &last) }); err != nil {
		t.Fatal(err)
	}
	if last.Bundle != a.Bundle || last.By != who.Operator.Principal || last.Signature == nil {
		t.Fatalf("%+v", last)
	}
	kept, err := inforce.NewSnapshots(inforce.SnapshotsConfig{DB: d.db, Journal: d.journal, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	b, err := kept.Bundle(t.Context(), last.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]any{}
	for name, digest := range last.Signature.Fields["files"].(map[string]any) {
		text := b.Files()[name]
		if string(palyra.SumBytes([]byte(text))) != digest {
			t.Errorf("%s is not the text that was signed", name)
		}
		texts[name] = text
	}
	rebuilt := maps.Clone(last.Signature.Fields)
	rebuilt["files"] = texts
	if got, err := palyra.IntentBody(rebuilt); err != nil || got != last.Signature.Intent.Body {
		t.Errorf("the request cannot be put together again: %s, %v", got, err)
	}
	again, err := last.Signature.Intent.Bytes()
	if err != nil || !ed25519.Verify(public, again, ed25519.Sign(private, signed)) {
		t.Errorf("the signature does not hold: %v", err)
	}
}

func anyMap(files map[string]string) map[string]any {
	out := map[string]any{}
	for name, text := range files {
		out[name] = text
	}
	return out
}

// Every verdict made while bundles change is of one of them, whole.
func TestApplyUnderLoad(t *testing.T) {
	d := testDaemon(t)
	quietly, loud := with(t, noEcho), with(t,
		`@id("x") permit (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo");`)
	want := map[palyra.Digest]palyra.Effect{d.policy.Bundle().Digest(): palyra.Allow}
	for _, f := range []map[string]string{quietly, loud} {
		b, _ := policy.Check(f)
		want[b.Digest()] = map[bool]palyra.Effect{true: palyra.Deny, false: palyra.Allow}[f["more.cedar"] == noEcho]
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if v := echoes(t, d); v.Effect != want[v.Bundle] {
				t.Errorf("bundle %s answered %s", v.Bundle, v.Effect)
			}
		}
	})
	for range 5 {
		mustApply(t, d, quietly)
		mustApply(t, d, loud)
	}
	stop()
	wg.Wait()
}

// What somebody wrote into the table past the daemon chooses no policies.
func TestForeignActivationIsRefused(t *testing.T) {
	for name, change := range map[string]string{
		"added":   `INSERT INTO policy_activation SELECT seq+1000, bundle, snapshot, 'user:mallory', activated_at FROM policy_activation ORDER BY seq LIMIT 1`,
		"changed": `UPDATE policy_activation SET bundle = (SELECT bundle FROM policy_activation ORDER BY seq LIMIT 1)`,
		"whose":   `UPDATE policy_activation SET activated_by = 'system:daemon'`,
		"removed": `DELETE FROM policy_activation WHERE seq = (SELECT MAX(seq) FROM policy_activation)`,
		"text":    `UPDATE policy_bundle SET files = REPLACE(files, 'forbid', 'permit')`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := home(t)
			d, err := open(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			mustApply(t, d, with(t, noEcho))
			err = d.db.Write(t.Context(), "test", func(tx *store.Tx) error {
				_, err := tx.Exec(change)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			_ = d.Close()
			_, err = open(t, dir)
			if e := palyra.AsError(err); e.Code != palyra.Unavailable || e.Remedy == "" {
				t.Errorf("started: %v", err)
			}
		})
	}
}

func TestPresetIsFollowed(t *testing.T) {
	dir := home(t)
	for _, c := range []struct{ setting, want string }{
		{"", "default"},
		{"policy.preset=strict", "strict"},
		{"policy.preset=ci", "ci"},
		{"", "default"},
	} {
		d, err := start(t, dir, c.setting)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.bundles.Name(); got != c.want {
			t.Errorf("%s: %s", c.setting, got)
		}
		_ = d.Close()
	}
}

// layPolicies writes a policy directory that holds the default and one file more.
func layPolicies(t *testing.T, dir, text string) {
	t.Helper()
	for name, text := range with(t, text) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The directory speaks when it says something new; a broken one changes nothing.
func TestPolicyDir(t *testing.T) {
	dir, policies := home(t), t.TempDir()
	setting := "policy.dir=" + policies
	if _, err := start(t, dir, setting); palyra.CodeOf(err) != palyra.Invalid {
		t.Fatalf("an empty directory, and nothing else ever: %v", err)
	}
	layPolicies(t, policies, noEcho)
	d, err := start(t, dir, setting)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if echoes(t, d).Effect != palyra.Deny {
		t.Fatal("the directory is not in force")
	}
	reload := func(want palyra.Effect, good bool) {
		t.Helper()
		if err := d.bundles.Load(t.Context()); (err == nil) != good {
			t.Errorf("reload: %v", err)
		}
		if trouble := strings.Join(d.trouble.List(), ""); strings.Contains(trouble, "policy:") == good {
			t.Errorf("trouble %q", trouble)
		}
		if v := echoes(t, d); v.Effect != want {
			t.Errorf("%s", v.Effect)
		}
	}
	if _, err := (bundlesPart{d.bundles}).Rollback(t.Context(), person(t, d, nil), "", false); err != nil {
		t.Fatal(err)
	}
	reload(palyra.Allow, true) // it says nothing new: the rollback holds
	layPolicies(t, policies, strings.Replace(noEcho, "quiet", "quieter", 1))
	reload(palyra.Deny, true)
	layPolicies(t, policies, "broken")
	reload(palyra.Deny, false)
	layPolicies(t, policies, "// nothing more")
	reload(palyra.Allow, true)
	layPolicies(t, policies, noEcho)
	if err := os.Chmod(filepath.Join(policies, "more.cedar"), 0o666); err != nil {
		t.Fatal(err)
	}
	reload(palyra.Allow, false) // anybody may have written it
	if err := os.Chmod(filepath.Join(policies, "more.cedar"), 0o644); err != nil {
		t.Fatal(err)
	}
	reload(palyra.Deny, true)
}

func TestPolicyDirIsNoWorkspace(t *testing.T) {
	dir, policies := home(t), t.TempDir()
	layPolicies(t, policies, noEcho)
	d, err := start(t, dir, "policy.dir="+policies)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	out, err := d.path.calls.Call(t.Context(), palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
		Tool:     "palyra.fs.write", Workspace: policies,
		Arguments: json.RawMessage(`{"path":"more.cedar","content":""}`), NoWait: true,
	}, palyra.Watch{})
	if err != nil && !errors.As(err, new(*palyra.Error)) || err == nil && out.ReasonCode == palyra.ReasonApprovalNotAwaited {
		t.Errorf("an agent may ask to write policies: %+v, %v", out, err)
	}
}

// Whoever gives up gets nothing examined and nothing put into force.
func TestExaminingEndsWithItsCaller(t *testing.T) {
	d := testDaemon(t)
	before := d.policy.Bundle().Digest()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := (bundlesPart{d.bundles}).Check(ctx, with(t, noEcho)); palyra.AsError(err).Reason != palyra.ReasonCancelled ||
		palyra.AsError(err).Remedy == "" {
		t.Errorf("check: %v", err)
	}
	if _, _, err := (bundlesPart{d.bundles}).Apply(ctx, person(t, d, nil), with(t, noEcho), false); palyra.AsError(err).
		Reason != palyra.ReasonCancelled {
		t.Errorf("apply: %v", err)
	}
	if d.policy.Bundle().Digest() != before {
		t.Error("it is in force all the same")
	}
}
