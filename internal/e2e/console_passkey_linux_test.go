package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// authenticator gives a page an authenticator that verifies its person, without anybody who has to touch it.
func (p *page) authenticator() string {
	p.t.Helper()
	must(p.t, p.call(p.session, "WebAuthn.enable", map[string]any{}, nil))
	var made struct{ AuthenticatorID string }
	must(p.t, p.call(p.session, "WebAuthn.addVirtualAuthenticator", map[string]any{"options": map[string]any{
		"protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true, "isUserVerified": true,
		"automaticPresenceSimulation": true,
	}}, &made))
	return made.AuthenticatorID
}

// must1 is for values that cannot fail.
func must1[T any](v T, _ error) T { return v }

// addPasskey has a person at a terminal let a passkey in that the page makes.
func (p *page) addPasskey(d *daemon) palyra.Device {
	p.t.Helper()
	owner := &elsewhere{t: p.t.(*testing.T), home: d.home}
	shows := atTerminal(p.t, owner.command("console", "pair"))
	pin := shows.find(`PIN\s+([0-9]{4} [0-9]{4})\s`)[1]
	p.goTo("devices")
	p.fill("input[name=passkey-pin]", pin)
	p.click("Add a passkey")
	p.until("document.querySelector('[data-testid=passkey-fingerprint]')")
	var print string
	must(p.t, p.js("document.querySelector('[data-testid=passkey-fingerprint]').textContent", &print))
	if here := strings.TrimSpace(shows.find(`Its key is\s+([0-9A-F ]{39})\s`)[1]); here != print || len(here) < 32 {
		p.t.Fatalf("the terminal shows the key %q, the page %q", here, print)
	}
	shows.find(`Type allow`)
	shows.enter("allow")
	if code, said := shows.end(); code != 0 || !strings.Contains(said, "Paired: passkey-") || !strings.Contains(said, "passkey") {
		p.t.Fatalf("exit %d:\n%s", code, said)
	}
	p.until("!document.querySelector('[data-testid=passkey-fingerprint]')")
	all, err := d.client(client.OperatorDoor).Devices(p.t.Context())
	must(p.t, err)
	dev := all[len(all)-1]
	if dev.Passkey == nil || !dev.Live() {
		p.t.Fatalf("%+v", all)
	}
	return dev
}

// A person registers a passkey in the paired console, denies and allows with it. The evidence is its assertion, which
// palyra-verify accepts and of which it refuses each of 200 changes; it counts for nobody else, nowhere else, not without
// its person, not again, and not when it was revoked.
func TestDecidingByPasskey(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	p := pairedBrowser(t, d, "approver")
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	machine := p.authenticator()
	dev := p.addPasskey(d)
	if said := (&elsewhere{t: t, home: d.home}).must("device", "list"); !strings.Contains(said, dev.Name) ||
		!strings.Contains(said, "passkey until") {
		t.Errorf("the list of devices:\n%s", said)
	}

	ch := propose(t.Context(), agent, write(d.work, "denied.txt", "x"))
	p.choose(d)
	p.until("document.querySelector('select[name=answerer]')?.selectedOptions[0].textContent.includes('" + dev.Name + "')")
	p.click("Deny")
	r := <-ch
	if r.err != nil || r.out.ReasonCode != palyra.ReasonApprovalDenied {
		t.Fatalf("%+v", r)
	}
	p.passkeyVote(person, r.out.ApprovalID, dev)

	ch = propose(t.Context(), agent, write(d.work, "allowed.txt", "hello"))
	p.choose(d)
	p.click("Allow once")
	if r = <-ch; r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}
	vote := p.passkeyVote(person, r.out.ApprovalID, dev)
	checkEvidence(t, d, person, r.out)
	signedBy(t, d, r.out, dev)
	everyChange(t, d, r.out)

	ch = propose(t.Context(), agent, write(d.work, "more.txt", "x"))
	a := d.pending(person)
	p.again(a, vote)
	p.fromAnotherPort(d, a, dev)
	p.notVerified(d, machine, a)
	p.revokedPasskey(d, a, dev)
	if now, err := person.Approval(t.Context(), a.ID); err != nil || !now.Pending() {
		t.Fatalf("%+v %v", now.Decision, err)
	}
	must(t, answerTo(t.Context(), person, a.ID, palyra.AnswerDeny))
	<-ch
	stolenCookie(t, d, p)
	p.clean()
}

// passkeyVote holds the one vote of a question to be the passkey's.
func (p *page) passkeyVote(person *client.Client, id palyra.ApprovalID, dev palyra.Device) palyra.Vote {
	p.t.Helper()
	a, err := person.Approval(p.t.Context(), id)
	must(p.t, err)
	v := a.Decision.Votes
	if len(v) != 1 || v[0].Signature.Assertion == nil || v[0].Signature.Intent.KeyID != dev.KeyID ||
		v[0].Signature.PublicKey != dev.PublicKey || v[0].Separation != palyra.SeparationNone || v[0].Device { // let in by a key that lies open
		p.t.Fatalf("%+v", a.Decision)
	}
	return v[0]
}

// everyChange has the built verifier look at the outcome with one byte changed, 200 times.
func everyChange(t *testing.T, d *daemon, out palyra.Outcome) {
	t.Helper()
	raw, err := out.Marshal()
	must(t, err)
	rnd := rand.New(rand.NewPCG(24, 200))
	file, keys := filepath.Join(d.work, "..", "changed.json"), filepath.Join(d.work, "..", "trust.json")
	for range 200 {
		b := bytes.Clone(raw)
		i := rnd.IntN(len(b))
		for b[i] == raw[i] || b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r' {
			b[i] = byte(rnd.IntN(256))
		}
		save(t, file, b)
		said, err := exec.Command(bin(t, "palyra-verify"), "--key", keys, file).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(said), "BAD: ") {
			t.Errorf("byte %d, %q for %q: %v\n%s", i, b[i], raw[i], err, said)
		}
	}
}

// decideWith sends an answer with a signature, and returns what was said.
func (p *page) decideWith(a palyra.Approval, s palyra.Signature) (int, string) {
	p.t.Helper()
	b, self := p.thief()
	head := must1(json.Marshal(map[string]string{
		"nonce": s.Intent.Nonce, "time": s.Intent.Time, "key_id": s.Intent.KeyID, "sig": s.Sig,
		"authenticator_data": s.Assertion.AuthenticatorData, "client_data_json": s.Assertion.ClientData,
	}))
	return b.call("ApprovalsService/DecideApproval", string(must1(json.Marshal(allowing(a)))), self, func(r *http.Request) {
		r.Header.Set("Palyra-Intent", string(head))
	})
}

// allowing is the answer allow, once.
func allowing(a palyra.Approval) map[string]any {
	return map[string]any{
		"approval_id": string(a.ID), "answer": "allow", "scope": "once", "plan_digest": string(a.PlanDigest), "method": "console",
	}
}

// again: an assertion that counted counts for no other question.
func (p *page) again(a palyra.Approval, v palyra.Vote) {
	p.t.Helper()
	if status, said := p.decideWith(a, v.Signature); status == http.StatusOK || !strings.Contains(said, string(palyra.ReasonBadSignature)) {
		p.t.Errorf("for another question: %d %s", status, said)
	}
}

// intentFor is what a passkey of this daemon has to sign to allow.
func intentFor(d *daemon, a palyra.Approval, dev palyra.Device) palyra.Signature {
	fields := allowing(a)
	return palyra.Signature{Fields: fields, Intent: palyra.Intent{
		Audience: d.stateID(), Method: "palyra.v1.ApprovalsService/DecideApproval", Body: must1(palyra.IntentBody(fields)),
		PlanDigest: a.PlanDigest, Nonce: base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdef")), Time: palyra.Time(time.Now()),
		KeyID: dev.KeyID,
	}}
}

// stateID is the daemon's state, for which signatures are made.
func (d *daemon) stateID() string {
	s, err := d.client(client.OperatorDoor).Status(d.t.Context())
	must(d.t, err)
	return s.StateID
}

// assert has the page's authenticator sign an intent.
func (p *page) assert(s *palyra.Signature, dev palyra.Device) error {
	sum := sha256.Sum256(must1(s.Intent.Bytes()))
	var got []string
	err := p.js(`(async () => {
		const raw = (s) => Uint8Array.from(atob(s.replaceAll("-", "+").replaceAll("_", "/")), c => c.charCodeAt(0));
		const c = await navigator.credentials.get({publicKey: {challenge: raw("`+base64.RawURLEncoding.EncodeToString(sum[:])+`"),
			rpId: "palyra.localhost", userVerification: "discouraged",
			allowCredentials: [{type: "public-key", id: raw("`+dev.Passkey.Credential+`")}]}});
		const text = (b) => btoa(String.fromCharCode(...new Uint8Array(b)));
		return [c.response.signature, c.response.authenticatorData, c.response.clientDataJSON].map(text);
	})()`, &got)
	if err != nil {
		return err
	}
	s.Sig, s.Assertion = got[0], &palyra.Assertion{AuthenticatorData: got[1], ClientData: got[2]}
	return nil
}

// fromAnotherPort: a page that an agent publishes at another port of the console's own name can have the authenticator
// sign, since relying parties know no ports. What it gets says so, and is refused, even with all that the console has.
func (p *page) fromAnotherPort(d *daemon, a palyra.Approval, dev palyra.Device) {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(p.t, err)
	evil := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>evil</title><body>evil"))
	})}
	go func() { _ = evil.Serve(l) }()
	defer func() { _ = evil.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := intentFor(d, a, dev)
	var base string
	must(p.t, p.js("location.origin", &base))
	p.visit("http://palyra.localhost:" + port + "/")
	p.shows("evil")
	var secret any
	must(p.t, p.js("localStorage.getItem('palyra.page')", &secret))
	if secret != nil {
		p.t.Errorf("a page at another port has the secret of the console's: %v", secret)
	}
	if err := p.assert(&s, dev); err != nil {
		p.t.Fatalf("the browser refuses, which is more than the daemon counts on: %v", err)
	}
	p.visit(base + "/")
	p.until("document.querySelector('#root nav')")
	if status, said := p.decideWith(a, s); status == http.StatusOK || !strings.Contains(said, string(palyra.ReasonBadSignature)) {
		p.t.Errorf("asserted at another port: %d %s", status, said)
	}
	s = intentFor(d, a, dev) // the same, at the console, holds: it is the port that was wrong
	must(p.t, p.assert(&s, dev))
	s.Intent.Nonce = base64.RawURLEncoding.EncodeToString([]byte("another nonce 16"))
	if status, said := p.decideWith(a, s); status == http.StatusOK || !strings.Contains(said, string(palyra.ReasonBadSignature)) {
		p.t.Errorf("with another nonce: %d %s", status, said)
	}
}

// notVerified: where the authenticator cannot verify the person there is no answer, whatever a page asks it for.
func (p *page) notVerified(d *daemon, machine string, a palyra.Approval) {
	p.t.Helper()
	verify := func(on bool) {
		must(p.t, p.call(p.session, "WebAuthn.setUserVerified", map[string]any{"authenticatorId": machine, "isUserVerified": on}, nil))
	}
	verify(false)
	defer verify(true)
	p.choose(d)
	p.click("Allow once")
	p.shows("the authenticator did not sign")
	all, err := d.client(client.OperatorDoor).Devices(p.t.Context())
	must(p.t, err)
	s := intentFor(d, a, all[len(all)-1])
	must(p.t, p.assert(&s, all[len(all)-1])) // a page that does not ask for it gets an assertion without
	if status, said := p.decideWith(a, s); status == http.StatusOK || !strings.Contains(said, "did not verify") {
		p.t.Errorf("without its person: %d %s", status, said)
	}
}

// revokedPasskey: a passkey that was revoked answers no more, and the page says so.
func (p *page) revokedPasskey(d *daemon, a palyra.Approval, dev palyra.Device) {
	p.t.Helper()
	s := intentFor(d, a, dev)
	must(p.t, p.assert(&s, dev))
	(&elsewhere{t: p.t.(*testing.T), home: d.home}).must("device", "revoke", dev.Name)
	if status, said := p.decideWith(a, s); status == http.StatusOK || !strings.Contains(said, string(palyra.ReasonDeviceRevoked)) {
		p.t.Errorf("revoked: %d %s", status, said)
	}
	p.goTo("devices")
	p.shows("revoked")
	p.until("!document.querySelector('select[name=answerer]')")
}
