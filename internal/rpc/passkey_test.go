package rpc_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/passkey"
	"palyra/internal/passkey/passkeytest"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/wire"
	"palyra/internal/webauthn"
)

// heldPasskey is a passkey in a test's authenticator, that the daemon knows.
type heldPasskey struct {
	*passkeytest.Authenticator
	palyra.Device
}

// passkey makes a person's passkey known, of the console as it is called now.
func (w *world) passkey(name string, who palyra.Principal, as ...*passkeytest.Authenticator) heldPasskey {
	w.t.Helper()
	return w.passkeyOf(name, who, w.console, as...)
}

// passkeyAt makes a passkey of the owner's known, of another console.
func (w *world) passkeyAt(name, address string) heldPasskey {
	w.t.Helper()
	return w.passkeyOf(name, "user:alice", address)
}

func (w *world) passkeyOf(name string, who palyra.Principal, address string, as ...*passkeytest.Authenticator) heldPasskey {
	w.t.Helper()
	a := passkeytest.ES256(name)
	if len(as) > 0 {
		a = as[0]
	}
	origin := passkey.ConsoleOrigin(address)
	made, key, err := webauthn.Register(a.Make(passkeytest.Ask{Origin: origin, Challenge: []byte("c")}), []byte("c"), origin)
	w.must(err)
	made.Separation = palyra.SeparationPassphrase
	d, err := w.registry.AddDevice(w.t.Context(), palyra.Device{
		Name: name, Principal: who, Role: palyra.RoleApprover, PublicKey: key.Text(), PairedBy: "user:alice", Call: "C1", Address: address,
		ExpiresAt: time.Now().Add(time.Hour), Passkey: &made,
	}, "P1")
	w.must(err)
	return heldPasskey{a, d}
}

// answers is the head of a request that a passkey signs. The zero how is the usual way.
func (c heldPasskey) answers(t testing.TB, m method, msg proto.Message, how passkeytest.Ask, at time.Time) http.Header {
	t.Helper()
	i := wire.Intent{
		Nonce: base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%016d", time.Now().UnixNano()%1e15)),
		Time:  palyra.Time(at), KeyID: c.KeyID(),
	}
	bound, err := wire.Bind(rpctest.StateID, wire.Access{Method: m.procedure()[1:]}, msg, i)
	if err != nil {
		t.Fatal(err)
	}
	if how.Origin == "" {
		how.Origin = c.Passkey.Origin
	}
	sig, a := c.Sign(bound.Intent, how)
	i.Sig, i.AuthenticatorData, i.ClientData = sig, a.AuthenticatorData, a.ClientData
	h, err := i.Header()
	if err != nil {
		t.Fatal(err)
	}
	return intent(h)
}

// KeyID is the name of its key.
func (c heldPasskey) KeyID() string { return c.Authenticator.KeyID() }

func (c *crowded) asserted(key heldPasskey) func(m method, msg proto.Message) http.Header {
	return func(m method, msg proto.Message) http.Header {
		return key.answers(c.t, m, msg, passkeytest.Ask{}, time.Now())
	}
}

// passkeyWorld is a world whose owner is signed in, with a question.
type passkeyWorld struct {
	*world
	decide method
	answer *v1.DecideApprovalRequest
	cookie http.Header
	votes  []palyra.Vote // that were taken
}

func newPasskeyWorld(t *testing.T) *passkeyWorld {
	t.Helper()
	w := newWorld(t, nil)
	p := &passkeyWorld{
		w, find(t, "DecideApproval"), &v1.DecideApprovalRequest{ApprovalId: "A1", Answer: "allow", Scope: "once", PlanDigest: "sha256:x"},
		cookieHead(w.cookie(w.owner, "user:alice", palyra.RoleOwner)), nil,
	}
	w.parts.OnDecide = func(v palyra.Vote) (palyra.Approval, error) {
		p.votes = append(p.votes, v)
		return palyra.Approval{ID: v.Approval}, nil
	}
	return p
}

// decides sends an answer, and returns what became of it.
func (w *passkeyWorld) decides(head http.Header, msg *v1.DecideApprovalRequest) palyra.Reason {
	w.t.Helper()
	all := w.cookie.Clone()
	for k, v := range head {
		all[k] = v
	}
	why, err := w.sendTo(w.browser(), "http://"+w.console, w.decide, msg, all)
	w.must(err)
	return why
}

// An answer by passkey counts once, for what was asked, at the console where the passkey was made, with its person there
// and verified, as long as it is known. What it is kept with is what the authenticator gave.
func TestAnswersByPasskey(t *testing.T) {
	w := newPasskeyWorld(t)
	for name, a := range map[string]*passkeytest.Authenticator{"es256": passkeytest.ES256("1"), "eddsa": passkeytest.EdDSA("2")} {
		key := w.passkey(name, "user:alice", a)
		head := key.answers(t, w.decide, w.answer, passkeytest.Ask{}, time.Now())
		if why := w.decides(head, w.answer); why != let {
			t.Fatalf("%s: %q", name, why)
		}
		v := w.votes[len(w.votes)-1]
		if v.Signature.Assertion == nil || v.Signature.PublicKey != a.Public() || v.Separation != palyra.SeparationPassphrase || v.Device ||
			v.By != "user:alice" {
			t.Errorf("%s: %+v", name, v)
		}
		if why := w.decides(head, w.answer); why != palyra.ReasonReplayedSignature {
			t.Errorf("%s, again: %q", name, why)
		}
	}
	key := w.passkey("more", "user:alice")
	other := proto.Clone(w.answer).(*v1.DecideApprovalRequest)
	other.ApprovalId = "A2"
	if why := w.decides(key.answers(t, w.decide, w.answer, passkeytest.Ask{}, time.Now()), other); why != palyra.ReasonBadSignature {
		t.Errorf("for another question: %q", why)
	}
	if why := w.decides(key.answers(t, w.decide, w.answer, passkeytest.Ask{}, time.Now().Add(-3*time.Minute)), w.answer); why !=
		palyra.ReasonStaleSignature {
		t.Errorf("of long ago: %q", why)
	}
	elsewhere := func(client string) func(string, string) string {
		return func(challenge, origin string) string {
			return strings.NewReplacer("CHALLENGE", challenge, "PAGE", origin).Replace(client)
		}
	}
	for name, how := range map[string]passkeytest.Ask{
		"another port":       {Origin: "http://palyra.localhost:1"},
		"another name":       {Origin: "http://localhost:1"},
		"another name here":  {Origin: strings.Replace(key.Passkey.Origin, "palyra.", "", 1), Host: "palyra.localhost"},
		"https":              {Origin: strings.Replace(key.Passkey.Origin, "http", "https", 1)},
		"another party":      {Host: "localhost"},
		"not verified":       {Flags: passkeytest.Present},
		"not present":        {Flags: passkeytest.Verified},
		"copies all at once": {Flags: passkeytest.Present | passkeytest.Verified | passkeytest.Eligible},
		"another challenge":  {Challenge: []byte("another")},
		"made, not asserted": {Client: elsewhere(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"PAGE"}`)},
		"in a frame":         {Client: elsewhere(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"PAGE","crossOrigin":true}`)},
		"two origins":        {Client: elsewhere(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"PAGE","Origin":"http://x"}`)},
	} {
		if why := w.decides(key.answers(t, w.decide, w.answer, how, time.Now()), w.answer); why != palyra.ReasonBadSignature {
			t.Errorf("%s: %q", name, why)
		}
	}
	stranger := heldPasskey{passkeytest.ES256("stranger"), key.Device}
	if why := w.decides(stranger.answers(t, w.decide, w.answer, passkeytest.Ask{}, time.Now()), w.answer); why != palyra.ReasonUnknownKey {
		t.Errorf("a stranger's: %q", why)
	}
	_, err := w.registry.RevokeDevice(t.Context(), key.ID, w.by())
	w.must(err)
	if why := w.decides(key.answers(t, w.decide, w.answer, passkeytest.Ask{}, time.Now()), w.answer); why != palyra.ReasonDeviceRevoked {
		t.Errorf("revoked: %q", why)
	}
	if n := len(w.votes); n != 2 {
		t.Errorf("%d answers were taken", n)
	}
}

// The kind of a key decides how it signs: a passkey's by an assertion, any other without.
func TestKindsOfKeysAreNotMixed(t *testing.T) {
	w := newPasskeyWorld(t)
	key, own := w.passkey("key", "user:alice", passkeytest.EdDSA("3")), w.paired("chromium", "user:alice", 0)
	plain := own.key.intent(t, w.decide, w.answer, rpctest.StateID, time.Now())
	if why := w.decides(intent(strings.Replace(plain, own.key.id, key.KeyID(), 1)), w.answer); why != palyra.ReasonBadSignature {
		t.Errorf("a passkey's without an assertion: %q", why)
	}
	asserted := key.answers(t, w.decide, w.answer, passkeytest.Ask{}, time.Now()).Get(wire.IntentHeader)
	if why := w.decides(intent(strings.Replace(asserted, key.KeyID(), own.key.id, 1)), w.answer); why != palyra.ReasonBadSignature {
		t.Errorf("a browser's with an assertion: %q", why)
	}
}

// An authenticator that counts only counts on: a count that was there is that of a copy. One that does not count is taken.
func TestCopiesOfAPasskey(t *testing.T) {
	w := newPasskeyWorld(t)
	key := w.passkey("key", "user:alice")
	for _, step := range []struct {
		count uint32
		want  palyra.Reason
	}{
		{0, let},
		{0, let},
		{5, let},
		{5, palyra.ReasonPasskeyCopied},
		{4, palyra.ReasonPasskeyCopied},
		{0, palyra.ReasonPasskeyCopied},
		{6, let},
		{1 << 31, let},
	} {
		head := key.answers(t, w.decide, w.answer, passkeytest.Ask{Count: step.count}, time.Now())
		if why := w.decides(head, w.answer); why != step.want {
			t.Errorf("count %d: %q, want %q", step.count, why, step.want)
		}
	}
}

// A cookie without the secret of the console's own pages gets nothing at all, and is on record.
func TestACookieAloneGetsNothing(t *testing.T) {
	w := newWorld(t, nil)
	cookie, status := w.cookie(w.owner, "user:alice", palyra.RoleOwner), find(t, "GetStatus")
	for name, secrets := range map[string][]string{
		"none": nil, "empty": {""}, "another": {strings.Repeat("B", 42) + "A"}, "two": {pageSecret, pageSecret}, "short": {pageSecret[:42]},
		"another spelling": {pageSecret[:42] + "B"}, "padded": {pageSecret + "="},
	} {
		w.journal.alerts()
		head := cookieHead(cookie)
		head["Palyra-Page"] = secrets
		why, err := w.sendTo(w.browser(), "http://"+w.console, status, status.request(t), head)
		if err != nil || why != palyra.ReasonBadCredential {
			t.Errorf("%s: %q %v", name, why, err)
		}
	}
	if w.looks(cookie) != let {
		t.Error("the page itself is refused")
	}
	for _, page := range []string{"", "short", pageSecret + "A", strings.Repeat("A", 42) + "B", strings.Repeat("!", 43)} {
		code := w.code(w.owner, "user:alice", palyra.RoleOwner)
		res, err := w.browser().PostForm("http://"+w.console+"/login", map[string][]string{"code": {code}, "page": {page}})
		w.must(err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || len(res.Cookies()) > 0 {
			t.Errorf("signed in with the secret %q: %d", page, res.StatusCode)
		}
	}
}
