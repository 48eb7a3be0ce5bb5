package install

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
	"go.yaml.in/yaml/v3"
)

// locate follows a path through objects. The place counts from the beginning of doc.
func locate(doc []byte, path []string) (place, error) {
	p := place{to: len(doc)}
	for _, key := range path {
		at := p.from
		if text := bytes.TrimSpace(doc[at:p.to]); len(text) == 0 || string(text) == "null" {
			return place{}, errNone
		}
		m, err := member(doc[at:p.to], key)
		if err != nil {
			return place{}, err
		}
		if m.from < 0 {
			return place{}, errNone
		}
		p = place{from: at + m.from, to: at + m.to, open: at + m.open, prev: at + m.prev, members: m.members}
	}
	return p, nil
}

// removeMember takes a member out of its object, with the one comma that is too many then.
func (p place) removeMember(doc []byte) edit {
	e := edit{from: p.prev, to: p.to, gone: strings.TrimLeft(string(doc[p.prev:p.to]), " \t\r\n,")}
	if p.prev == p.open { // the first: the comma is behind it, or the end
		e.to = len(doc) - len(bytes.TrimLeft(doc[p.to:], " \t\r\n"))
		if p.members > 1 {
			e.to++
		}
	}
	return e
}

func (jsonForm) cut(doc []byte, path []string) (edit, error) {
	p, err := locate(doc, path)
	if err != nil {
		return edit{}, err
	}
	return p.removeMember(doc), nil
}

// cut finds the table and those below it, which must follow each other.
func (tomlForm) cut(doc []byte, path []string) (edit, error) {
	from, to := -1, len(doc)
	var p unstable.Parser
	p.Reset(doc)
	for to == len(doc) && p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		within, at := header(e, path)
		line := bytes.LastIndexByte(doc[:at], '\n') + 1
		switch {
		case within && from < 0:
			from = line
		case !within && from >= 0:
			to = line
		}
	}
	if err := p.Error(); err != nil {
		return edit{}, errWriting
	}
	if from < 0 {
		return edit{}, errNone
	}
	to = tableEnd(doc, from, to)
	e := edit{from: from, to: to, gone: string(doc[from:to])}
	if rest := doc[to:]; len(rest) == 0 || rest[0] == '\n' || rest[0] == '\r' { // one empty line is too many
		for _, end := range []string{"\n", "\r\n"} {
			if bytes.HasSuffix(doc[:from], []byte("\n"+end)) {
				e.from = from - len(end)
			}
		}
	}
	return e, nil
}

// header reports whether a table is the one at the path or below it, and where its name begins.
func header(table *unstable.Node, path []string) (within bool, at int) {
	var names []string
	for it := table.Key(); it.Next(); {
		if names == nil {
			at = int(it.Node().Raw.Offset)
		}
		names = append(names, string(it.Node().Data))
	}
	return len(names) >= len(path) && slices.Equal(names[:len(path)], path), at
}

// tableEnd leaves the comments and empty lines before the next table to that.
func tableEnd(doc []byte, from, to int) int {
	for {
		line := bytes.LastIndexByte(bytes.TrimSuffix(doc[from:to], []byte("\n")), '\n') + 1
		text := bytes.TrimSpace(doc[from+line : to])
		if line == 0 || len(text) > 0 && text[0] != '#' {
			return to
		}
		to = from + line
	}
}

// cut finds the lines of a block. A table that would have nothing in it is nothing at
// all in YAML, not an empty table: then that is written.
func (yamlForm) cut(doc []byte, path []string) (edit, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(doc, &root); err != nil {
		return edit{}, errWriting
	}
	if root.Kind != yaml.DocumentNode {
		return edit{}, errNone
	}
	_, table := pair(root.Content[0], path[0])
	key, value := pair(table, path[1])
	if key == nil || table.Style&yaml.FlowStyle != 0 {
		return edit{}, errNone
	}
	lines := yamlLine.FindAllString(string(doc), -1)
	first, indent := key.Line-1, key.Column-1
	if first >= len(lines) || indent > len(lines[first]) || strings.Trim(lines[first][:indent], " ") != "" {
		return edit{}, errWriting
	}
	end, last := first+1, lastLine(value)
	for end < len(lines) && (end < last || deeper(lines[end], indent)) {
		end++
	}
	for end > first+1 && strings.TrimSpace(lines[end-1]) == "" {
		end--
	}
	e := edit{from: len(strings.Join(lines[:first], "")), gone: strings.Join(lines[first:end], "")}
	e.to = e.from + len(e.gone)
	if len(table.Content) == 2 {
		e.with = lines[first][:indent] + "{}\n"
	}
	return e, nil
}

// yamlLine is a line with its end: more than one character ends a line in YAML.
var yamlLine = regexp.MustCompile(`[^\n\r\x{85}\x{2028}\x{2029}]*(\r\n|[\n\r\x{85}\x{2028}\x{2029}]|$)`)

// pair returns a key of a table and its value.
func pair(table *yaml.Node, name string) (key, value *yaml.Node) {
	if table == nil || table.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(table.Content); i += 2 {
		if k := table.Content[i]; k.Kind == yaml.ScalarNode && k.Value == name {
			return k, table.Content[i+1]
		}
	}
	return nil, nil
}

// lastLine is the last line on which something of a value begins.
func lastLine(n *yaml.Node) int {
	line := n.Line
	for _, c := range n.Content {
		line = max(line, lastLine(c))
	}
	return line
}

// deeper reports whether a line belongs to a block whose key has that indent.
func deeper(line string, indent int) bool {
	text := strings.TrimLeft(line, " ")
	return strings.TrimSpace(text) == "" || len(line)-len(text) > indent
}

// withoutBraces drops the {} that an empty table is written as, where it is the first thing from that line on.
func withoutBraces(lines []string, from int) []string {
	for i, line := range lines[from:] {
		switch text := strings.TrimSpace(line); {
		case text == "{}":
			return slices.Delete(lines, from+i, from+i+1)
		case text != "" && text[0] != '#':
			return lines
		}
	}
	return lines
}
