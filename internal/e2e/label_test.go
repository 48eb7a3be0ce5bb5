//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"

	"palyra"
	"palyra/client"
)

// sessionLabels is what 'palyra sessions show --json' says of a session.
func (d *daemon) sessionLabels(id palyra.SessionID) []string {
	d.t.Helper()
	cmd := exec.Command(bin(d.t, "palyra"), "sessions", "show", string(id), "--json")
	cmd.Env = append(os.Environ(), "PALYRA_HOME="+d.home)
	raw, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v: %s", err, raw)
	}
	var s struct {
		Labels []string `json:"labels"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		d.t.Fatalf("%v: %s", err, raw)
	}
	return s.Labels
}

// judgedLabels is what policy was told of a call's session.
func (d *daemon) judgedLabels(call palyra.CallID) []string {
	d.t.Helper()
	why, err := d.client(client.OperatorDoor).Why(d.t.Context(), client.WhyRequest{ID: palyra.ID(call)})
	if err != nil {
		d.t.Fatal(err)
	}
	var detail struct {
		Context struct{ Labels []string }
	}
	if err := json.Unmarshal(why.Detail, &detail); err != nil {
		d.t.Fatal(err)
	}
	slices.Sort(detail.Context.Labels)
	return detail.Context.Labels
}

// What a session did is on its record, in what policy is told, and decides about
// what comes after: also when the daemon was killed meanwhile, and for no other
// session.
func TestLabelsFollowTheSession(t *testing.T) {
	d, w := newDaemon(t), newWorld(t)
	d.guarded(w)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	rule := `@id("quiet-after-pages") @reason("no echo after a page") @remedy("use another session")
forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo")
when { context.labels.contains("untrusted-input") && context.session.labels.contains("external-write") };
@id("sleep-asks-after-pages") @reason("somebody should know")
forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.sleep")
when { context.labels.contains("untrusted-input") } unless { context.approval.granted };`
	if _, _, err := person.ApplyPolicy(t.Context(), with(t, rule), false); err != nil {
		t.Fatal(err)
	}
	say := func(session string) palyra.Outcome {
		t.Helper()
		r := echo("x")
		r.Session = session
		out, err := agent.Call(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := say("pages")
	if before.Outcome != palyra.OutcomeFinished || len(d.judgedLabels(before.CallID)) > 0 {
		t.Fatalf("%+v", before)
	}
	raw, _ := json.Marshal(map[string]any{"url": "http://" + w.web + "/x"})
	out, _ := d.allowed(client.CallRequest{Tool: "palyra.http.fetch", Arguments: raw, Surface: palyra.SurfaceCLI, Session: "pages"})
	if out.Outcome != palyra.OutcomeFinished || out.SessionID != before.SessionID {
		t.Fatalf("%+v", out)
	}
	both := []string{palyra.LabelSent, palyra.LabelUntrusted}
	check := func() {
		t.Helper()
		if got := d.sessionLabels(out.SessionID); !slices.Equal(got, both) {
			t.Errorf("the session has %v", got)
		}
		after := say("pages")
		if after.Outcome != palyra.OutcomeRefused || after.Layer != palyra.LayerPolicy || !slices.Equal(d.judgedLabels(after.CallID), both) {
			t.Errorf("%+v, judged with %v", after, d.judgedLabels(after.CallID))
		}
		other := say("others")
		if other.Outcome != palyra.OutcomeFinished || len(d.sessionLabels(other.SessionID)) > 0 {
			t.Errorf("another session is held to it: %+v", other)
		}
	}
	check()
	sleep := client.CallRequest{
		Tool: "palyra.sleep", Arguments: json.RawMessage(`{"duration_ms":1}`), Surface: palyra.SurfaceCLI,
		Session: "pages", NoWait: true,
	}
	if got, err := agent.Call(t.Context(), sleep, nil); err != nil || got.ReasonCode != palyra.ReasonApprovalNotAwaited {
		t.Errorf("%+v, %v", got, err)
	}
	d.kill()
	d.guarded(w)
	agent = d.client(client.AgentDoor)
	check()
	lines := 0
	for _, e := range d.entries() {
		if e.Kind == (palyra.SessionLabeled{}).Kind() {
			lines++
		}
	}
	if lines != 1 {
		t.Errorf("the journal has %d lines about labels", lines)
	}
	d.verify()
}

// A call whose end nobody saw is taken to have done all that its plan let it do.
func TestAKilledCallLabelsItsSession(t *testing.T) {
	d, w := newDaemon(t), newWorld(t)
	d.guarded(w, "PALYRA_FAULT=call.finished/lost")
	raw, _ := json.Marshal(map[string]any{"url": "http://" + w.web + "/x"})
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	ch := propose(t.Context(), agent, client.CallRequest{Tool: "palyra.http.fetch", Arguments: raw, Surface: palyra.SurfaceCLI})
	a := d.pending(person)
	_, _ = person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0))
	<-ch
	<-d.done
	d.guarded(w)
	call, err := d.client(client.OperatorDoor).GetCall(t.Context(), a.Call)
	if err != nil || call.State != palyra.Unknown {
		t.Fatalf("%+v, %v", call.State, err)
	}
	if got := d.sessionLabels(call.Proposal.Session); !slices.Equal(got, []string{palyra.LabelSent, palyra.LabelUntrusted}) {
		t.Errorf("the session has %v", got)
	}
	d.verify()
}

// Roles of the access registry decide about calls, and a change of one does from
// the next call on.
func TestRolesDecideAboutCalls(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	owner := d.client(client.OperatorDoor)
	if _, err := owner.AddUser(t.Context(), palyra.User{Principal: "user:bob", Role: palyra.RoleAdmin}); err != nil {
		t.Fatal(err)
	}
	bobs := d.paired("bobs", "user:bob", palyra.RoleOperator).client(client.AgentDoor)
	local := d.client(client.AgentDoor)
	rule := `@id("only-admins") @reason("agents of admins only")
forbid (principal is Agent, action == Action::"tool.execute", resource == Tool::"palyra.echo")
unless { principal in Role::"agent" && principal has owner && principal.owner in Role::"admin" };`
	if _, _, err := owner.ApplyPolicy(t.Context(), with(t, rule), false); err != nil {
		t.Fatal(err)
	}
	want := func(who string, c *client.Client, outcome palyra.OutcomeKind) {
		t.Helper()
		if out, err := c.Call(t.Context(), echo("x"), nil); err != nil || out.Outcome != outcome {
			t.Errorf("%s: %+v, %v", who, out, err)
		}
	}
	want("the agent of an admin", bobs, palyra.OutcomeFinished)
	want("the agent of the owner", local, palyra.OutcomeRefused)
	if _, err := owner.ChangeUser(t.Context(), palyra.User{Principal: "user:bob", Role: palyra.RoleOperator}); err != nil {
		t.Fatal(err)
	}
	want("the agent of somebody who is no admin any more", bobs, palyra.OutcomeRefused)
	if _, err := owner.ChangeUser(t.Context(), palyra.User{Principal: "user:bob", Role: palyra.RoleAdmin}); err != nil {
		t.Fatal(err)
	}
	want("the agent of an admin again", bobs, palyra.OutcomeFinished)
	d.verify()
}
