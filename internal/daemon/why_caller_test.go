package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// Nothing is said of somebody who could make no call.
func TestWhyOfSomebodyUnknown(t *testing.T) {
	d := testDaemon(t)
	me := person(t, d, nil).Principal
	for who, code := range map[palyra.Principal]palyra.Code{
		"xx": palyra.Invalid, "": palyra.Invalid, "user:": palyra.Invalid, "user:bob-nobody": palyra.NotFound, "agent:nobody": palyra.NotFound,
	} {
		p := proposal("palyra.echo", `{"text":"x"}`)
		p.Principal, p.Owner = who, ""
		_, err := d.explainer().Explain(t.Context(), "", p)
		if e := palyra.AsError(err); err == nil || e.Code != code || e.Remedy == "" || strings.Contains(e.Remedy, "report this") {
			t.Errorf("%q: %v", who, err)
		}
	}
	for _, who := range []palyra.Principal{me, "agent:local", "device:x"} {
		p := proposal("palyra.echo", `{"text":"x"}`)
		p.Principal, p.Owner = who, ""
		explained(t, d, "", p)
	}
}

// asked proposes a call and answers its question.
func asked(t *testing.T, d *Daemon, p palyra.Proposal, answer palyra.Answer, scope palyra.Scope) {
	t.Helper()
	p.NoWait = true
	out, err := d.path.calls.Call(t.Context(), p, palyra.Watch{})
	if err != nil || out.ApprovalID == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	_, err = d.desk.Decide(t.Context(), palyra.Vote{
		Approval: out.ApprovalID, Answer: answer, Scope: scope, By: person(t, d, nil).Principal, Method: palyra.MethodCLI, At: now(),
		Digest:     out.PlanDigest,
		Separation: palyra.SeparationNone, Signature: palyra.Signature{PublicKey: "k", Sig: "s"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A live grant answers the question in its own session, and is named for others.
func TestWhyKnowsGrants(t *testing.T) {
	d := testDaemon(t)
	p := proposal("palyra.fs.write", `{"path":"a","content":"b"}`)
	p.Workspace = t.TempDir()
	if e := explained(t, d, "", p); e.Layer != palyra.LayerApproval || strings.Contains(e.Remedy, "grant") {
		t.Fatalf("%+v", e)
	}
	asked(t, d, p, palyra.AnswerAllow, palyra.ScopeSession)
	if e := explained(t, d, "", p); e.Layer != "" || !strings.Contains(e.Remedy, "nobody would be asked") ||
		!slices.Contains(e.Lines, e.Remedy) || e.Verdict.Effect != palyra.Ask {
		t.Errorf("%q %q", e.Layer, e.Remedy)
	}
	p.Surface = palyra.SurfaceAPI
	if e := explained(t, d, "", p); e.Layer != palyra.LayerApproval || !strings.HasPrefix(e.Remedy, "propose it in session ") {
		t.Errorf("%q %q", e.Layer, e.Remedy)
	}
	p.Arguments = []byte(`{"path":"other","content":"b"}`)
	if e := explained(t, d, "", p); strings.Contains(e.Remedy, "grant") {
		t.Error(e.Remedy)
	}
}

// What became of a call, and who answered, is told.
func TestWhyTellsTheEnd(t *testing.T) {
	d := testDaemon(t)
	out, err := d.path.calls.Call(t.Context(), proposal("palyra.echo", `{"text":"x"}`), palyra.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	if e := explained(t, d, out.CallID, palyra.Proposal{}); !slices.ContainsFunc(e.Lines,
		func(s string) bool { return strings.HasPrefix(s, "it ended: ") && strings.HasSuffix(s, "exit code 0") }) {
		t.Errorf("%q", e.Lines)
	}
}

// While a denied plan is on hold nobody is told that an answer would do now.
func TestWhyKnowsTheHold(t *testing.T) {
	d := testDaemon(t)
	p := proposal("palyra.fs.write", `{"path":"a","content":"b"}`)
	p.Workspace = t.TempDir()
	asked(t, d, p, palyra.AnswerDeny, "")
	out, err := d.path.calls.Call(t.Context(), p, palyra.Watch{})
	if err != nil || out.ReasonCode != palyra.ReasonRecentlyDenied {
		t.Fatalf("%+v, %v", out, err)
	}
	e := explained(t, d, out.CallID, palyra.Proposal{})
	if len(e.Flips) == 0 || e.Flips[0].Kind != "answer" || !strings.HasSuffix(e.Flips[0].Text, "once the denied plan may be asked for again") {
		t.Errorf("%+v", e.Flips)
	}
}

// Whoever is bound to workspaces learns nothing of others: not of calls on record
// there, and not by imagining some.
func TestWhyStaysWithinWorkspaces(t *testing.T) {
	d := testDaemon(t)
	mine, other := t.TempDir(), t.TempDir()
	p := proposal("palyra.fs.list", `{"path":"."}`)
	p.Workspace = other
	out, err := d.path.calls.Call(t.Context(), p, palyra.Watch{})
	if err != nil || out.CallID == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	part := d.explainer()
	_, none := part.Explain(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV", palyra.Proposal{Proposer: palyra.Proposer{Within: []string{mine}}})
	_, err = part.Explain(t.Context(), palyra.ID(out.CallID), palyra.Proposal{Proposer: palyra.Proposer{Within: []string{mine}}})
	same := strings.ReplaceAll(palyra.AsError(none).Text, "01ARZ3NDEKTSV4RRFFQ69G5FAV", string(out.CallID))
	if e := palyra.AsError(err); e.Code != palyra.NotFound || e.Text != same || e.Remedy != palyra.AsError(none).Remedy {
		t.Errorf("%v, want %s", err, same)
	}
	if _, err := part.Explain(t.Context(), palyra.ID(out.CallID), palyra.Proposal{
		Proposer: palyra.Proposer{Within: []string{other}},
	}); err != nil {
		t.Error(err)
	}
	p.Within = []string{mine}
	if e := explained(t, d, "", p); e.ReasonCode != palyra.ReasonScopeDenied || len(e.Plan.Reads) > 0 {
		t.Errorf("%+v", e)
	}
	// Nor by what would turn the answer: an edit can be planned only where its text
	// stands, which would tell the file letter by letter.
	if err := os.WriteFile(filepath.Join(other, "key"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Tool, p.Owner = "palyra.fs.edit", person(t, d, nil).Principal
	var said []string
	for _, text := range []string{"secret", "public"} {
		p.Arguments = fmt.Appendf(nil, `{"path":"key","old_string":%q,"new_string":"x"}`, text)
		e := explained(t, d, "", p)
		said = append(said, fmt.Sprintf("%s %s %+v", e.ReasonCode, e.Lines, e.Flips))
	}
	if said[0] != said[1] || strings.Contains(said[0], other) {
		t.Errorf("%q", said)
	}
}
