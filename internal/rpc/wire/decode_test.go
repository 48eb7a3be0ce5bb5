package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// reread is a JSON value as members and elements see it, in the types of encoding/json.
func reread(val json.RawMessage) (any, error) {
	switch val[0] {
	case '{':
		m := map[string]any{}
		err := members(val, func(key string, item json.RawMessage) (err error) {
			m[key], err = reread(item)
			return err
		})
		return m, err
	case '[':
		l := []any{}
		err := elements(val, func(item json.RawMessage) error {
			v, err := reread(item)
			l = append(l, v)
			return err
		})
		return l, err
	case '"':
		return unquoted(val)
	}
	var v any
	err := json.Unmarshal(val, &v)
	return v, err
}

func sameAsJSON(data []byte) error {
	var want any
	if err := json.Unmarshal(data, &want); err != nil {
		return err
	}
	got, err := reread(blank(data))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		return fmt.Errorf("%s: %w %s", data, err, diff)
	}
	return nil
}

// Values come out as encoding/json has them, however they are spaced.
func TestMembersAreThoseOfJSON(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `"`, `\\`, `\"`, "}", "]", ",", ":", " ", "\u2028", "<&>"}))
	value := rapid.Deferred(func() *rapid.Generator[any] { return jsonValues(text) })
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(value.Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		var wide bytes.Buffer
		if err := json.Indent(&wide, raw, "\r\n", " \t"); err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{raw, wide.Bytes()} {
			if err := sameAsJSON(data); err != nil {
				t.Error(err)
			}
		}
	})
}

func jsonValues(text *rapid.Generator[string]) *rapid.Generator[any] {
	leaf := rapid.OneOf(text.AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil))
	list := rapid.SliceOfN(leaf, 0, 4).AsAny()
	inner := rapid.OneOf(leaf, list, rapid.MapOfN(text, leaf, 0, 4).AsAny())
	return rapid.OneOf(leaf, rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(text, inner, 0, 4).AsAny())
}

func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : [ 1 , "\\" , {} ] } `, `[[],[{}],null,true,-1e5]`, `{"\u0061":"\ud83d\ude00"}`, `"x"`, `1 `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if json.Valid(data) && utf8.Valid(data) {
			if err := sameAsJSON(data); err != nil {
				t.Error(err)
			}
		}
	})
}
