package pairing

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"palyra"
)

func sampleCode() Code {
	return Code{
		Addresses: []string{"192.0.2.7:7443", "[2001:db8::1]:7443", "host.example:1"},
		Pin:       sha256.Sum256([]byte("ca")), Token: palyra.NewSecret(bytes.Repeat([]byte{7}, tokenSize)),
	}
}

func TestCodeRoundTrip(t *testing.T) {
	want := sampleCode()
	got, err := ParseCode(want.String())
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() || got.Pin != want.Pin || len(got.Addresses) != 3 {
		t.Errorf("got %s", got.String())
	}
	if len(want.String()) > 256 {
		t.Errorf("a code of %d bytes makes a large picture", len(want.String()))
	}
}

func TestCodeHidesItsSecret(t *testing.T) {
	c := sampleCode()
	secret := c.String()[strings.Index(c.String(), "&t=")+3:]
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %s %q", c, c, c, c), fmt.Sprintf("%v", &c), string(raw)} {
		if strings.Contains(text, secret) || strings.Contains(text, "[7 7") || strings.Contains(text, "BwcH") {
			t.Errorf("the secret is in %s", text)
		}
	}
}

func TestBadCodes(t *testing.T) {
	good := sampleCode().String()
	pin, token := good[strings.Index(good, "&c="):strings.Index(good, "&t=")], good[strings.Index(good, "&t="):]
	for name, bad := range map[string]string{
		"empty":            "",
		"prefix only":      codePrefix,
		"another scheme":   "https://" + good,
		"another version":  strings.Replace(good, ":1?", ":2?", 1),
		"no address":       codePrefix + pin[1:] + token,
		"no pin":           codePrefix + "a=h:1" + token,
		"no token":         codePrefix + "a=h:1" + pin,
		"order":            codePrefix + "a=h:1" + token + pin,
		"unknown part":     codePrefix + "a=h:1&x=1" + pin + token,
		"trailing part":    good + "&x=1",
		"line end":         good[:len(good)-3] + "\n" + good[len(good)-3:],
		"padding":          good + "=",
		"short token":      good[:len(good)-1],
		"zero token":       codePrefix + "a=h:1" + pin + "&t=" + strings.Repeat("A", 43),
		"address":          codePrefix + "a=h" + pin + token,
		"port zero":        codePrefix + "a=h:0" + pin + token,
		"port large":       codePrefix + "a=h:65536" + pin + token,
		"port by name":     codePrefix + "a=h:https" + pin + token,
		"port in two ways": codePrefix + "a=h:01" + pin + token,
		"control":          codePrefix + "a=\x1b[2J:1" + pin + token,
		"space":            codePrefix + "a=h o:1" + pin + token,
		"too many":         codePrefix + strings.Repeat("a=h:1&", 9)[:53] + pin + token,
		"too long":         codePrefix + "a=" + strings.Repeat("h", 2000) + ":1" + pin + token,
	} {
		if c, err := ParseCode(bad); palyra.CodeOf(err) != palyra.Invalid || !c.Token.Empty() {
			t.Errorf("%s: ParseCode(%q) = %v", name, bad, err)
		}
	}
}

func FuzzParseCode(f *testing.F) {
	f.Add(sampleCode().String())
	f.Add(codePrefix)
	f.Add(codePrefix + "a=h:1&c=&t=")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCode(text)
		if err != nil {
			if palyra.CodeOf(err) != palyra.Invalid {
				t.Fatalf("error %v", err)
			}
			return
		}
		if c.String() != text {
			t.Fatalf("%q and %q are the same code", text, c.String())
		}
		if len(c.Addresses) == 0 || len(c.Addresses) > maxAddresses || c.Token.Empty() ||
			strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' }) {
			t.Fatalf("%q is accepted", text)
		}
	})
}

func TestPINs(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		p, err := newPIN()
		if err != nil {
			t.Fatal(err)
		}
		_ = p.Use(func(b []byte) error {
			if len(b) != pinDigits || strings.Trim(string(b), "0123456789") != "" {
				t.Errorf("PIN %q", b)
			}
			seen[string(b)] = true
			return nil
		})
	}
	if len(seen) < 199 { // two equal ones among 200 of 10⁸ are rarer than one in 5000
		t.Errorf("%d different PINs of 200", len(seen))
	}
}

func TestCleanPIN(t *testing.T) {
	for typed, want := range map[string]string{
		"12345678": "12345678", "1234 5678": "12345678", "12-34-56-78": "12345678", " 12345678 ": "12345678",
		"": "", "1234567": "", "123456789": "", "1234567a": "", "12345678\n": "", "１２３４５６７８": "", "-": "",
	} {
		got := ""
		s, err := cleanPIN(palyra.NewSecret([]byte(typed)))
		_ = s.Use(func(b []byte) error { got = string(b); return nil })
		if got != want || (err == nil) != (want != "") {
			t.Errorf("cleanPIN(%q) = %q, %v", typed, got, err)
		}
		if err != nil && palyra.AsError(err).Reason != palyra.ReasonPairingWrongCode {
			t.Errorf("cleanPIN(%q): %v", typed, err)
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"laptop": true, "a": true, "phone-2.home_x": true, "Phone": false, strings.Repeat("x", MaxName): true,
		"": false, ".x": false, "-x": false, "a b": false, "a/b": false, "dev-1": false, "ünï": false, "a\x1b": false,
		strings.Repeat("x", MaxName+1): false, "a\u202eb": false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

func TestKeyNames(t *testing.T) {
	key := bytes.Repeat([]byte{1}, 32)
	const digest = "72cd6e8422c407fb6d098690f1130b7d" // the beginning of its SHA-256
	if got := KeyID(key); got != "op-"+digest {
		t.Errorf("KeyID = %s", got)
	}
	if got := Fingerprint(key); got != "72CD 6E84 22C4 07FB 6D09 8690 F113 0B7D" {
		t.Errorf("Fingerprint = %s", got)
	}
}
