package journal

import (
	"testing"

	"pgregory.net/rapid"

	"palyra/internal/canon"
)

// The text written straight from canonical bytes is the one encoding/json makes
// of the value, and reading it gives the bytes back.
func TestText(t *testing.T) {
	check := func(fail func(string, ...any), v any) {
		b, err := canon.Marshal(v)
		if err != nil {
			fail("%v", err)
		}
		value, err := canon.Decode(b)
		if err != nil {
			fail("%v", err)
		}
		want, err := canon.JSON(value)
		if err != nil {
			fail("%v", err)
		}
		got, err := jsonText(b)
		if err != nil || string(got) != string(want) {
			fail("%q: %s, %v; encoding/json %s", b, got, err, want)
		}
		if back, err := canon.FromJSON(got); err != nil || string(back) != string(b) {
			fail("%s: back to %q, %v; was %q", got, back, err, b)
		}
	}
	rapid.Check(t, func(rt *rapid.T) { check(rt.Fatalf, anyValue(3).Draw(rt, "value")) })
	for r := rune(0); r < 0x3000; r++ {
		check(t.Fatalf, "a"+string(r)+"b")
	}
	check(t.Fatalf, "\u2028\u2029\u202a\ufffd🐈\u2028")
}

func FuzzText(f *testing.F) {
	for _, s := range []string{
		"z", "n1:0", "n2:01", "s3:\xe2\x80\xa8", "s2:\xe2\x80", "l2:zt", "m2:s1:azs1:bt", "m2:s1:bzs1:at", "m1:s1:a",
		"l1:", "q", "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, wantErr := canon.Decode(b)
		got, err := jsonText(b)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, canon %v", b, err, wantErr)
		}
		if err != nil {
			return
		}
		if want, err := canon.JSON(v); err != nil || string(got) != string(want) {
			t.Errorf("%q: %s, encoding/json %s, %v", b, got, want, err)
		}
	})
}

func TestHasExactly(t *testing.T) {
	m := map[string]any{"a": 1, "b": nil}
	if !hasExactly(m, "a", "b") || hasExactly(m, "a") || hasExactly(m, "a", "c") || hasExactly(m, "a", "b", "c") {
		t.Error("keys are not compared")
	}
}
