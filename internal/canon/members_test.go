package canon

import (
	"encoding/json"
	"maps"
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
		if ok := Members([]byte(doc), func(name string, value []byte) { got[name] = string(value) }); ok != (want != nil) ||
			ok && !maps.Equal(got, want) {
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
