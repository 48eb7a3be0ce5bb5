package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/rpc/wire"
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
		_, err := policyPart{d}.Explain(t.Context(), "", p)
		if e := palyra.AsError(err); err == nil || e.Code != code || e.Remedy == "" || strings.Contains(e.Remedy, "report this") {
			t.Errorf("%q: %v", who, err)
		}
	}
	for _, who := range []palyra.Principal{me, "agent:local", "device:x"} {
		p := proposal("palyra.echo", `{"text":"x"}`)
		p.Principal, p.Owner = who, ""
		explain(t, d, "", p)
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
		Approval: out.ApprovalID, Answer: answer, Scope: scope, By: person(t, d, nil).Principal, Method: palyra.MethodCLI, At: now(), Digest: out.PlanDigest,
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
	if e := explain(t, d, "", p); e.Layer != palyra.LayerApproval || strings.Contains(e.Remedy, "grant") {
		t.Fatalf("%+v", e)
	}
	asked(t, d, p, palyra.AnswerAllow, palyra.ScopeSession)
	if e := explain(t, d, "", p); e.Layer != "" || !strings.Contains(e.Remedy, "nobody would be asked") || !slices.Contains(e.Lines, e.Remedy) || e.Verdict.Effect != palyra.Ask {
		t.Errorf("%q %q", e.Layer, e.Remedy)
	}
	p.Door = palyra.DoorAPI
	if e := explain(t, d, "", p); e.Layer != palyra.LayerApproval || !strings.HasPrefix(e.Remedy, "propose it in session ") {
		t.Errorf("%q %q", e.Layer, e.Remedy)
	}
	p.Arguments = []byte(`{"path":"other","content":"b"}`)
	if e := explain(t, d, "", p); strings.Contains(e.Remedy, "grant") {
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
	if e := explain(t, d, out.CallID, palyra.Proposal{}); !slices.ContainsFunc(e.Lines, func(s string) bool { return strings.HasPrefix(s, "it ended: ") && strings.HasSuffix(s, "exit code 0") }) {
		t.Errorf("%q", e.Lines)
	}
	at := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	for want, c := range map[string]palyra.Call{
		"answered deny by user:me at 2030-01-02T03:04:05Z\nit ended: refused": {
			Decision: palyra.Decision{Answer: palyra.AnswerDeny, By: "user:me", At: at}, Outcome: &palyra.Outcome{Outcome: "refused", Layer: palyra.LayerApproval},
		},
		"grant G by user:me covered it; nobody was asked\nit ended: failed, by signal KILL": {
			Decision: palyra.Decision{Answer: palyra.AnswerAllow, By: "user:me", Reused: true, Lease: "G"}, Outcome: &palyra.Outcome{Outcome: "failed", Signal: "KILL"},
		},
		"answered allow by user:me\nit has not ended: pending": {Decision: palyra.Decision{Answer: palyra.AnswerAllow, By: "user:me"}, State: palyra.Pending},
	} {
		if got := strings.Join(became(&c), "\n"); got != want {
			t.Errorf("%s", got)
		}
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
	e := explain(t, d, out.CallID, palyra.Proposal{})
	if len(e.Flips) == 0 || e.Flips[0].Kind != flipAnswer || !strings.HasSuffix(e.Flips[0].Text, "once the denied plan may be asked for again") {
		t.Errorf("%+v", e.Flips)
	}
	old := palyra.Call{Finished: now().Add(-24 * time.Hour)}
	if f := (policyPart{d}).later(&old, palyra.ReasonRecentlyDenied, []wire.Flip{{Kind: flipAnswer, Text: "x"}}); f[0].Text != "x" {
		t.Errorf("%+v", f)
	}
}

// The settings that are proposed for a host are those under which it is taken.
func TestWhyOfHosts(t *testing.T) {
	d := testDaemon(t)
	for name, c := range map[string]struct {
		allowed []string
		args    string
		want    string
	}{
		"this machine, no list":  {nil, `{"egress":["localhost:1"]}`, `egress.private_ranges = ["127.0.0.0/8"]`},
		"not listed":             {[]string{"a.example"}, `{"egress":["b.example:1","a.example:1"]}`, `egress.allowed_hosts = ["a.example","b.example:1"]`},
		"this machine, a list":   {[]string{"a.example"}, `{"egress":["localhost:1"]}`, "egress.private_ranges = [\"127.0.0.0/8\"]\negress.allowed_hosts = [\"a.example\",\"localhost:1\"]"},
		"listed, this machine":   {[]string{"localhost"}, `{"egress":["localhost:1"]}`, `egress.private_ranges = ["127.0.0.0/8"]`},
		"nothing wrong":          {nil, `{"egress":["a.example:1"]}`, ""},
		"not a host":             {nil, `{"egress":["::"]}`, ""},
		"not a host and a list":  {[]string{"a.example"}, `{"egress":[""]}`, ""},
		"arguments of something": {nil, `[]`, ""},
	} {
		conf := d.Config.Config.Egress
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
		Workspace: palyra.WorkspaceRef{Path: "/w"}, Cwd: "/w", Executable: palyra.Executable{Path: "/usr/bin/cat"}, Env: []palyra.EnvVar{{Name: "PATH", Value: "/usr/bin"}},
	}
	for line, want := range map[string]bool{"cat /etc/hosts": false, "cat -n /etc/hosts": false, "cat a.txt /etc/hosts": true, "cat a.txt": false} {
		plan.Argv = strings.Fields(line)
		args := map[string]any{"args": []any{}}
		for _, a := range plan.Argv[1:] {
			args["args"] = append(args["args"].([]any), a)
		}
		if got := inside(plan).apply(args); got != want {
			t.Errorf("%s: %v", line, args)
		}
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
	part := policyPart{d}
	_, none := part.Explain(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV", palyra.Proposal{Within: []string{mine}})
	_, err = part.Explain(t.Context(), out.CallID, palyra.Proposal{Within: []string{mine}})
	same := strings.ReplaceAll(palyra.AsError(none).Text, "01ARZ3NDEKTSV4RRFFQ69G5FAV", string(out.CallID))
	if e := palyra.AsError(err); e.Code != palyra.NotFound || e.Text != same || e.Remedy != palyra.AsError(none).Remedy {
		t.Errorf("%v, want %s", err, same)
	}
	if _, err := part.Explain(t.Context(), out.CallID, palyra.Proposal{Within: []string{other}}); err != nil {
		t.Error(err)
	}
	p.Within = []string{mine}
	if e := explain(t, d, "", p); e.ReasonCode != palyra.ReasonScopeDenied || len(e.Plan.Reads) > 0 {
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
		e := explain(t, d, "", p)
		said = append(said, fmt.Sprintf("%s %s %+v", e.ReasonCode, e.Lines, e.Flips))
	}
	if said[0] != said[1] || strings.Contains(said[0], other) {
		t.Errorf("%q", said)
	}
}
