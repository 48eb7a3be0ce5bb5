package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"palyra"
)

// A schema that a stranger wrote must not end the daemon, nor keep it busy. Each
// of these ran out of stack or time in the library.
func TestSchemasThatDoNotEnd(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 60)
	var twice []string
	for i := range 40 {
		twice = append(twice, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	for name, c := range map[string]struct{ schema, args string }{
		"itself":          {`{"type":"object","$ref":"#"}`, `{}`},
		"in another case": {`{"type":"object","$REF":"#"}`, `{}`},
		"by a definition": {
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[{"$ref":"#/$defs/x"}]}}}`,
			`{"a":1}`,
		},
		"escaped":          {`{"type":"object","allOf":[{"$ref":"#/%24defs/x~1y"}],"$defs":{"x/y":{"not":{"$ref":"#/$defs/x~1y"}}}}`, `{}`},
		"twice each level": {`{"type":"object","additionalProperties":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}`, deep},
		"many times":       {`{"type":"object","$ref":"#/$defs/d0","$defs":{` + strings.Join(twice, ",") + `,"d40":{}}}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newSchema(json.RawMessage(c.schema))
			if err != nil {
				t.Fatalf("it is not refused before it is used: %v", err)
			}
			args, err := object([]byte(c.args))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.check("t", args); palyra.CodeOf(err) != palyra.Invalid || err == nil {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// What a check takes is not only how many parts there are: a large value is compared,
// matched and put into a message at every step. Each of these took the daemon half a
// minute and more, and a schema has room for a hundred times as much.
func TestSchemasThatTakeLong(t *testing.T) {
	numbers := strings.Repeat(`1,`, 1<<19-10) + `1`
	for name, c := range map[string]struct{ schema, args string }{
		"many kinds":   {`{"anyOf":[` + strings.Repeat(`{"type":"string"},`, 100) + `{}]}`, `[` + numbers + `]`},
		"many choices": {`{"items":{"enum":[` + strings.Repeat(`"x",`, 5000) + `1]}}`, `[` + numbers[:1<<14] + `1]`},
		"a pattern": {
			`{"allOf":[` + strings.Repeat(`{"$ref":"#/$defs/p"},`, 200) + `{}]}`, `"` + strings.Repeat("ab", 1<<19) + `"`,
		},
		"names": {
			`{"allOf":[` + strings.Repeat(`{"$ref":"#/$defs/n"},`, 200) + `{}]}`, `{"` + strings.Repeat("ab", 1<<18) + `":1}`,
		},
	} {
		s, err := newSchema(json.RawMessage(`{"type":"object","properties":{"a":` + c.schema + `},"$defs":{` +
			`"p":{"pattern":"(a|ab|c?){100}[xy]"},"n":{"patternProperties":{"(a|ab|c?){100}[xy]":{}}}}}`))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		args, err := object([]byte(`{"a":` + c.args + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.check("t", args); err == nil || !strings.Contains(err.Error(), errEffort.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What people send is far from it, also where it is as large as can be.
func TestSchemasOfLargeArguments(t *testing.T) {
	s, err := newSchema(json.RawMessage(
		`{"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","pattern":"^[a-z/]+$"},` +
			`"content":{"type":"string","pattern":"^[ -~\\n]*$"},"mode":{"enum":["create","overwrite"]},` +
			`"rows":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{
		`{"path":"a/b","mode":"create","content":"` + strings.Repeat("x", HardCap-100) + `"}`,
		`{"rows":[` + strings.Repeat(`{"n":1,"s":"some text"},`, 40_000) + `{}]}`,
	} {
		args, err := object([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.check("t", args); err != nil {
			t.Errorf("%.40s: %v", raw, err)
		}
	}
}

// What refers to itself by way of a value's own parts ends with the value. The
// field alone would take itself for the document.
func TestSchemasOfTrees(t *testing.T) {
	s, err := newSchema(json.RawMessage(`{"type":"object","properties":{"child":{"$ref":"#"},"n":{"type":"integer"},` +
		`"more":{"type":"array","items":{"$ref":"#/properties/child"}}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for args, fits := range map[string]bool{
		`{"child":{"child":{"n":1}},"more":[{"n":2},{"child":{}}]}`: true,
		`{"child":{"child":{"n":"x"}}}`:                             false,
		`{"more":[{"x":2}]}`:                                        false,
		`{"child":1}`:                                               false,
	} {
		got, err := object([]byte(args))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.check("t", got); (err == nil) != fits {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestSchemasThatAreRefused(t *testing.T) {
	for name, raw := range map[string]string{
		"a pattern that is a gigabyte": `{"type":"object","properties":{"a":{"type":"string","pattern":"(?:` + strings.Repeat("x", 500) +
			`){1000}"}}}`,
		"in another case":   `{"type":"object","properties":{"a":{"type":"string","Pattern":"(?:` + strings.Repeat("x", 500) + `){1000}"}}}`,
		"of names":          `{"type":"object","patternProperties":{"(?:` + strings.Repeat("[a-c]", 500) + `){1000}":{}}}`,
		"many":              `{"type":"object","allOf":[` + strings.Repeat(`{"pattern":"x{1000}"},`, 10) + `{}]}`,
		"a long one":        `{"type":"object","pattern":"` + strings.Repeat("x", maxPattern+1) + `"}`,
		"elsewhere":         `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		"by an anchor":      `{"type":"object","properties":{"a":{"$ref":"#x"}},"$defs":{"x":{"$anchor":"x"}}}`,
		"dynamic":           `{"type":"object","$dynamicAnchor":"y","$dynamicRef":"#y"}`,
		"a document inside": `{"type":"object","properties":{"a":{"$id":"http://x/y","allOf":[{"$ref":"#"}]}}}`,
		"nowhere":           `{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}}}`,
	} {
		if _, err := newSchema(json.RawMessage(raw)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, raw := range []string{
		`{"type":"object","$id":"http://x/y","properties":{"a":{"type":"string","pattern":"^[a-z0-9]{1,255}$"},"$id":{"type":"string"},"$ref":{"type":"string"}}}`,
		`{"type":"object","properties":{"a":{"pattern":"^\\p{L}+$"}}}`,
	} {
		if _, err := newSchema(json.RawMessage(raw)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
