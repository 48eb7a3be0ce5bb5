package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra"
)

// The words about a field come from its schema: what it must be, in full.
func TestExpected(t *testing.T) {
	for field, want := range map[string]string{
		`{"type":"integer","minimum":1,"maximum":1099511627776}`: "integer, at least 1, at most 1099511627776",
		`{"type":"string","minLength":2,"maxLength":3}`:          "string, at least 2 characters, at most 3 characters",
		`{"type":"string","enum":["a","b"]}`:                     `string, one of ["a","b"]`,
		`{"type":"string","pattern":"^x$"}`:                      "string, of the form ^x$",
		`{"type":["string","null"]}`:                             "string or null",
		`{"minimum":1.5}`:                                        "as its schema says, at least 1.5",
	} {
		s, err := newSchema(json.RawMessage(`{"type":"object","properties":{"f":` + field + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := expected(s.top.Properties["f"]); got != want {
			t.Errorf("%s: %q", field, got)
		}
	}
	if expected(nil) == "" {
		t.Error("nothing about a field without a schema")
	}
}

// A number is a number: the library would take its text for a string.
func TestNumbersAreNotStrings(t *testing.T) {
	s, err := newSchema(json.RawMessage(
		`{"type":"object","properties":{"s":{"type":"string"},"list":{"type":"array","items":{"type":"string"}},"o":{"type":"object","properties":{"s":{"type":"string"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for args, ok := range map[string]bool{
		`{"s":"1"}`: true, `{"s":1}`: false, `{"list":["1"]}`: true, `{"list":[1]}`: false, `{"o":{"s":"1"}}`: true, `{"o":{"s":1}}`: false,
	} {
		m, err := object([]byte(args))
		if err != nil {
			t.Fatal(err)
		}
		err = s.check("tool", m)
		if (err == nil) != ok || err != nil && palyra.AsError(err).Reason != palyra.ReasonSchemaMismatch {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestUnknownArgumentSuggestsOne(t *testing.T) {
	s, err := newSchema(json.RawMessage(
		`{"type":"object","additionalProperties":false,"properties":{"make_dirs":{"type":"boolean"},"path":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	e := palyra.AsError(s.check("tool", map[string]any{"makedirs": true}))
	if e.Text != `there is no argument "makedirs"` || !strings.Contains(e.Remedy, "make_dirs") {
		t.Errorf("%v, %s", e, e.Remedy)
	}
	long := strings.Repeat("x", 10_000)
	if e := palyra.AsError(s.check("tool", map[string]any{long: true})); len(e.Text) > 200 {
		t.Errorf("%d bytes of text", len(e.Text))
	}
}
