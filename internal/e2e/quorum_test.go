//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/client/bundle"
)

// with is the default bundle and one rule more.
func with(t *testing.T, rule string) map[string]string {
	t.Helper()
	files, err := bundle.Preset("ask")
	if err != nil {
		t.Fatal(err)
	}
	files["own.cedar"] = rule
	return files
}

// Policy demands two people, one of them another than the requester's owner, and a
// device: the answers that do not meet it leave the question open or are refused,
// and those that do let the call run.
func TestPolicyDemandsPeopleAndDevices(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	owner := d.client(client.OperatorDoor)
	if _, err := owner.AddWorkspace(t.Context(), d.work, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.AddUser(t.Context(), palyra.User{Principal: "user:bob", Role: palyra.RoleApprover}); err != nil {
		t.Fatal(err)
	}
	bob := d.paired("bobs", "user:bob", palyra.RoleApprover).client(client.OperatorDoor)

	rule := `@id("two-people") @reason("writes need two people")
forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.fs.write")
unless { context.approval.votes >= 2 && context.approval.other_person };`
	if _, _, err := owner.ApplyPolicy(t.Context(), with(t, rule), false); err != nil {
		t.Fatal(err)
	}
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "two.txt", "x"))
	a := d.pending(owner)
	if a.Need.Votes != 2 || !a.Need.OtherPerson {
		t.Errorf("%+v", a.Need)
	}
	got, err := owner.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0))
	if err != nil || !got.Pending() {
		t.Fatalf("one of two settled it: %+v, %v", got.Decision, err)
	}
	if _, err := owner.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err == nil {
		t.Error("one person voted twice")
	}
	if _, err := os.Stat(filepath.Join(d.work, "two.txt")); err == nil {
		t.Error("it ran before the second")
	}
	if got, err = bob.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil || got.Pending() {
		t.Fatalf("%+v, %v", got.Decision, err)
	}
	if r := <-ch; r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}

	rule = `@id("by-device") @reason("writes need a paired device")
forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.fs.write")
unless { context.approval.device && context.approval.separation >= 2 };`
	if _, _, err := owner.ApplyPolicy(t.Context(), with(t, rule), false); err != nil {
		t.Fatal(err)
	}
	ch = propose(t.Context(), d.client(client.AgentDoor), write(d.work, "device.txt", "x"))
	a = d.pending(owner)
	if !a.Need.Device {
		t.Errorf("%+v", a.Need)
	}
	if got, err := owner.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err == nil && !got.Pending() {
		t.Errorf("a key that is no device's settled it: %+v", got.Decision)
	}
	if _, err := bob.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	if r := <-ch; r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}
	d.verify()
}
