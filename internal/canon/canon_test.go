package canon

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The vectors are published in docs/formats.md; a change here breaks every
// digest ever signed.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ JSON, Canon, Digest string }
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		b, err := FromJSON([]byte(v.JSON))
		if err != nil {
			t.Errorf("%s: %v", v.JSON, err)
			continue
		}
		if string(b) != v.Canon {
			t.Errorf("%s: canon %q, want %q", v.JSON, b, v.Canon)
		}
		if got := Sum("test/v1", b); got != v.Digest {
			t.Errorf("%s: digest %s, want %s", v.JSON, got, v.Digest)
		}
	}
	if len(vectors) < 12 {
		t.Errorf("only %d vectors", len(vectors))
	}
}

func TestOneEncodingPerValue(t *testing.T) {
	same := [][]string{
		{`1`, `1.0`, `10e-1`, `0.1E1`, ` 1 `},
		{`0`, `-0`, `0.0`, `0e5`},
		{`"a"`, `"\u0061"`},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, "{\n\"a\" : 1.0, \"b\":2}"},
		{`"😀"`, `"\ud83d\ude00"`},
	}
	seen := map[string]string{}
	for _, group := range same {
		first, err := FromJSON([]byte(group[0]))
		if err != nil {
			t.Fatal(err)
		}
		if other, dup := seen[string(first)]; dup {
			t.Errorf("%s and %s share an encoding", group[0], other)
		}
		seen[string(first)] = group[0]
		for _, s := range group[1:] {
			if b, err := FromJSON([]byte(s)); err != nil || !bytes.Equal(b, first) {
				t.Errorf("%s: %q %v, want %q", s, b, err, first)
			}
		}
	}
}

func TestNumbersAFloatWouldMerge(t *testing.T) {
	a, _ := FromJSON([]byte(`9007199254740993`))
	b, _ := FromJSON([]byte(`9007199254740992`))
	if bytes.Equal(a, b) {
		t.Error("two integers share an encoding")
	}
}

func TestRefused(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2)
	for _, s := range []string{
		``, `{`, `[1,]`, `{"a":1,"a":2}`, `"\ud800"`, `"\udffd"`, `"\ud800\u0061"`, `1 2`, `nul`, "\"\xff\"",
		`-`, `1.`, `.5`, `1e`, `+1`, `"\x"`, `"\u12"`, `"\u12g4"`, `"abc`, "\"\x01\"", `{"a"}`, `{"a":}`, `{a:1}`, `[1 2]`, `{"a":1 "b":2}`,
		`"\`, `tru`,
		`"\ud800\n"`, `"\ud800\u0"`, "\u00a01", `1e1000`, `1e99999999999`, strings.Repeat("1", 65), deep, `{"a":1}}`, `01`,
	} {
		if b, err := FromJSON([]byte(s)); err == nil {
			t.Errorf("%.40q accepted as %q", s, b)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, s := range []string{
		"", "s3:ab", "s03:abc", "s:", "n1:x", "n3:1.0", "n2:01", "l1:", "m1:s1:b", "m2:s1:bts1:at", "m2:s1:ats1:at", "tt", "x",
		"s1:\xff", "m1:tt", "l999999999999999999999:", "n2:-0",
	} {
		v, err := Decode([]byte(s))
		if err == nil {
			t.Errorf("%q accepted as %v", s, v)
		}
		readsCanonical(t, s, v, err)
	}
}

func TestUnmarshal(t *testing.T) {
	type T struct {
		A int64    `json:"a"`
		B []string `json:"b"`
	}
	b, err := Marshal(T{A: 1 << 60, B: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	var got T
	if err := Unmarshal(b, &got); err != nil || got.A != 1<<60 || got.B[0] != "x" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := Unmarshal([]byte("x"), &got); err == nil {
		t.Error("bad bytes accepted")
	}
}

// Property: what Decode accepts, Append writes back byte for byte.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"z", "m1:s1:al2:n1:1s0:", "n5:12e-1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Decode(b)
		readsCanonical(t, string(b), v, err)
		if err != nil {
			return
		}
		again, err := Append(nil, v)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q decodes to %v, which encodes as %q (%v)", b, v, again, err)
		}
	})
}

// Property: Parse accepts no more than encoding/json, and reads the same values.
func FuzzParseAgainstStandard(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+7,null,true,"\u00e9\n\/"]}`, `"\ud83d\ude00"`, `[ ]`, `-`, `1.`, `01`, `"\x"`, "\"\t\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := Parse(raw)
		if err != nil {
			return
		}
		var std any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if !json.Valid(raw) || dec.Decode(&std) != nil {
			t.Fatalf("%q: accepted as %v, refused by encoding/json", raw, v)
		}
		a, aerr := Append(nil, v)
		b, berr := Append(nil, std)
		if aerr != nil || berr != nil || !bytes.Equal(a, b) {
			t.Fatalf("%q: %q, encoding/json reads %q (%v, %v)", raw, a, b, aerr, berr)
		}
	})
}

// Property: canonical bytes of any accepted JSON decode, and re-encode equal.
func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e10,null,true]}`, `"\ud83d\ude00"`, `-0.0`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := FromJSON(raw)
		if err != nil {
			return
		}
		v, err := Decode(b)
		if err != nil {
			t.Fatalf("%q: own bytes %q refused: %v", raw, b, err)
		}
		again, _ := Append(nil, v)
		if !bytes.Equal(again, b) {
			t.Fatalf("%q: %q then %q", raw, b, again)
		}
	})
}
