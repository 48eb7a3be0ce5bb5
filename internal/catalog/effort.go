package catalog

import (
	"encoding/json"
	"errors"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Bounds of what a schema may cost. Those of upstream servers are written by
// strangers: one that refers to itself would end the daemon by its stack, which
// nothing can recover from, and a short pattern can take gigabytes.
const (
	maxPattern  = 4 << 10 // bytes of one pattern
	maxMachine  = 4 << 10 // states of all patterns of a schema together
	maxLevels   = 512     // of schemas in schemas, on the way to one value
	maxVisits   = 4 << 20 // of a schema to a value, for one call
	runesAState = 8       // of a class of characters
)

var (
	errPatterns = errors.New("its patterns are too large")
	errEffort   = errors.New("it takes too much work to check, as one that refers to itself does")
	errRef      = errors.New("it refers to another document, or by an anchor")
)

// effort walks a schema as the library would, to know before it does what that
// takes.
type effort struct{ root any }

// newEffort reads the schema as the library understood it, which takes keywords in
// any case. It refuses patterns that would be too large and references that cannot
// be followed here.
func newEffort(top *jsonschema.Schema) (*effort, error) {
	raw, err := json.Marshal(top)
	if err != nil {
		return nil, err
	}
	e := &effort{}
	if err := json.Unmarshal(raw, &e.root); err != nil {
		return nil, err
	}
	if m, ok := e.root.(map[string]any); ok {
		delete(m, "$id") // the document's own name; another one inside would begin paths anew
	}
	states := 0
	return e, e.survey(e.root, &states)
}

// survey looks at every part of the document, whether or not it is a schema: what
// only looks like a pattern counts too.
func (e *effort) survey(v any, states *int) error {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if err := e.survey(x, states); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := e.plain(v, states); err != nil {
			return err
		}
		for _, x := range v {
			if err := e.survey(x, states); err != nil {
				return err
			}
		}
	}
	return nil
}

// plain looks at one object.
func (e *effort) plain(v map[string]any, states *int) error {
	if _, named := v["$id"].(string); named {
		return errRef
	}
	if _, err := e.target(v); err != nil {
		return err
	}
	if p, ok := v["pattern"].(string); ok {
		if err := weigh(p, states); err != nil {
			return err
		}
	}
	all, _ := v["patternProperties"].(map[string]any)
	for p := range all {
		if err := weigh(p, states); err != nil {
			return err
		}
	}
	return nil
}

// refers reports whether a part of the document refers to another.
func refers(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, refers)
	case map[string]any:
		if v["$ref"] != nil || v["$dynamicRef"] != nil {
			return true
		}
		for _, x := range v {
			if refers(x) {
				return true
			}
		}
	}
	return false
}

// alone reports whether a field can be checked without the rest of the document.
func (e *effort) alone(field string) bool {
	m, _ := e.root.(map[string]any)
	all, _ := m["properties"].(map[string]any)
	return !refers(all[field])
}

// weigh adds what a pattern takes when it is compiled.
func weigh(pattern string, states *int) error {
	if len(pattern) > maxPattern {
		return errPatterns
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil // if it is one, the library says so
	}
	if *states += weightOf(re); *states > maxMachine {
		return errPatterns
	}
	return nil
}

func weightOf(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/runesAState
	if re.Op == syntax.OpLiteral {
		n = 1 + len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += weightOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxMachine+1)
}

// check refuses a value that would take too much.
func (e *effort) check(value any) error {
	left := maxVisits
	return e.visit(e.root, value, maxLevels, &left)
}

// visit counts at least every visit of a schema to a value that the library makes.
func (e *effort) visit(schema, value any, levels int, left *int) error {
	m, ok := schema.(map[string]any)
	if *left--; *left < 0 || levels == 0 {
		return errEffort
	}
	if !ok {
		return nil
	}
	if err := e.visitSame(m, value, levels-1, left); err != nil {
		return err
	}
	switch v := value.(type) {
	case map[string]any:
		return e.visitFields(m, v, levels-1, left)
	case []any:
		return e.visitItems(m, v, levels-1, left)
	}
	return nil
}

// visitSame goes into the schemas that are about the same value.
func (e *effort) visitSame(m map[string]any, value any, levels int, left *int) error {
	next, err := e.target(m)
	if err != nil {
		return err
	}
	for _, k := range []string{"not", "if", "then", "else"} {
		next = append(next, m[k])
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[k].([]any)
		next = append(next, list...)
	}
	for _, k := range []string{"dependentSchemas", "dependencies"} {
		all, _ := m[k].(map[string]any)
		for _, s := range all {
			next = append(next, s)
		}
	}
	for _, s := range next {
		if s == nil {
			continue
		}
		if err := e.visit(s, value, levels, left); err != nil {
			return err
		}
	}
	return nil
}

func (e *effort) visitFields(m map[string]any, v map[string]any, levels int, left *int) error {
	properties, _ := m["properties"].(map[string]any)
	patterns, _ := m["patternProperties"].(map[string]any)
	for name, x := range v {
		next := []any{m["additionalProperties"], m["unevaluatedProperties"], properties[name]}
		for _, s := range patterns {
			next = append(next, s)
		}
		for _, s := range next {
			if s == nil {
				continue
			}
			if err := e.visit(s, x, levels, left); err != nil {
				return err
			}
		}
		if s := m["propertyNames"]; s != nil {
			if err := e.visit(s, name, levels, left); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *effort) visitItems(m map[string]any, v []any, levels int, left *int) error {
	for i, x := range v {
		next := []any{m["additionalItems"], m["unevaluatedItems"], m["contains"]}
		for _, k := range []string{"items", "prefixItems"} {
			if list, ok := m[k].([]any); !ok {
				next = append(next, m[k])
			} else if i < len(list) {
				next = append(next, list[i])
			}
		}
		for _, s := range next {
			if s == nil {
				continue
			}
			if err := e.visit(s, x, levels, left); err != nil {
				return err
			}
		}
	}
	return nil
}

// target is the schema that another refers to: by a path in the same document.
func (e *effort) target(m map[string]any) ([]any, error) {
	if _, ok := m["$dynamicRef"].(string); ok {
		return nil, errRef
	}
	ref, ok := m["$ref"].(string)
	if !ok {
		return nil, nil
	}
	path, local := strings.CutPrefix(ref, "#")
	path, err := url.PathUnescape(path)
	if !local || err != nil || path != "" && path[0] != '/' {
		return nil, errRef
	}
	at := e.root
	for i, step := range strings.Split(path, "/") {
		if i == 0 {
			continue
		}
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(v) {
				return nil, errRef
			}
			at = v[n]
		default:
			return nil, errRef
		}
	}
	if at == nil {
		return nil, errRef
	}
	return []any{at}, nil
}
