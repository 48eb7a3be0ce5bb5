package canon

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	for doc, want := range map[string]map[string]string{
		`{}`:                                     {},
		`{"a":1}`:                                {"a": "1"},
		`{"a":{"b":[1,"}"]},"c":"x,\"]","d":[]}`: {"a": `{"b":[1,"}"]}`, "c": `"x,\"]"`, "d": "[]"},
		`{"a":"\\","b":null}`:                    {"a": `"\\"`, "b": "null"},
		``:                                       nil,
		`[]`:                                     nil,
		`{`:                                      nil,
		`{"a"}`:                                  nil,
		`{"a":"}`:                                nil,
		`{"a":1]}`:                               nil,
		`{"a":[1}`:                               nil,
		`{a:1}`:                                  nil,
	} {
		got := map[string]string{}
		if ok := Members([]byte(doc), func(name string, value []byte) { got[name] = string(value) }); ok != (want != nil) || ok && !maps.Equal(got, want) {
			t.Errorf("%s: %v %v", doc, ok, got)
		}
	}
}

// Whatever is written the way rows are is taken apart as the JSON package does it,
// and nothing at all makes it fall over.
func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"}"]},"c":"x,\"]"}`))
	f.Add([]byte(`{"a":"\\","b":[[],{}]}`))
	f.Add([]byte(`{"a":`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		Members(raw, func(string, []byte) {})
		var v map[string]json.RawMessage
		if json.Unmarshal(raw, &v) != nil || v == nil {
			return
		}
		compact, err := json.Marshal(v)
		if err != nil {
			return
		}
		got := map[string]json.RawMessage{}
		whole := Members(compact, func(name string, value []byte) {
			var key string
			if json.Unmarshal([]byte(`"`+name+`"`), &key) == nil {
				got[key] = value
			}
		})
		if !whole || len(got) != len(v) {
			t.Fatalf("%s: %v %v", compact, whole, got)
		}
		var again map[string]json.RawMessage
		if err := json.Unmarshal(compact, &again); err != nil {
			t.Fatal(err)
		}
		for name, value := range again {
			if string(got[name]) != string(value) {
				t.Errorf("%q is %s, not %s", name, got[name], value)
			}
		}
	})
}

// Members come in the order that is asked for, then as their type has them; none is lost.
func TestOrdered(t *testing.T) {
	type word struct {
		A string          `json:"a"`
		B json.RawMessage `json:"b,omitempty"`
		C []int           `json:"c,omitempty"`
		D string          `json:"d,omitempty"`
	}
	for _, c := range []struct {
		v     any
		order string
		want  string
	}{
		{word{}, "", `{"a":""}`},
		{word{A: `",{`, B: json.RawMessage(` {"b": [1, {}]} `), C: []int{1, 2}, D: "<"}, "d c", `{"d":"<","c":[1,2],"a":"\",{","b":{"b":[1,{}]}}`},
		{word{A: "x", C: []int{3}}, "d c b a", `{"c":[3],"a":"x"}`},
		{word{A: "x"}, "e", `{"a":"x"}`},
		{struct{}{}, "a", `{}`},
	} {
		if got, err := Ordered(c.v, strings.Fields(c.order)); err != nil || string(got) != c.want {
			t.Errorf("%v: %s, %v, want %s", c.v, got, err, c.want)
		}
	}
	for _, v := range []any{[]int{1}, "text", nil, func() {}} {
		if got, err := Ordered(v, []string{"a"}); err == nil {
			t.Errorf("%T is an object: %s", v, got)
		}
	}
}
