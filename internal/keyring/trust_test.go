package keyring

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func TestTrustFile(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	for i := range 3 {
		f.now = f.now.Add(time.Duration(1-i) * time.Hour) // also backwards
		f.rotate(r, Journal)
	}
	raw, err := r.Export()
	if err != nil {
		t.Fatal(err)
	}
	trust, err := ParseTrust(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(trust.Of(Journal)) != 4 || len(trust.Of(Attestation)) != 1 {
		t.Errorf("trust %+v", trust)
	}
	var got []palyra.Key
	for _, k := range trust.Keys {
		got = append(got, k.Key)
	}
	if diff := cmp.Diff(r.List(), got); diff != "" {
		t.Error(diff)
	}
	again, err := f.open().Export()
	if err != nil || !bytes.Equal(raw, again) {
		t.Errorf("another export after a restart (%v)", err)
	}
}

func TestTrustFileRefused(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	f.rotate(r, Journal)
	raw, err := r.Export()
	if err != nil {
		t.Fatal(err)
	}
	stranger, _ := newKey()
	for name, change := range map[string]func(*Trust){
		"version":         func(x *Trust) { x.Version = 2 },
		"use":             func(x *Trust) { x.Keys[2].Use = "vault" },
		"use swapped":     func(x *Trust) { x.Keys[2].Use = Attestation },
		"id":              func(x *Trust) { x.Keys[0].ID = strings.Repeat("0", 16) },
		"public key":      func(x *Trust) { x.Keys[1].PublicKey = base64.StdEncoding.EncodeToString(public(stranger)) },
		"short key":       func(x *Trust) { x.Keys[1].PublicKey = "AAAA" },
		"verifier":        func(x *Trust) { x.Keys[1].Verifier = "x" + x.Keys[1].Verifier },
		"sig gone":        func(x *Trust) { x.Keys[2].Sig = "" },
		"sig not base64":  func(x *Trust) { x.Keys[2].Sig = "*" },
		"sig of another":  func(x *Trust) { x.Keys[2].Sig = base64.StdEncoding.EncodeToString(make([]byte, 64)) },
		"unchained":       func(x *Trust) { x.Keys[2].SignedBy, x.Keys[2].Sig = "", "" },
		"signed by none":  func(x *Trust) { x.Keys[0].Sig = x.Keys[2].Sig },
		"order":           func(x *Trust) { x.Keys[0], x.Keys[2] = x.Keys[2], x.Keys[0] },
		"followed in use": func(x *Trust) { x.Keys[0].RetiredAt = time.Time{} },
	} {
		var x Trust
		must(t, json.Unmarshal(raw, &x))
		change(&x)
		b, _ := json.Marshal(x)
		if _, err := ParseTrust(b); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []string{
		"", "null", "[]", "{}", `{"palyra_keys":1,"keys":[],"x":1}`, `{"palyra_keys":1,"palyra_keys":1}`,
		string(raw) + "x", strings.Repeat(" ", maxTrustBytes+1),
	} {
		if _, err := ParseTrust([]byte(s)); err == nil {
			t.Errorf("accepted %.40q", s)
		}
	}
}

func FuzzParseTrust(fz *testing.F) {
	fz.Add([]byte(`{"palyra_keys":1,"keys":[]}`))
	fz.Fuzz(func(t *testing.T, raw []byte) {
		trust, err := ParseTrust(raw)
		if err != nil {
			return
		}
		for _, k := range trust.Keys { // what is accepted is coherent
			pub, err := decodeKey(k.PublicKey)
			if err != nil || KeyID(pub) != k.ID {
				t.Fatalf("accepted key %+v", k)
			}
		}
	})
}
