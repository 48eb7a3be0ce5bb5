package tables

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"palyra"
	"palyra/internal/policy"
)

// tableReader reads one file of tests. It goes on after a mistake, so that people hear of all of them; its
// result counts only when there was no mistake.
type tableReader struct {
	file   string
	bundle *policy.Bundle
	faults []policy.Problem
}

// readTable reads the tests in a file. The guard is for defects of the library:
// hostile text must not end the daemon.
func readTable(file, text string, b *policy.Bundle) (t table, faults []policy.Problem) {
	r := &tableReader{file: file, bundle: b}
	defer func() {
		if p := recover(); p != nil {
			t, faults = table{}, []policy.Problem{{File: file, Line: 1, Column: 1, Text: "it cannot be read as YAML"}}
		}
	}()
	t.file = file
	doc := r.parse(text)
	if doc == nil {
		return t, r.faults
	}
	r.rejectAmbiguous(doc, 0)
	if len(r.faults) > 0 {
		return t, r.faults
	}
	r.fields(doc, "the file", []string{"tests"}, map[string]func(*yaml.Node){
		"config": func(n *yaml.Node) { t.lists = r.lists(n) },
		"tests":  func(n *yaml.Node) { t.tests = r.tests(n) },
	})
	return t, r.faults
}

// fault keeps a mistake, with its place.
func (r *tableReader) fault(n *yaml.Node, format string, args ...any) {
	r.faultAt(n.Line, n.Column, fmt.Sprintf(format, args...))
}

func (r *tableReader) faultAt(line, column int, text string) {
	switch {
	case len(r.faults) == maxTableFault:
		text = "this file has more problems than are listed"
	case len(r.faults) > maxTableFault:
		return
	}
	r.faults = append(r.faults, policy.Problem{File: r.file, Line: max(line, 1), Column: max(column, 1), Text: text})
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)

// unreadable keeps an error of the parser, which knows lines only.
func (r *tableReader) unreadable(err error) {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = strings.TrimPrefix(err.Error(), m[0])
	}
	r.faultAt(line, 1, palyra.Clip(text, 256))
}

// parse returns the one document of a file, or nil.
func (r *tableReader) parse(text string) *yaml.Node {
	switch {
	case len(text) > maxTable:
		r.faultAt(1, 1, fmt.Sprintf("larger than %d bytes", maxTable))
		return nil
	case !utf8.ValidString(text):
		r.faultAt(1, 1, "not valid UTF-8")
		return nil
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		r.faultAt(1, 1, "the file is empty")
		return nil
	} else if err != nil {
		r.unreadable(err)
		return nil
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		r.fault(&more, "there is a second document")
		return nil
	case !errors.Is(err, io.EOF):
		r.unreadable(err)
		return nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		r.faultAt(1, 1, "the file is empty")
		return nil
	}
	return doc.Content[0]
}

// rejectAmbiguous refuses YAML that means more than it shows: anchors, aliases, merges, tags, keys that stand
// twice, and text that is too deep or too long.
func (r *tableReader) rejectAmbiguous(n *yaml.Node, depth int) {
	switch {
	case depth > maxTableDepth:
		r.fault(n, "nested more than %d deep", maxTableDepth)
		return
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.fault(n, "anchors and aliases are not used here")
		return
	case n.Style&yaml.TaggedStyle != 0:
		r.fault(n, "tags are not used here")
	case len(n.Value) > maxTableWord:
		r.fault(n, "longer than %d bytes", maxTableWord)
	case strings.Contains(n.Value, "\x00"):
		r.fault(n, "a NUL is in it")
	}
	if n.Kind == yaml.MappingNode {
		r.cleanKeys(n)
	}
	for _, c := range n.Content {
		r.rejectAmbiguous(c, depth+1)
	}
}

func (r *tableReader) cleanKeys(n *yaml.Node) {
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge":
			r.fault(k, "a key must be a word")
		case seen[k.Value]:
			r.fault(k, "the key %q is there twice", palyra.Clip(k.Value, 64))
		}
		seen[k.Value] = true
	}
}

// formerKeys are keys under names that they had before.
var formerKeys = map[string]string{"door": "surface", "tool_execute_channels": "tool_execute_surfaces"}

// fields reads a mapping by a table of its keys. Any other key is a mistake: a
// condition that nobody reads would make a test pass for the wrong reason.
func (r *tableReader) fields(n *yaml.Node, what string, needed []string, known map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, "%s must be a mapping", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		read, ok := known[k.Value]
		if !ok {
			r.fault(k, "%s has no key %q; it has %s", what, palyra.Clip(k.Value, 64), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			continue
		}
		name := k.Value
		if now, was := formerKeys[name]; was {
			name = now
		}
		if seen[name] {
			r.fault(k, "%s says %s twice, under this name or its former one", what, name)
			continue
		}
		seen[name] = true
		read(v)
	}
	for _, key := range needed {
		if !seen[key] {
			r.fault(n, "%s needs the key %q", what, key)
		}
	}
}

// word is a value as it was written: an argument 010 is these three characters.
func (r *tableReader) word(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.fault(n, "must be a word; write an empty one as \"\"")
		return ""
	}
	return n.Value
}

// list is a list of words. It is never nil, so that an empty one counts as given.
func (r *tableReader) list(n *yaml.Node) []string {
	out := []string{}
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxTableList {
		r.fault(n, "must be a list of at most %d words", maxTableList)
		return out
	}
	for _, one := range n.Content {
		out = append(out, r.word(one))
	}
	return out
}

func (r *tableReader) flag(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		r.fault(n, "must be true or false")
		return false
	}
	return n.Value == "true" || n.Value == "True" || n.Value == "TRUE"
}

func (r *tableReader) number(n *yaml.Node, least, most int64) int64 {
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil || i < least || i > most {
		r.fault(n, "must be a number from %d to %d", least, most)
		return least
	}
	return i
}

// pick reads a word that is one of a few.
func pick[T any](r *tableReader, n *yaml.Node, of map[string]T) T {
	v, ok := of[n.Value]
	if n.Kind != yaml.ScalarNode || !ok {
		r.fault(n, "must be one of %s", strings.Join(slices.Sorted(maps.Keys(of)), ", "))
	}
	return v
}

// lists reads the lists that take the place of the configuration's.
func (r *tableReader) lists(n *yaml.Node) (l tableLists) {
	r.fields(n, "config", nil, map[string]func(*yaml.Node){
		"allowed_tools":           func(n *yaml.Node) { l.tools = r.list(n) },
		"tool_execute_principals": func(n *yaml.Node) { l.principals = r.list(n) },
		"tool_execute_surfaces":   func(n *yaml.Node) { l.surfaces = r.list(n) },
		"tool_execute_channels":   func(n *yaml.Node) { l.surfaces = r.list(n) },
	})
	return l
}

// tests reads the list of tests.
func (r *tableReader) tests(n *yaml.Node) []tableTest {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > maxTableTests {
		r.fault(n, "tests must be a list of 1 to %d tests", maxTableTests)
		return nil
	}
	names := map[string]bool{}
	out := make([]tableTest, 0, len(n.Content))
	for _, one := range n.Content {
		t := r.test(one)
		if names[t.name] && t.name != "" {
			r.fault(one, "there is another test named %q", palyra.Clip(t.name, 64))
		}
		names[t.name] = true
		out = append(out, t)
	}
	return out
}

func (r *tableReader) test(n *yaml.Node) tableTest {
	t := tableTest{line: n.Line}
	r.fields(n, "a test", []string{"name", "request", "expect"}, map[string]func(*yaml.Node){
		"name":    func(n *yaml.Node) { t.name = r.name(n) },
		"request": func(n *yaml.Node) { t.ask, t.probed = r.request(n) },
		"expect":  func(n *yaml.Node) { t.want = r.want(n) },
	})
	if t.ask.Approval != nil && t.want.effect == palyra.Ask {
		r.fault(n, "with an approval the verdict is allow or deny, never ask")
	}
	return t
}

// name is what a test is called in reports.
func (r *tableReader) name(n *yaml.Node) string {
	s := r.word(n)
	if s == "" || len(s) > maxTableName || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		r.fault(n, "a name is printable text of 1 to %d bytes", maxTableName)
	}
	return s
}
