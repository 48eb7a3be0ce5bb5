package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"palyra"
)

// schema is a tool's input schema, whole and by field. The library's messages
// repeat the values they are about, which may be secret or very long; so fields
// are checked one by one, and the message is made from the schema alone.
type schema struct {
	whole  *jsonschema.Resolved
	top    *jsonschema.Schema
	fields map[string]*jsonschema.Resolved
	closed bool // takes no other fields than those it lists
	effort *effort
}

var errSchema = errors.New("it must describe an object")

func newSchema(raw json.RawMessage) (*schema, error) {
	s := &schema{top: &jsonschema.Schema{}, fields: map[string]*jsonschema.Resolved{}}
	if err := json.Unmarshal(raw, s.top); err != nil {
		return nil, err
	}
	if s.top.Type != "object" {
		return nil, errSchema
	}
	var err error
	if s.effort, err = newEffort(s.top); err != nil {
		return nil, err
	}
	if s.whole, err = s.top.Resolve(nil); err != nil {
		return nil, err
	}
	a := s.top.AdditionalProperties
	s.closed = a != nil && a.Not != nil && len(s.top.PatternProperties) == 0
	for name, f := range s.top.Properties {
		// A field that refers elsewhere in the document is checked with the whole:
		// alone it would take itself for the document.
		if !s.effort.checkableAlone(name) {
			continue
		}
		if r, err := f.CloneSchemas().Resolve(nil); err == nil {
			s.fields[name] = r
		}
	}
	return s, nil
}

// check validates arguments. The error names the field and what it must be, never what it was.
func (s *schema) check(tool palyra.ToolName, args map[string]any) error {
	mismatch := func(format string, a ...any) *palyra.Error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, format, a...).WithRemedy("see 'palyra tools show %s'", tool)
	}
	if err := s.effort.check(args); err != nil {
		return mismatch("the arguments cannot be held against the schema of %s: %s", tool, err)
	}
	for _, name := range s.top.Required {
		if _, ok := args[name]; !ok {
			return mismatch("argument %q is missing%s", name, s.strangers(args))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		field := s.fields[name]
		if field == nil && s.closed && s.top.Properties[name] == nil {
			e := mismatch("there is no argument %q", palyra.Clip(name, 64))
			if near := nearest(name, slices.Sorted(maps.Keys(s.top.Properties))); len(near) > 0 {
				return e.WithRemedy("did you mean %s? See 'palyra tools show %s'", strings.Join(near, " or "), tool)
			}
			return e
		}
		value, err := toNumbers(args[name])
		if err == nil && field != nil {
			err = field.Validate(value)
		}
		if err != nil {
			return mismatch("argument %q does not fit: it must be %s", palyra.Clip(name, 64), expected(s.top.Properties[name]))
		}
	}
	value, err := toNumbers(args)
	if err == nil {
		err = s.whole.Validate(value)
	}
	if err != nil {
		return mismatch("the arguments do not fit the schema of %s", tool)
	}
	return nil
}

// strangers names the arguments that the tool does not have: one of them is often what
// was meant by the one that is missing.
func (s *schema) strangers(args map[string]any) string {
	if !s.closed {
		return ""
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if s.top.Properties[name] == nil && len(text) < 200 {
			text += fmt.Sprintf(", and there is no argument %q", palyra.Clip(name, 64))
		}
	}
	return text
}

// toNumbers turns number texts into numbers: the library takes a json.Number for a string, and would accept one
// where a string is due. One that no number can hold is refused.
func toNumbers(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return strconv.ParseFloat(v.String(), 64)
	case []any:
		list := make([]any, 0, len(v))
		for _, e := range v {
			p, err := toNumbers(e)
			if err != nil {
				return nil, err
			}
			list = append(list, p)
		}
		return list, nil
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			p, err := toNumbers(e)
			if err != nil {
				return nil, err
			}
			m[k] = p
		}
		return m, nil
	}
	return v, nil
}

// expected puts a field's schema into words.
func expected(f *jsonschema.Schema) string {
	if f == nil {
		return "a number within range"
	}
	kind := f.Type
	if kind == "" && len(f.Types) > 0 {
		kind = strings.Join(f.Types, " or ")
	}
	kind = cmp.Or(kind, "as its schema says")
	parts := []string{kind}
	add := func(ok bool, format string, arg func() any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, arg()))
		}
	}
	if len(f.Enum) > 0 {
		b, _ := json.Marshal(f.Enum)
		parts = append(parts, "one of "+palyra.Clip(string(b), 200))
	}
	add(f.Minimum != nil, "at least %s", func() any { return number(*f.Minimum) })
	add(f.Maximum != nil, "at most %s", func() any { return number(*f.Maximum) })
	add(f.MinLength != nil, "at least %d characters", func() any { return *f.MinLength })
	add(f.MaxLength != nil, "at most %d characters", func() any { return *f.MaxLength })
	add(f.Pattern != "", "of the form %s", func() any { return palyra.Clip(f.Pattern, 200) })
	return strings.Join(parts, ", ")
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
