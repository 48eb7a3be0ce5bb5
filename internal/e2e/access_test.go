//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// What a device may do is what both it and its person may, as of now.
func TestADeviceMayNoMoreThanItsPerson(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	owner := &elsewhere{t: t, home: d.home}
	owner.must("access", "user", "add", "user:bob", "--role", "approver")
	if _, err := d.offerBy(d.client(client.OperatorDoor), "user:bob", palyra.RoleOwner); reason(err) != palyra.ReasonPermission {
		t.Errorf("a device that may more than its person: %v", err)
	}
	if _, err := d.offerBy(d.client(client.OperatorDoor), "user:nobody", palyra.RoleViewer); err == nil {
		t.Error("a device of nobody")
	}
	bob, looks := d.paired("bob", "user:bob", palyra.RoleApprover), d.paired("looks", "", palyra.RoleViewer)
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "a.txt", "x"))
	a := d.pending(d.client(client.OperatorDoor))
	decide := []string{"--remote", first, "approvals", "decide", string(a.ID), "allow", "--digest", string(a.PlanDigest)}

	looks.must("--remote", first, "approvals", "list")
	looks.refused(palyra.ReasonPermission, decide...) // its person is the owner
	for _, manages := range [][]string{
		{"device", "pair"},
		{"device", "revoke", "looks"},
		{"access", "user", "add", "user:eve"},
		{"access", "user", "change", "user:bob", "--role", "owner"},
		{"access", "token", "add", "more", "--scope", "status.view"},
		{"keys", "rotate", "ca"},
		{"agent", "add", "spy"},
	} {
		bob.refused(palyra.ReasonPermission, append([]string{"--remote", first}, manages...)...)
	}

	owner.must("access", "user", "change", "user:bob", "--role", "viewer")
	bob.must("--remote", first, "approvals", "list")
	bob.refused(palyra.ReasonPermission, decide...)
	owner.must("access", "user", "change", "user:bob", "--role", "approver")
	bob.must(decide...)
	if r := <-ch; r.out.Outcome != palyra.OutcomeFinished {
		t.Errorf("%+v", r)
	}
	owner.must("access", "user", "remove", "user:bob")
	bob.cutOff("--remote", first, "approvals", "list")
	looks.must("--remote", first, "approvals", "list")
	d.verify()
}

// Whether a machine becomes a device is decided by somebody who manages devices;
// that somebody may decide is not enough.
func TestWhoDecidesAboutDevices(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	person := d.client(client.OperatorDoor)
	for who, role := range map[palyra.Principal]palyra.Role{"user:bob": palyra.RoleApprover, "user:ann": palyra.RoleAdmin} {
		if _, err := person.AddUser(t.Context(), palyra.User{Principal: who, Role: role}); err != nil {
			t.Fatal(err)
		}
	}
	approves, manages := d.paired("approves", "user:bob", palyra.RoleApprover), d.paired("manages", "user:ann", palyra.RoleAdmin)
	o := d.offer("", palyra.RoleViewer)
	m := newElsewhere(t)
	ch := m.joining(t.Context(), "third", client.JoinRequest{Code: o.Code})
	id := o.approval()
	if err := answerTo(t.Context(), approves.client(client.OperatorDoor), id, palyra.AnswerAllow); reason(err) != palyra.ReasonPermission {
		t.Errorf("an approver let a device in: %v", err)
	}
	if err := answerTo(t.Context(), manages.client(client.OperatorDoor), id, palyra.AnswerAllow); err != nil {
		t.Errorf("an admin, from a device: %v", err)
	}
	if j := <-ch; j.err != nil {
		t.Errorf("%v", j.err)
	}
	o.over()
	m.must("--remote", first, "approvals", "list")
	d.verify()
}

// tokenFor makes a token and a client that has it.
func (d *daemon) tokenFor(door client.Door, entry palyra.Token, ttl time.Duration) (palyra.Token, palyra.Secret, *client.Client) {
	d.t.Helper()
	e, token, err := d.client(client.OperatorDoor).AddToken(d.t.Context(), entry, ttl)
	if err != nil {
		d.t.Fatal(err)
	}
	return e, token, d.bearer(door, token)
}

// bearer is a client with a token.
func (d *daemon) bearer(door client.Door, token palyra.Secret) *client.Client {
	d.t.Helper()
	c, err := client.Open(client.Config{Home: d.home, Door: door, AgentToken: token})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// A token does what it was made for, where it was made for, until it is revoked or
// over.
func TestTokens(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	ctx, person := t.Context(), d.client(client.OperatorDoor)
	me, err := person.WhoAmI(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := person.AddToken(ctx, palyra.Token{
		Name: "decides", Principal: me.Principal, Scopes: []palyra.Permission{"approvals.decide"},
	}, time.Hour); err == nil {
		t.Error("a token that decides for a person")
	}
	entry, secret, looks := d.tokenFor(client.OperatorDoor, palyra.Token{
		Name: "looks", Principal: me.Principal, Scopes: []palyra.Permission{"status.view"},
	}, time.Minute)
	made := time.Now()
	if _, err := looks.Status(ctx); err != nil {
		t.Error(err)
	}
	if _, err := looks.Approvals(ctx, client.ApprovalFilter{}); reason(err) != palyra.ReasonScopeDenied {
		t.Errorf("beyond its scope: %v", err)
	}
	if os.Getenv("PALYRA_FAULTS") == "full" { // the shortest life is a minute
		<-time.After(time.Until(made.Add(time.Minute)) + 100*time.Millisecond)
		if _, err := looks.Status(ctx); reason(err) != palyra.ReasonBadCredential {
			t.Errorf("after its time: %v", err)
		}
	}
	if err := person.RevokeToken(ctx, entry.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := looks.Status(ctx); reason(err) != palyra.ReasonBadCredential {
		t.Errorf("a revoked one: %v", err)
	}
	var text string
	_ = secret.Use(func(b []byte) error { text = string(b); return nil })
	raw, err := os.ReadFile(filepath.Join(d.home, "state.db"))
	if err != nil || len(text) < 20 || bytes.Contains(raw, []byte(text)) {
		t.Errorf("the state holds the token (%v)", err)
	}
	for _, e := range d.entries() {
		if line, _ := json.Marshal(e); bytes.Contains(line, []byte(text)) {
			t.Errorf("the journal holds the token: %s", line)
		}
	}
	d.verify()
}

// A token for one workspace does nothing in another, nor outside of all.
func TestATokenOfOneWorkspace(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	ctx, person := t.Context(), d.client(client.OperatorDoor)
	other := filepath.Join(filepath.Dir(d.work), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{d.work, other} {
		if _, err := person.AddWorkspace(ctx, w, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := person.AddAgent(ctx, "worker", ""); err != nil {
		t.Fatal(err)
	}
	entry := palyra.Token{
		Name: "here", Principal: "agent:worker", Scopes: []palyra.Permission{"runs.start", "runs.view"},
		Workspaces: []string{d.work},
	}
	_, _, agent := d.tokenFor(client.AgentDoor, entry, time.Hour)
	list := func(in string) (palyra.Reason, palyra.OutcomeKind) {
		out, err := agent.Call(ctx, client.CallRequest{
			Tool: "palyra.fs.list", Arguments: json.RawMessage(`{"path":"."}`), Workspace: in,
			NoWait: true,
		}, nil)
		if err != nil {
			return reason(err), ""
		}
		return out.ReasonCode, out.Outcome
	}
	if r, out := list(d.work); out != palyra.OutcomeFinished {
		t.Errorf("in its workspace: %s %s", out, r)
	}
	if r, _ := list(other); r != palyra.ReasonScopeDenied {
		t.Errorf("in another: %q", r)
	}
	if _, out := list(""); out == palyra.OutcomeFinished {
		t.Error("in none")
	}
	if _, err := agent.Tools(ctx); reason(err) != palyra.ReasonScopeDenied {
		t.Errorf("beyond its scope: %v", err)
	}
	d.verify()
}

// Devices are paired by a code. An agent that knows the tool's name and what it
// wants to hear gets nobody asked.
func TestAnAgentPairsNothing(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	m := d.paired("honest", "", palyra.RoleOwner)
	was := d.device("honest")
	page, err := d.client(client.OperatorDoor).Approvals(t.Context(), client.ApprovalFilter{})
	if err != nil || len(page.Approvals) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	call, err := d.client(client.OperatorDoor).GetCall(t.Context(), was.Call)
	if err != nil {
		t.Fatal(err)
	}
	args := bytes.ReplaceAll(call.Plan.Arguments, []byte(`"honest"`), []byte(`"second"`))
	for who, agent := range map[string]*client.Client{"here": d.client(client.AgentDoor), "on a device": m.client(client.AgentDoor)} {
		out, err := agent.Call(t.Context(), client.CallRequest{Tool: call.Plan.Tool, Arguments: args, NoWait: true}, nil)
		if err == nil && out.Outcome != palyra.OutcomeRefused || out.ReasonCode == palyra.ReasonApprovalNotAwaited {
			t.Errorf("an agent %s: %+v", who, out)
		}
	}
	page, err = d.client(client.OperatorDoor).Approvals(t.Context(), client.ApprovalFilter{})
	if err != nil || len(page.Approvals) != 1 {
		t.Errorf("somebody was asked: %+v, %v", page, err)
	}
	d.verify()
}
