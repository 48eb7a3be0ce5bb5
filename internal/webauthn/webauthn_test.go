package webauthn

import (
	"bytes"
	"encoding/base64"
	"testing"

	"palyra"
	"palyra/internal/passkey"
	"palyra/internal/passkey/passkeytest"
)

const origin = "http://palyra.localhost:7142"

var challenge = []byte("a challenge of this session")

func ask() passkeytest.Ask { return passkeytest.Ask{Origin: origin, Challenge: challenge} }

// A passkey of either kind is taken with the key that then signs.
func TestRegister(t *testing.T) {
	for name, a := range map[string]*passkeytest.Authenticator{"ES256": passkeytest.ES256("a"), "EdDSA": passkeytest.EdDSA("b")} {
		p, key, err := Register(a.Make(ask()), challenge, origin)
		if err != nil || key.Text() != a.Public() || key.Algorithm != name || p.Origin != origin || p.Eligible {
			t.Fatalf("%s: %+v %v", name, p, err)
		}
		sig, said := a.Assert(passkeytest.Ask{Origin: origin, Challenge: must(t, passkey.Challenge([]byte("answer")))})
		if err := Check(p, key, []byte("answer"), sig, said); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := Check(p, key, []byte("another"), sig, said); palyra.AsError(err).Reason != palyra.ReasonBadSignature {
			t.Errorf("%s, another message: %v", name, err)
		}
		p.Origin = "http://palyra.localhost:1"
		if err := Check(p, key, []byte("answer"), sig, said); err == nil {
			t.Errorf("%s: counts at another port", name)
		}
	}
}

// must decodes a challenge as browsers spell it.
func must(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What was not made here, now and by a person who was verified is not taken, nor what is too long or cut off.
func TestRegisterRefuses(t *testing.T) {
	a := passkeytest.ES256("a")
	good := a.Make(ask())
	with := func(change func(*passkeytest.Ask)) passkey.New {
		q := ask()
		change(&q)
		return a.Make(q)
	}
	for name, made := range map[string]passkey.New{
		"nothing":             {},
		"another port":        with(func(q *passkeytest.Ask) { q.Origin = "http://palyra.localhost:1" }),
		"another name":        with(func(q *passkeytest.Ask) { q.Origin = "http://localhost:7142" }),
		"another party":       with(func(q *passkeytest.Ask) { q.Host = "localhost" }),
		"another challenge":   with(func(q *passkeytest.Ask) { q.Challenge = []byte("another") }),
		"nobody verified":     with(func(q *passkeytest.Ask) { q.Flags = passkeytest.Present }),
		"nobody there":        with(func(q *passkeytest.Ask) { q.Flags = passkeytest.Verified }),
		"an attestation":      with(func(q *passkeytest.Ask) { q.Format = "tpm" }),
		"no key":              with(func(q *passkeytest.Ask) { q.Key = []byte{0xa0} }),
		"another kind of key": with(func(q *passkeytest.Ask) { q.Key = []byte{0xa3, 1, 2, 3, 0x38, 0x22, 0x20, 2} }),
		"an assertion": with(func(q *passkeytest.Ask) {
			q.Client = func(c, o string) string {
				return `{"type":"webauthn.get","challenge":"` + c + `","origin":"` + o + `"}`
			}
		}),
		"another id":           {Credential: []byte("x"), Attestation: good.Attestation, ClientData: good.ClientData},
		"a long id":            {Credential: bytes.Repeat([]byte("x"), 257), Attestation: good.Attestation, ClientData: good.ClientData},
		"a long attestation":   {Credential: good.Credential, Attestation: make([]byte, 17<<10), ClientData: good.ClientData},
		"long data":            {Credential: good.Credential, Attestation: good.Attestation, ClientData: bytes.Repeat([]byte(" "), 3<<10)},
		"a cut off object":     {Credential: good.Credential, Attestation: good.Attestation[:90], ClientData: good.ClientData},
		"something behind it":  {Credential: good.Credential, Attestation: append(bytes.Clone(good.Attestation), 0), ClientData: good.ClientData},
		"data that is no JSON": {Credential: good.Credential, Attestation: good.Attestation, ClientData: []byte("{")},
	} {
		if _, _, err := Register(made, challenge, origin); palyra.AsError(err).Reason != palyra.ReasonBadSignature ||
			palyra.AsError(err).Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, at := range []string{"", "http://192.0.2.7:7145", "http://localhost:7142", "palyra.localhost"} {
		if _, _, err := Register(good, challenge, at); err == nil {
			t.Errorf("there is a console at %q", at)
		}
	}
	if _, _, err := Register(good, nil, origin); err == nil {
		t.Error("without a challenge")
	}
}
