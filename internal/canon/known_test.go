package canon

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// knows holds what a Known makes of a text against what a Doc makes of it, and reports whether it reads it.
func knows(t *testing.T, k *Known[string], text string) bool {
	t.Helper()
	end, err := k.Read(text, 0, 1)
	if err != nil || end != len(text) {
		return false
	}
	var d Doc
	if err := d.Read(text); err != nil {
		t.Fatalf("%q is read: %v", text, err)
	}
	if want, got := d.AppendCanonical(nil), k.AppendCanonical(nil); !bytes.Equal(want, got) {
		t.Fatalf("%q is %q, not %q", text, got, want)
	}
	i, members := 0, k.Members()
	for name, v := range d.Root().Members() {
		if want := name + " " + v.Raw(); i >= len(members) || members[i].Value != want {
			t.Fatalf("%q: member %d is not %q", text, i, want)
		}
		i++
	}
	if i != len(members) {
		t.Fatalf("%q has %d members, not %d", text, len(members), i)
	}
	return true
}

func newTextKnown() *Known[string] {
	return NewKnown(func(name string, v Value, _ bool) (string, error) { return name + " " + v.Raw(), nil }, nil)
}

func TestKnownAgreesWithDoc(t *testing.T) {
	k, deep := newTextKnown(), strings.Repeat("[", MaxDepth-1)
	plain := []string{
		`{}`, `{"a":1}`, `{"a":12}`, `{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"a":{"x":[1, 2]},"b":"\u0061,}"}`, `{"a":"1"}`, `{"a":1.0}`, `{"":[]}`,
		`{"é":null,"z":true}`, `{"a":` + deep + strings.Repeat("]", MaxDepth-1) + `}`,
	}
	bad := []string{
		``, `{`, `[]`, `{"a"`, `{"a":}`, `{"a":1,}`, `{"a":1 }`, `{ "a":1}`, `{"a": 1}`, `{"\u0061":1}`, `{"a":1,"a":2}`,
		`{"a":1,"a":1}`, `{"a":1}x`,
		"{\"a\":\"\xff\"}", "{\"\xff\":1}", `{"a":"\ud800"}`, `{"a":01}`, `{"a":1`, `{"a":1]`,
		`{"a":[[` + deep + strings.Repeat("]", MaxDepth+1) + `}`,
	}
	for range 4 {
		for _, text := range plain {
			if !knows(t, k, text) {
				t.Errorf("%q is not read", text)
			}
		}
		for _, text := range bad {
			if knows(t, k, text) {
				t.Errorf("%q is read", text)
			}
		}
	}
}

// Whatever comes by, little is kept.
func TestKnownIsBounded(t *testing.T) {
	k, long := newTextKnown(), strings.Repeat("x", knownText-100)
	for i := range 400 {
		text := fmt.Sprintf(`{"a":"%s%d","b%d":"%s","c":%d}`, long, i, i, long, i)
		for range 2 {
			if !knows(t, k, text) {
				t.Fatal("is not read")
			}
		}
		if len(k.slots) > knownSlots+8 || k.bytes > knownBytes+1<<20 || len(k.slots["a"].all) > knownVariants || len(k.orders) > knownOrders {
			t.Fatalf("%d names, %d bytes", len(k.slots), k.bytes)
		}
	}
	var many strings.Builder
	for i := range knownSlots + 1 {
		fmt.Fprintf(&many, `,"%d":1`, i)
	}
	if text := "{" + many.String()[1:] + "}"; knows(t, k, text) {
		t.Error("any number of members is read")
	}
}

func FuzzKnown(f *testing.F) {
	for _, text := range docTexts {
		f.Add(`{"a":1,"b":[2]}`, text)
		f.Add(text, `{"a":1,"b":[2]}`)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		k := newTextKnown()
		for _, text := range []string{first, first, first, second, first, second} {
			knows(t, k, text)
		}
	})
}
