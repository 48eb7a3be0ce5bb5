package e2e

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// attestedIn is the predicate of the attestation in an outcome.
func attestedIn(t testing.TB, raw []byte) (o palyra.Outcome, p palyra.Predicate) {
	t.Helper()
	if err := json.Unmarshal(raw, &o); err != nil || o.Attestation == nil {
		t.Fatalf("%v: %s", err, raw)
	}
	payload, err := base64.StdEncoding.DecodeString(o.Attestation.Payload)
	if err != nil {
		t.Fatal(err)
	}
	var st struct{ Predicate palyra.Predicate }
	if err := json.Unmarshal(payload, &st); err != nil {
		t.Fatal(err)
	}
	return o, st.Predicate
}

// The page's lines alone lead from nothing to a call of a signed skill, whose attestation says what it ran on and what it took.
func TestSkillsAsThePageTells(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(shipped...)
	d.inWorkspace()
	r := reader{d, t.TempDir(), d.client(client.OperatorDoor)}
	_, lines := told(t, "../../README.md", "From nothing to a call.")
	if len(lines) != 8 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	keepCaches(t)
	for _, line := range lines[:7] {
		r.unasked(line)
	}
	out, code := r.asks(lines[7], palyra.AnswerAllow, func(_ palyra.Approval, shown string) {
		if !strings.Contains(shown, "granted nothing") || !strings.Contains(shown, "skill demo 0.1.0") {
			t.Errorf("the question is\n%s", shown)
		}
	})
	raw, err := os.ReadFile(filepath.Join(d.work, "outcome.json"))
	if code != 0 || err != nil {
		t.Fatal(code, err, out, string(raw))
	}
	o, p := attestedIn(t, raw)
	if !strings.Contains(string(o.Output), "Hello, Ada.") || p.Tier != palyra.TierA || p.Runtime == nil {
		t.Fatalf("%s %+v", o.Output, p)
	}
	if got := p.Runtime; !strings.HasPrefix(got.Name, "wasmtime ") || got.ABI != "palyra-skill/1" || got.Skill != "demo@0.1.0" ||
		got.Fuel < 1000 ||
		!got.Package.Valid() || len(got.Granted) == 0 || slices.ContainsFunc(got.Granted,
		func(g string) bool { return strings.Contains(g, ":") }) {
		t.Errorf("%+v", got)
	}
	if !slices.Contains(p.Enforcement.Mechanisms, "skill:demo") {
		t.Errorf("%+v", p.Enforcement)
	}
	r.unasked("palyra keys export --out keys.json && palyra-verify --key keys.json outcome.json && palyra journal verify")

	r.inC(lines)
	r.unasked("palyra skills trust add --own") // again: it is trusted, and that is what was wanted

	// Taken away, it is no tool any more; and a key that is revoked takes it for good.
	r.unasked("palyra skills shrink demo --apply")
	r.unasked("palyra skills trust revoke " + d.publisher())
	revoked, err := r.typedLine(r.home, "palyra skills trust add --own").CombinedOutput()
	if err == nil || !strings.Contains(string(revoked), "publisher.key away") {
		t.Errorf("one's own key, which was revoked: %v %s", err, revoked)
	}
	if out, err := r.typedLine(r.home, lines[7]).CombinedOutput(); err == nil || !strings.Contains(string(out), "unknown_tool") {
		raw, _ := os.ReadFile(filepath.Join(d.work, "outcome.json"))
		if !strings.Contains(string(raw), "unknown_tool") {
			t.Errorf("%v %s %s", err, out, raw)
		}
	}
}

// inC leads to a call of a skill in C by the same lines.
func (r reader) inC(lines []string) {
	r.t.Helper()
	for i, line := range lines[:7] {
		line = strings.ReplaceAll(line, "demo", "demo-c")
		switch {
		case i == 0:
			line += " --lang c"
		case strings.Contains(line, "trust add"):
			continue // it is trusted already
		}
		r.unasked(line)
	}
	line := strings.NewReplacer("demo.greet", "demo-c.measure", `"name"`, `"text"`, "outcome.json", "c.json").Replace(lines[7])
	_, code := r.asks(line, palyra.AnswerAllow, func(palyra.Approval, string) {})
	raw, err := os.ReadFile(filepath.Join(r.work, "c.json"))
	if code != 0 || err != nil || !strings.Contains(string(raw), `"bytes":14`) {
		r.t.Errorf("%d %v %s", code, err, raw)
	}
}

// publisher is the key that is trusted.
func (d *daemon) publisher() string {
	d.t.Helper()
	all, err := d.client(client.OperatorDoor).Publishers(d.t.Context())
	if err != nil || len(all) != 1 {
		d.t.Fatal(all, err)
	}
	return all[0].KeyID
}
