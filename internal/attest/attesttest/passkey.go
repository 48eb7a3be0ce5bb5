package attesttest

import (
	"encoding/base64"
	"strings"

	"palyra"
	"palyra/internal/passkey/passkeytest"
)

// The passkeys of the samples. Whoever trusts Ada and Bob trusts these as well.
var (
	AdasPasskey = passkeytest.ES256("ada's passkey")
	BobsPasskey = passkeytest.EdDSA("bob's passkey")
)

// ConsoleOrigin is where the samples' passkeys are used.
const ConsoleOrigin = "http://palyra.localhost:7142"

// ByPasskey has an answer given with a passkey: how, if not nil, spoils or varies what the authenticator and the browser
// do; after, if not nil, spoils what came of it.
func (r *SampleRun) ByPasskey(a *passkeytest.Authenticator, by palyra.Principal, how func(*passkeytest.Ask),
	after func(*palyra.Signature),
) {
	r.Vote(Ada, by, func(v *palyra.Vote) {
		s := &v.Signature
		v.Method = palyra.MethodConsole
		s.Fields["method"] = "console"
		s.PublicKey, s.Intent.KeyID, s.Intent.Body = a.Public(), a.KeyID(), must(palyra.IntentBody(s.Fields))
		q := passkeytest.Ask{Origin: ConsoleOrigin}
		if how != nil {
			how(&q)
		}
		sig, assertion := a.Sign(s.Intent, q)
		s.Sig, s.Assertion = sig, &assertion
		if after != nil {
			after(s)
		}
	})
}

// PasskeyRun is one run that Ada allowed with her passkey.
func PasskeyRun() *SampleRun {
	r := NewRun()
	r.Predicate.Decision.Votes = nil
	r.ByPasskey(AdasPasskey, "user:ada", nil, nil)
	return r
}

// forgedPasskeys are answers that no passkey gave, or not here, not to this, or without its person.
func forgedPasskeys(add func(string, func(*SampleRun))) {
	forged := func(name string, how func(*passkeytest.Ask), after func(*palyra.Signature)) {
		add("passkey: "+name, func(r *SampleRun) {
			r.Predicate.Decision.Votes = nil
			r.ByPasskey(AdasPasskey, "user:ada", how, after)
		})
	}
	says := func(text string) func(*passkeytest.Ask) {
		return func(q *passkeytest.Ask) {
			q.Client = func(challenge, origin string) string {
				return strings.NewReplacer("CHALLENGE", challenge, "ORIGIN", origin).Replace(text)
			}
		}
	}
	flags := func(f byte) func(*passkeytest.Ask) { return func(q *passkeytest.Ask) { q.Flags = f } }
	at := func(origin, host string) func(*passkeytest.Ask) {
		return func(q *passkeytest.Ask) { q.Origin, q.Host = origin, host }
	}
	forged("another question", func(q *passkeytest.Ask) { q.Challenge = make([]byte, 32) }, nil)
	forged("nobody was verified", flags(passkeytest.Present), nil)
	forged("nobody was there", flags(passkeytest.Verified), nil)
	forged("an unknown flag", flags(passkeytest.Present|passkeytest.Verified|2), nil)
	forged("extensions", flags(passkeytest.Present|passkeytest.Verified|128), nil)
	forged("copies that cannot be", flags(passkeytest.Present|passkeytest.Verified|passkeytest.BackedUp), nil)
	forged("another relying party", at(ConsoleOrigin, "localhost"), nil)
	for _, origin := range []string{
		"http://localhost:7142", "http://palyra.localhost:7142/", "http://evil.palyra.localhost:7142", "http://palyra.example",
		"palyra.localhost",
		"http://u@palyra.localhost:7142", "http://palyra.localhost:07142", "http://palyra.localhost:70000", "ftp://palyra.localhost", "",
	} {
		forged("at "+origin, at(origin, "palyra.localhost"), nil)
	}
	forged("a new passkey", says(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"ORIGIN"}`), nil)
	forged("in a frame", says(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"ORIGIN","crossOrigin":true}`), nil)
	forged("below a page", says(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"ORIGIN","topOrigin":"ORIGIN"}`), nil)
	forged("padded challenge", says(`{"type":"webauthn.get","challenge":"CHALLENGE=","origin":"ORIGIN"}`), nil)
	forged("no challenge", says(`{"type":"webauthn.get","origin":"ORIGIN"}`), nil)
	forged("no object", says(`["webauthn.get","CHALLENGE","ORIGIN"]`), nil)
	forged("not UTF-8", says(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"ORIGIN","x":"`+"\xff"+`"}`), nil)
	forged("too long", says(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"ORIGIN"}`+strings.Repeat(" ", 2048)), nil)
	forged("no assertion", nil, func(s *palyra.Signature) { s.Assertion = nil })
	forged("no data", nil, func(s *palyra.Signature) { s.Assertion.AuthenticatorData = "" })
	forged("no client's data", nil, func(s *palyra.Signature) { s.Assertion.ClientData = "" })
	forged("another key", nil, func(s *palyra.Signature) { s.PublicKey, s.Intent.KeyID = BobsPasskey.Public(), BobsPasskey.KeyID() })
	forged("another's key", nil, func(s *palyra.Signature) { s.PublicKey = BobsPasskey.Public() })
	forged("an operator's key", nil, func(s *palyra.Signature) { s.PublicKey, s.Intent.KeyID = Ada.Public(), Ada.OperatorID() })
	forged("an operator's signature", nil, func(s *palyra.Signature) {
		sig, _ := Ada.Sign(must(s.Intent.Bytes()))
		s.Sig = base64.StdEncoding.EncodeToString(sig)
	})
	add("passkey: an operator's answer with an assertion", func(r *SampleRun) {
		r.Revote(func(v *palyra.Vote) {
			_, a := AdasPasskey.Sign(v.Signature.Intent, passkeytest.Ask{Origin: ConsoleOrigin})
			v.Signature.Assertion = &a
		})
	})
}
