package catalog

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Bounds of what a schema may cost. Those of upstream servers are written by strangers: one that refers to itself
// would end the daemon by its stack, which nothing can recover from, and a short pattern can take gigabytes.
const (
	maxPattern  = 4 << 10 // bytes of one pattern
	maxLevels   = 512     // of schemas in schemas, on the way to one value
	maxVisits   = 4 << 20 // of a schema to a value, for one call; work is counted in them
	bytesAPart  = 64      // of a text, that take as long as one more part of a value
	partsAVisit = 4       // of a value that is compared, or put into a message that nobody reads
	stepsAVisit = 128     // of a pattern's states over a text's bytes
)

var (
	errPatterns = errors.New("its patterns are too large")
	errEffort   = errors.New("it takes too much work to check, as one that refers to itself does")
	errRef      = errors.New("it refers to another document, or by an anchor")
)

// effort walks a schema as the library would, to know before it does what that takes.
type effort struct {
	root     any
	patterns map[string]int // what each takes
}

// part is a value, or one inside of it, with how much of it there is.
type part struct {
	value  any
	size   int
	fields map[string]*part
	items  []*part
}

func partOf(v any) *part {
	p := &part{value: v, size: 1}
	switch v := v.(type) {
	case string:
		p.size += len(v) / bytesAPart
	case []any:
		for _, x := range v {
			sub := partOf(x)
			p.items, p.size = append(p.items, sub), p.size+sub.size
		}
	case map[string]any:
		p.fields = make(map[string]*part, len(v))
		for name, x := range v {
			sub := partOf(x)
			p.fields[name], p.size = sub, p.size+sub.size+len(name)/bytesAPart
		}
	}
	return p
}

// newEffort reads the schema as the library understood it, which takes keywords in any case. It refuses patterns
// that would be too large and references that cannot be followed here.
func newEffort(top *jsonschema.Schema) (*effort, error) {
	raw, err := json.Marshal(top)
	if err != nil {
		return nil, err
	}
	e := &effort{patterns: map[string]int{}}
	if err := json.Unmarshal(raw, &e.root); err != nil {
		return nil, err
	}
	if m, ok := e.root.(map[string]any); ok {
		delete(m, "$id") // the document's own name; another one inside would begin paths anew
	}
	states := 0
	return e, e.survey(e.root, &states)
}

// check refuses a value that would take too much.
func (e *effort) check(value any) error {
	left := maxVisits
	return e.visit(e.root, partOf(value), maxLevels, &left)
}

// visit counts at least every visit of a schema to a value that the library makes.
func (e *effort) visit(schema any, p *part, levels int, left *int) error {
	m, ok := schema.(map[string]any)
	if *left -= e.cost(m, p); *left < 0 || levels == 0 {
		return errEffort
	}
	if !ok {
		return nil
	}
	if err := e.visitSame(m, p, levels-1, left); err != nil {
		return err
	}
	if err := e.visitFields(m, p, levels-1, left); err != nil {
		return err
	}
	return e.visitItems(m, p, levels-1, left)
}

// cost is what one visit takes: the value is compared and, where it does not fit,
// written into the library's message, whole and each time.
func (e *effort) cost(m map[string]any, p *part) int {
	n := 1 + p.size/partsAVisit
	list, _ := m["enum"].([]any)
	n += len(list)
	if text, ok := p.value.(string); ok {
		pattern, _ := m["pattern"].(string)
		n += e.match(pattern, text)
	}
	all, _ := m["patternProperties"].(map[string]any)
	for pattern := range all {
		for name := range p.fields {
			n += 1 + e.match(pattern, name)
		}
	}
	return n
}

// match is what it takes to hold a text against a pattern.
func (e *effort) match(pattern, text string) int {
	return e.patterns[pattern] * len(text) / stepsAVisit
}

// visitAll goes into schemas that are about one value.
func (e *effort) visitAll(next []any, p *part, levels int, left *int) error {
	for _, s := range next {
		if s == nil {
			continue
		}
		if err := e.visit(s, p, levels, left); err != nil {
			return err
		}
	}
	return nil
}

// visitSame goes into the schemas that are about the same value.
func (e *effort) visitSame(m map[string]any, p *part, levels int, left *int) error {
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
	return e.visitAll(next, p, levels, left)
}

func (e *effort) visitFields(m map[string]any, p *part, levels int, left *int) error {
	properties, _ := m["properties"].(map[string]any)
	patterns, _ := m["patternProperties"].(map[string]any)
	for name, x := range p.fields {
		next := []any{m["additionalProperties"], m["unevaluatedProperties"], properties[name]}
		for _, s := range patterns {
			next = append(next, s)
		}
		if err := e.visitAll(next, x, levels, left); err != nil {
			return err
		}
		if s := m["propertyNames"]; s != nil {
			if err := e.visit(s, partOf(name), levels, left); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *effort) visitItems(m map[string]any, p *part, levels int, left *int) error {
	for i, x := range p.items {
		next := []any{m["additionalItems"], m["unevaluatedItems"], m["contains"]}
		for _, k := range []string{"items", "prefixItems"} {
			if list, ok := m[k].([]any); !ok {
				next = append(next, m[k])
			} else if i < len(list) {
				next = append(next, list[i])
			}
		}
		if err := e.visitAll(next, x, levels, left); err != nil {
			return err
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
