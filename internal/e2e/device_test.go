//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// freePort is an address that nobody listens on, for a daemon that has to be found
// there again after a restart.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// open reports whether somebody listens there.
func open(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// cutWithin is how long a busy machine is given to end what a revoked device has open.
// Streams are looked at anew every 15 s: it has to be less.
const cutWithin = 12 * time.Second

// The door is closed before the first code is shown, open while there is a code or
// a device, and closed when there is neither.
func TestTheDoorIsOpenForSomebodyOnly(t *testing.T) {
	d := newDaemon(t)
	address := freePort(t)
	d.mustStart("PALYRA_REMOTE_LISTEN=" + address)
	person := d.client(client.OperatorDoor)
	state := func(want bool, when string) {
		t.Helper()
		for late := time.Now().Add(waitMost); ; <-time.After(5 * time.Millisecond) { // a code that is withdrawn ends a moment later
			s, err := person.Status(t.Context())
			if err == nil && open(address) == want && (s.Remote != "") == want {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("%s: open %v, status says %q, %v", when, open(address), s.Remote, err)
			}
		}
	}
	state(false, "before anything")
	o := d.offer("", "")
	state(true, "with a code")
	o.gone()
	state(false, "after the code")
	m := d.paired("laptop", "", "")
	state(true, "with a device")
	if _, err := m.client(client.OperatorDoor).WhoAmI(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := person.RevokeDevice(t.Context(), d.device("laptop").ID); err != nil {
		t.Fatal(err)
	}
	state(false, "after the device")
}

// With a device ends all that it has open, at once, and for good: also over a
// restart, which the others survive.
func TestARevokedDevice(t *testing.T) {
	d := newDaemon(t)
	env := "PALYRA_REMOTE_LISTEN=" + freePort(t)
	d.mustStart(env)
	lost, kept := d.paired("lost", "", ""), d.paired("kept", "", "")
	var said bytes.Buffer
	watch := lost.command("--remote", first, "approvals", "watch", "--json")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	watch.Stderr = &said
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "asked.txt", "x"))
	if _, err := out.Read(make([]byte, 1)); err != nil { // the stream is open
		t.Fatalf("%v\n%s", err, said.String())
	}
	owner := &elsewhere{t: t, home: d.home}
	owner.must("device", "revoke", "lost")
	began := time.Now()
	ended := make(chan error, 1)
	go func() {
		_, _ = new(bytes.Buffer).ReadFrom(out)
		ended <- watch.Wait()
	}()
	select {
	case err := <-ended:
		t.Logf("the stream ended %v after the revocation: %s", time.Since(began), said.String())
		if err == nil {
			t.Error("the watcher does not know that it was cut off")
		}
	case <-time.After(cutWithin):
		_ = watch.Process.Kill()
		t.Fatal("the stream of a revoked device stays open")
	}
	for range 2 {
		lost.cutOff("--remote", first, "approvals", "list")
		lost.cutOff("--remote", first, "device", "list")
		lost.cutOff("device", "renew", first)
		kept.must("--remote", first, "approvals", "list")
		d.stop()
		d.mustStart(env)
	}
	<-ch
	if dev := d.device("lost"); dev.Live() || dev.RevokedBy == "" {
		t.Errorf("%+v", dev)
	}
	if n := len(d.lines("device.revoked")); n != 1 {
		t.Errorf("%d revocations on record", n)
	}
	d.verify()
}

// A program on a device proposes as the device's agent, decides nothing, and ends
// with the device.
func TestAnAgentOnADevice(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	phone := d.paired("phone", "", "").client(client.AgentDoor) // an approver: it answers and does not ask
	if _, err := phone.Call(t.Context(), echo("x"), nil); palyra.AsError(err).Reason != palyra.ReasonPermission {
		t.Errorf("a device that was paired to answer asks: %v", err)
	}
	m := d.paired("laptop", "", palyra.RoleOperator)
	person := d.client(client.OperatorDoor)
	if _, err := person.AddWorkspace(t.Context(), d.work, ""); err != nil {
		t.Fatal(err)
	}
	agent := m.client(client.AgentDoor)
	if out, err := agent.Call(t.Context(), echo("from afar"), nil); err != nil || out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v, %v", out, err)
	}
	ch := propose(t.Context(), agent, write(d.work, "afar.txt", "x"))
	a := d.pending(person)
	if a.Principal != "agent:device.laptop" || a.Owner != d.device("laptop").Principal {
		t.Errorf("asked by %s of %s", a.Principal, a.Owner)
	}
	if _, err := agent.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err == nil {
		t.Error("an agent decides")
	}
	if _, _, err := person.AddAgent(t.Context(), "device.laptop", ""); err == nil {
		t.Error("a device's agent is taken for another")
	}
	if _, err := person.RevokeDevice(t.Context(), d.device("laptop").ID); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-ch:
		if r.err == nil && r.out.Outcome == palyra.OutcomeFinished {
			t.Errorf("%+v", r)
		}
	case <-time.After(cutWithin):
		t.Fatal("its call waits on")
	}
	if err := answerTo(t.Context(), person, a.ID, palyra.AnswerAllow); err == nil {
		t.Error("its question can still be answered")
	}
	if _, err := os.Stat(filepath.Join(d.work, "afar.txt")); err == nil {
		t.Error("its call ran")
	}
	d.verify()
}

// A device's key counts on its own connection and nowhere else, and no other key
// counts there.
func TestAKeyBelongsToItsConnection(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	m, n := d.paired("one", "", palyra.RoleOwner), d.paired("two", "", palyra.RoleOwner)
	load := func(m *elsewhere) *client.Remote {
		r, err := client.LoadRemote(filepath.Join(m.home, "remotes"), first)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	operator, err := client.LoadSigner(filepath.Join(d.home, "operator.key"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "a.txt", "x"))
	a := d.pending(d.client(client.OperatorDoor))
	for name, cfg := range map[string]client.Config{
		"a device's key on the daemon's machine": {Home: d.home, Door: client.OperatorDoor, Signer: load(m).Signer()},
		"the operator's key from a device":       {Remote: load(m), Door: client.OperatorDoor, Signer: operator},
		"another device's key":                   {Remote: load(m), Door: client.OperatorDoor, Signer: load(n).Signer()},
	} {
		c, err := client.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); reason(err) != palyra.ReasonBadCredential {
			t.Errorf("%s: %v", name, err)
		}
		_ = c.Close()
	}
	if err := answerTo(t.Context(), m.client(client.OperatorDoor), a.ID, palyra.AnswerDeny); err != nil {
		t.Error(err)
	}
	<-ch
	d.verify()
}

// A new authority: devices of the old one work, renew, and then are the new one's;
// new ones pair with it.
func TestTheAuthorityIsReplaced(t *testing.T) {
	d := newDaemon(t)
	env := "PALYRA_REMOTE_LISTEN=" + freePort(t)
	d.mustStart(env)
	old := d.paired("old", "", "")
	before := d.device("old")
	owner := &elsewhere{t: t, home: d.home}
	owner.must("keys", "rotate", "ca")
	old.must("--remote", first, "approvals", "list")
	d.stop()
	d.mustStart(env)
	old.must("--remote", first, "approvals", "list")
	authorities := func(m *elsewhere) [][]byte {
		r, err := client.LoadRemote(filepath.Join(m.home, "remotes"), first)
		if err != nil {
			t.Fatal(err)
		}
		return r.Authorities
	}
	was := authorities(old)[0]
	old.must("device", "renew", first)
	is := authorities(old)[0]
	if bytes.Equal(was, is) {
		t.Error("the device does not know the new authority")
	}
	old.must("--remote", first, "approvals", "list")
	after := d.device("old")
	if after.KeyID != before.KeyID || after.Serial == before.Serial || after.Certificate == before.Certificate {
		t.Errorf("renewed from %+v to %+v", before, after)
	}
	fresh := d.paired("fresh", "", "")
	if !bytes.Equal(authorities(fresh)[0], is) {
		t.Error("the new device is the old authority's")
	}
	fresh.must("--remote", first, "approvals", "list")
	old.must("--remote", first, "approvals", "list")
	rotated := slices.ContainsFunc(d.lines("key.rotated"), func(l map[string]any) bool { return l["use"] == "ca" && l["sig"] != "" })
	if !rotated || len(d.lines("device.renewed")) != 1 {
		t.Errorf("on record: %v, %v", d.lines("key.rotated"), d.lines("device.renewed"))
	}
	d.verify()
}

// peopleStory is a life of the registry: all that it makes durable. It stops at the
// first error.
func peopleStory(ctx context.Context, d *daemon, m *elsewhere) error {
	person := d.client(client.OperatorDoor)
	bob := palyra.Principal("user:bob")
	if _, err := person.AddUser(ctx, palyra.User{Principal: bob, Role: palyra.RoleOperator}); err != nil {
		return err
	}
	if err := d.pairing(ctx, m, "laptop", bob, palyra.RoleOperator); err != nil {
		return err
	}
	device := m.client(client.OperatorDoor)
	if _, err := device.Renew(ctx); err != nil {
		return err
	}
	if _, err := person.ChangeUser(ctx, palyra.User{Principal: bob, Role: palyra.RoleViewer}); err != nil {
		return err
	}
	entry, _, err := person.AddToken(ctx, palyra.Token{Name: "looker", Principal: bob, Scopes: []palyra.Permission{"status.view"}}, time.Hour)
	if err != nil {
		return err
	}
	if err := person.RevokeToken(ctx, entry.ID); err != nil {
		return err
	}
	if _, err := person.RotateKey(ctx, "ca"); err != nil {
		return err
	}
	dev, err := person.Device(ctx, "laptop")
	if err != nil {
		return err
	}
	if _, err := person.RevokeDevice(ctx, dev.ID); err != nil {
		return err
	}
	return person.RemoveUser(ctx, bob)
}

// ofPeople are the steps that the story is about.
func ofPeople(point string) bool {
	step, _, _ := strings.Cut(point, ".")
	return slices.Contains([]string{"pairing", "device", "user", "token", "key"}, step) && !strings.HasPrefix(point, "key.created")
}

// The daemon dies before or after each of those is durable. It starts again, its
// journal is whole, the registry says what the journal says, and what a device can
// do is what it says there.
func TestKillAtEveryStepOfTheRegistry(t *testing.T) {
	log := filepath.Join(t.TempDir(), "points")
	whole := newDaemon(t)
	whole.mustStart("PALYRA_FAULT_LOG=" + log)
	if err := peopleStory(t.Context(), whole, newElsewhere(t)); err != nil {
		t.Fatalf("%v\n%s", err, whole.log)
	}
	whole.stop()
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(raw))
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(p string) bool { return !ofPeople(p) })
	if len(all) < 18 || !slices.Contains(all, "device.paired/kept") {
		t.Fatalf("only %d points: %v", len(all), all)
	}
	for _, point := range sample(all) {
		t.Run(strings.ReplaceAll(point, "/", "_"), func(t *testing.T) {
			d, m := newDaemon(t), newElsewhere(t)
			env := "PALYRA_REMOTE_LISTEN=" + freePort(t)
			if d.start(env, "PALYRA_FAULT="+point) {
				ctx, cancel := context.WithTimeout(t.Context(), waitMost)
				defer cancel()
				if err := peopleStory(ctx, d, m); err == nil {
					t.Fatalf("the daemon outlived %s", point)
				}
			}
			<-d.done
			d.mustStart(env)
			d.verify()
			consistent(t, d, m)
			d.stop()
		})
	}
	t.Logf("%d points, %d of them tried", len(all), len(sample(all)))
}

// consistent holds the registry against the journal and against what happens.
func consistent(t *testing.T, d *daemon, m *elsewhere) {
	t.Helper()
	ctx := t.Context()
	person := d.client(client.OperatorDoor)
	list, err := person.Devices(ctx)
	if err != nil || len(list) != len(d.lines("device.paired")) {
		t.Fatalf("%+v, %v: %v", list, err, d.lines("device.paired"))
	}
	for _, dev := range list {
		if c, err := person.GetCall(ctx, dev.Call); err != nil || !c.State.Ended() {
			t.Errorf("the call that paired it is %s, %v", c.State, err)
		}
	}
	users, err := person.Users(ctx)
	if err != nil || len(users) != len(d.lines("user.added")) {
		t.Fatalf("%+v, %v", users, err)
	}
	_, none := client.LoadRemote(filepath.Join(m.home, "remotes"), first)
	switch {
	case len(list) == 0 && none == nil:
		t.Error("the device believes that it is paired, and nobody knows it")
	case len(list) == 1 && none == nil:
		_, err := m.client(client.OperatorDoor).Approvals(ctx, client.ApprovalFilter{})
		if live := list[0].Live(); live != (err == nil) {
			t.Errorf("live %v, and its request: %v", live, err)
		}
	}
	if len(list) == 1 && list[0].Live() { // one that never got its certificate can be ended
		if _, err := person.RevokeDevice(ctx, list[0].ID); err != nil {
			t.Error(err)
		}
	}
	again := newElsewhere(t)
	if err := d.pairing(ctx, again, "again", "", ""); err != nil {
		t.Fatalf("nothing can be paired any more: %v", errors.Join(err, ctx.Err()))
	}
	if _, err := again.client(client.OperatorDoor).Approvals(ctx, client.ApprovalFilter{}); err != nil {
		t.Error(err)
	}
	d.verify()
}

// Where who asks and who answers are one machine nothing separates them, and the
// record says so.
func TestADeviceThatAsksAndAnswers(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	m := d.paired("laptop", "", palyra.RoleOperator)
	if _, err := d.client(client.OperatorDoor).AddWorkspace(t.Context(), d.work, ""); err != nil {
		t.Fatal(err)
	}
	ch := propose(t.Context(), m.client(client.AgentDoor), write(d.work, "own.txt", "x"))
	a := d.pending(d.client(client.OperatorDoor))
	got, err := m.client(client.OperatorDoor).Decide(t.Context(), allow(a, palyra.ScopeOnce, 0))
	if err != nil {
		t.Fatal(err)
	}
	if r := <-ch; r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}
	if v := got.Decision.Votes[0]; v.Separation != palyra.SeparationNone || v.Device {
		t.Errorf("separated from itself: %+v", v)
	}
	other := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "others.txt", "x"))
	a = d.pending(d.client(client.OperatorDoor))
	if got, err = m.client(client.OperatorDoor).Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	if v := got.Decision.Votes[0]; v.Separation != palyra.SeparationDevice || !v.Device {
		t.Errorf("another's call: %+v", v)
	}
	<-other
}

// A device may offer a pairing, and somebody else says yes to it.
func TestADeviceDoesNotMakeItselfATwin(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	m := d.paired("laptop", "", palyra.RoleAdmin)
	there := m.client(client.OperatorDoor)
	o, err := d.offerBy(there, "", palyra.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	twin := newElsewhere(t)
	ch := twin.joining(t.Context(), "twin", client.JoinRequest{Code: o.last.Code})
	id := o.approval()
	if err := answerTo(t.Context(), there, id, palyra.AnswerAllow); palyra.AsError(err).Reason != palyra.ReasonRequesterDecides {
		t.Errorf("the device answers for the machine it offered to: %v", err)
	}
	if err := answerTo(t.Context(), d.client(client.OperatorDoor), id, palyra.AnswerAllow); err != nil {
		t.Fatal(err)
	}
	if r := <-ch; r.err != nil {
		t.Fatal(r.err)
	}
	o.over()
}
