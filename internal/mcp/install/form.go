package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
)

// normal makes decoded values of all formats comparable.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = normal(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = normal(x)
		}
		return out
	case int:
		return int64(v)
	case json.Number:
		return string(v)
	}
	return v
}

type jsonForm struct{}

func (jsonForm) decode(doc []byte) (map[string]any, error) {
	m := map[string]any{}
	if len(bytes.TrimSpace(doc)) == 0 {
		return m, nil
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		return nil, notJSON(doc, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) || m == nil {
		return nil, errors.New("it is not one JSON object")
	}
	return m, nil
}

// notJSON says what is wrong with a file, and where.
func notJSON(doc []byte, err error) error {
	line := func(at int64) int { return 1 + bytes.Count(doc[:min(int(at), len(doc))], []byte("\n")) }
	syntax, kind := (*json.SyntaxError)(nil), (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it is cut off: the JSON in it does not end (line %d)", line(int64(len(bytes.TrimSpace(doc)))))
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON without comments: line %d: %w", line(syntax.Offset), syntax)
	case errors.As(err, &kind):
		return fmt.Errorf("it is not one JSON object: what is in it is an %s", kind.Value)
	}
	return errors.New("it is not JSON without comments")
}

// set changes the text at one place, so that order, spacing and numbers stay.
func (jsonForm) set(doc []byte, path []string, value any) ([]byte, error) {
	if len(bytes.TrimSpace(doc)) == 0 {
		doc = []byte("{}\n")
	}
	at, end := 0, len(doc)
	for depth, key := range path {
		m, err := member(doc[at:end], key)
		if err != nil {
			return nil, unreadable(err)
		}
		if m.from < 0 { // no such member: it comes first
			for _, k := range slices.Backward(path[depth+1:]) {
				value = map[string]any{k: value}
			}
			return insert(doc, at+m.open, key, value, depth+1)
		}
		at, end = at+m.from, at+m.to
	}
	text, err := encoded(value, len(path))
	if err != nil {
		return nil, err
	}
	return slices.Concat(doc[:at], text, doc[end:]), nil
}

func encoded(value any, depth int) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(strings.Repeat("  ", depth), "  ")
	err := enc.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func insert(doc []byte, at int, key string, value any, depth int) ([]byte, error) {
	text, err := encoded(value, depth)
	if err != nil {
		return nil, err
	}
	line := fmt.Sprintf("\n%s%q: %s", strings.Repeat("  ", depth), key, text)
	rest := bytes.TrimLeft(doc[at:], " \t\r\n")
	if len(rest) > 0 && rest[0] == '}' {
		return slices.Concat(doc[:at], []byte(line+"\n"+strings.Repeat("  ", depth-1)), rest), nil
	}
	return slices.Concat(doc[:at], []byte(line+","), doc[at:]), nil
}

// place is where a member's value is in an object.
type place struct {
	from, to int // the value; from is -1 when there is none
	open     int // where the object's members begin
	prev     int // the end of the value before, or open
	members  int // of the object
}

// member finds a member of an object. A name that is there twice is refused.
func member(object []byte, key string) (place, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return place{}, fmt.Errorf("what should hold %q is not an object", key)
	}
	p := place{from: -1, open: int(dec.InputOffset())}
	for last := p.open; dec.More(); p.members++ {
		name, err := dec.Token()
		if err != nil {
			return place{}, err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return place{}, err
		}
		prev := last
		last = int(dec.InputOffset())
		if name != key {
			continue
		}
		if p.from >= 0 {
			return place{}, fmt.Errorf("%q is in it twice", key)
		}
		p.from, p.to, p.prev = last-len(v), last, prev
	}
	return p, nil
}

type tomlForm struct{}

func (tomlForm) decode(doc []byte) (map[string]any, error) {
	m := map[string]any{}
	err := toml.Unmarshal(doc, &m)
	if at := (*toml.DecodeError)(nil); errors.As(err, &at) {
		row, column := at.Position()
		return nil, fmt.Errorf("it is not valid TOML: see line %d, column %d", row, column)
	}
	if err != nil {
		return nil, errors.New("it is not valid TOML")
	}
	return m, nil
}

// set writes a table of its own at the end, or in the place of the old one.
func (tomlForm) set(doc []byte, path []string, value any) ([]byte, error) {
	fields, _ := value.(map[string]any)
	raw, err := toml.Marshal(fields)
	if err != nil {
		return nil, err
	}
	head := "[" + strings.Join(path, ".") + "]"
	table := head + "\n" + string(raw)
	lines := strings.SplitAfter(string(doc), "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != head {
			continue
		}
		end := i + 1
		for end < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[end]), "[") {
			end++
		}
		if rest := strings.Join(lines[end:], ""); rest != "" {
			table += "\n" + rest
		}
		return []byte(strings.Join(lines[:i], "") + table), nil
	}
	text := strings.TrimRight(string(doc), "\n")
	if text != "" {
		text += "\n\n"
	}
	return []byte(text + table), nil
}

type yamlForm struct{}

// yamlAt finds the place of an error.
var yamlAt = regexp.MustCompile(`: line [0-9]+`)

func (yamlForm) decode(doc []byte) (map[string]any, error) {
	m := map[string]any{}
	if err := yaml.Unmarshal(doc, &m); err != nil {
		return nil, fmt.Errorf("it is not YAML%s", yamlAt.FindString(err.Error()))
	}
	if m == nil {
		m = map[string]any{}
	}
	return m, nil
}

// set puts a block below the path's first key, in the place of an old one.
func (yamlForm) set(doc []byte, path []string, value any) ([]byte, error) {
	fields, _ := value.(map[string]any)
	const step = "  "
	block := step + path[1] + ":\n"
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		raw, err := json.Marshal(fields[k]) // JSON is YAML on one line
		if err != nil {
			return nil, err
		}
		block += step + step + k + ": " + string(raw) + "\n"
	}
	lines := strings.SplitAfter(string(doc), "\n")
	if n := len(lines); lines[n-1] != "" {
		lines[n-1] += "\n"
	}
	top := slices.IndexFunc(lines, func(l string) bool { return strings.TrimRight(l, " \r\n") == path[0]+":" })
	if top < 0 {
		top = slices.IndexFunc(lines, func(l string) bool { return strings.TrimRight(l, " \r\n") == path[0]+": {}" })
		if top < 0 {
			return []byte(strings.Join(lines, "") + path[0] + ":\n" + block), nil
		}
		lines[top] = path[0] + ":\n"
	}
	lines = withoutBraces(lines, top+1)
	from := top + 1
	to := from
	if old := slices.IndexFunc(lines[from:], func(l string) bool { return strings.TrimRight(l, " \r\n") == step+path[1]+":" }); old >= 0 {
		from += old
		for to = from + 1; to < len(lines) && (strings.HasPrefix(lines[to], step+" ") ||
			strings.TrimSpace(lines[to]) == "" && to < len(lines)-1); {
			to++
		}
	}
	return []byte(strings.Join(lines[:from], "") + block + strings.Join(lines[to:], "")), nil
}
