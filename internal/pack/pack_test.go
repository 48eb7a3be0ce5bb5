package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

// What is packed rests on the dictionary, byte for byte: it never changes.
func TestTheDictionaryStays(t *testing.T) {
	const want = "e2a193982a068f936ab47d3555d45e9026ab31a4d032f38d5d6c7f9029e7a041"
	if got := sha256.Sum256(dictionary); hex.EncodeToString(got[:]) != want {
		t.Errorf("the dictionary of version %d is %x; another one needs another version", version, got)
	}
	if len(dictionary) > 32<<10 {
		t.Errorf("%d bytes: more than the window is of no use", len(dictionary))
	}
}

// A packed text from the first day can be read for ever.
func TestGolden(t *testing.T) {
	raw, err := base64.StdEncoding.DecodeString("AZEBcgciqkkGO4SAKo2IaqVEUFJAb0zE1tYCAgAA//8=")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Text(raw)
	if err != nil || string(got) != golden {
		t.Errorf("%q, %v; packed now: %s", got, err, base64.StdEncoding.EncodeToString(Pack([]byte(golden))))
	}
}

const golden = `{"outcome":"finished","tool":"palyra.echo","attestation":{"payloadType":"application/vnd.in-toto+json","payload":"eyJhIjoxfQ==","signatures":[]}}`

func TestPack(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "one byte": "{", "a text": golden, "the mark alone": string(mark), "no end": string(mark) + "abcd",
		"no base64": string(mark) + `ab!d"`, "another spelling": string(mark) + `YR=="`, "empty": string(mark) + `"`,
		"twice": golden + golden, "long": strings.Repeat("x", most+1), "as long as may be": strings.Repeat("x", most),
		"packed already": "\x01abc",
	} {
		packed := Pack([]byte(text))
		if name == "packed already" {
			if !bytes.Equal(packed, []byte(text)) {
				t.Errorf("%s: %q", name, packed)
			}
			continue
		}
		got, err := Text(packed)
		if err != nil || string(got) != text || len(packed) > len(text) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(packed), len(text), err)
		}
	}
	if n := len(Pack([]byte(golden))); n > len(golden)/2 {
		t.Errorf("%d bytes of %d", n, len(golden))
	}
}

func TestDamagedTextsAreRefused(t *testing.T) {
	good := Pack([]byte(golden))
	if _, err := Text(append(bytes.Clone(good), 'x')); err == nil {
		t.Error("a byte after the end was taken")
	}
	for i := range good {
		for _, bad := range [][]byte{good[:i], append(append(bytes.Clone(good[:i]), good[i]^0x40), good[i+1:]...)} {
			if len(bad) == 0 || bad[0] != version {
				continue
			}
			if got, err := Text(bad); err == nil && string(got) == golden && !bytes.Equal(bad, good) && len(bad) < len(good)-4 {
				t.Errorf("cut or changed at %d: %q", i, got)
			}
		}
	}
}

// Property: Text undoes Pack, and no input of Text does harm.
func FuzzPack(f *testing.F) {
	f.Add([]byte(golden))
	f.Add([]byte("\x01\x05\x00\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = Text(text)
		if packed(text) {
			return
		}
		if got, err := Text(Pack(text)); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%q became %q, %v", text, got, err)
		}
	})
}
