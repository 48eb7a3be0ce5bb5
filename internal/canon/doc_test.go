package canon

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// docTexts are documents of every kind, good and bad.
var docTexts = []string{
	`null`, `true`, ` false `, `0`, `-0`, `-12`, `1.50`, `1e3`, `100000000000000000000000`, `""`, `"a"`, `"\u00e9\n\ud83d\ude00"`,
	`[]`, `{}`, `[ ]`, `{ }`, `[1,[2,{"a":[]}],"x"]`, `{"b":1,"a":{"d":[true,null],"c":"\\"}}`, ` { "b" : 1 , "a" : [ 2 , 3 ] } `,
	`{"\u0062":1,"a":2}`, `{"é":1,"z":2,"":3}`,
	``, ` `, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[1,]`, `{"a":1,}`, `{"a"}`, `{a:1}`, `[1 2]`, `{"a":1]`, `[1}`, `"`, `"\`, `"\u12`,
	`"\ud800"`, `"\x"`, "\"\x01\"",
	"\"\xff\"", `tru`, `nul`, `01`, `1.`, `1e`, `-`, `1e9999`, `{} {}`, "1\x00", "\x00", `[`, `{`, `{"a":`, `{"a":1,"b"`,
	strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2),
}

// A document is accepted exactly where Parse accepts it, and has the same bytes.
func agrees(t *testing.T, d *Doc, text string) {
	t.Helper()
	v, err := Parse([]byte(text))
	got := d.Read(text)
	if (got == nil) != (err == nil) {
		t.Fatalf("%q: %v, and Parse says %v", text, got, err)
	}
	if err != nil {
		if d.Root().Kind() != Nothing || len(d.AppendCanonical(nil)) != 0 {
			t.Errorf("%q: refused, and yet something is there", text)
		}
		return
	}
	want, err := Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	if b := d.AppendCanonical([]byte("x")); !bytes.Equal(b[1:], want) {
		t.Errorf("%q is %q, not %q", text, b[1:], want)
	}
	same(t, d.Root(), v)
	readsCanonical(t, string(want), v, nil)
}

// readsCanonical holds what a Doc makes of canonical bytes against what Decode makes of them.
func readsCanonical(t *testing.T, b string, want any, wrong error) {
	t.Helper()
	var d Doc
	if err := d.ReadCanonical(b); (err == nil) != (wrong == nil) {
		t.Fatalf("%q: %v, and Decode says %v", b, err, wrong)
	}
	if wrong != nil {
		if d.Root().Kind() != Nothing {
			t.Errorf("%q: refused, and yet something is there", b)
		}
		return
	}
	if got := string(d.AppendCanonical(nil)); got != b {
		t.Errorf("%q is written as %q", b, got)
	}
	alike(t, d.Root(), want)
}

// same holds a value against what Parse made of it.
func same(t *testing.T, v Value, want any) {
	t.Helper()
	alike(t, v, want)
	if again, err := Parse([]byte(v.Raw())); err != nil {
		t.Errorf("%q (%v) is no value: %v", v.Raw(), again, err)
	}
}

func alike(t *testing.T, v Value, want any) {
	t.Helper()
	ok := true
	switch want := want.(type) {
	case nil:
		ok = v.Kind() == Null
	case bool:
		is, fits := v.Bool()
		ok = fits && is == want
	case json.Number:
		n, err := want.Int64()
		got, fits := v.Int()
		ok = v.Kind() == Number && fits == (err == nil) && (!fits || n == got)
	case string:
		s, fits := v.Text()
		ok = fits && s == want
	case []any:
		items := slices.Collect(v.Items())
		if ok = v.Kind() == List && len(items) == len(want) && v.Len() == len(want); ok {
			for i, item := range items {
				alike(t, item, want[i])
			}
		}
	case map[string]any:
		members := maps.Collect(v.Members())
		if ok = v.Kind() == Object && len(members) == len(want) && v.Len() == len(want); ok {
			for name, member := range members {
				alike(t, member, want[name])
			}
		}
	}
	if !ok {
		t.Errorf("%q is not %v", v.Raw(), want)
	}
}

func TestDocAgreesWithParse(t *testing.T) {
	var d Doc // one for all, so that nothing of a document is left for the next
	for range 2 {
		for _, text := range docTexts {
			agrees(t, &d, text)
		}
	}
}

func FuzzDoc(f *testing.F) {
	for _, text := range docTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { agrees(t, new(Doc), text) })
}

// What is asked of the wrong kind of value is not there.
func TestDocValues(t *testing.T) {
	var d Doc
	if v := d.Root(); v.Kind() != Nothing || v.Raw() != "" || v.Len() != 0 {
		t.Errorf("nothing was read, and there is %v", v)
	}
	if err := d.Read(`{"s":"x","n":7,"f":1.5,"big":99999999999999999999,"b":true,"l":[1],"z":null}`); err != nil {
		t.Fatal(err)
	}
	for name, v := range d.Root().Members() {
		_, text := v.Text()
		n, whole := v.Int()
		_, truth := v.Bool()
		items := len(slices.Collect(v.Items()))
		if text != (name == "s") || whole != (name == "n") || whole && n != 7 || truth != (name == "b") || (items == 1) != (name == "l") ||
			len(maps.Collect(v.Members())) != 0 {
			t.Errorf("%s: %v %v %v %d", name, text, whole, truth, items)
		}
	}
	for range d.Root().Members() {
		break
	}
	for v := range d.Root().Items() {
		t.Errorf("an object has the item %s", v.Raw())
	}
}

func BenchmarkDoc(b *testing.B) {
	item := `{"name":"SOME_VARIABLE","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","value":"/usr/bin:/bin"},`
	text := `{"tool":"x","env":[` + strings.TrimSuffix(strings.Repeat(item, 20), ",") + `],"limits":{"b":1,"a":2}}`
	b.Run("doc", func(b *testing.B) {
		var d Doc
		var out []byte
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if d.Read(text) != nil {
				b.Fatal("refused")
			}
			out = d.AppendCanonical(out[:0])
		}
	})
	b.Run("fromjson", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := FromJSON([]byte(text)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
