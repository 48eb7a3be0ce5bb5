package install

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"palyra"
)

// edit is a change of a file in one place.
type edit struct {
	from, to int    // the lines that go
	with     string // the lines in their place
	gone     string // the entry as it was written
}

func (e edit) apply(doc []byte) []byte {
	return append([]byte{}, slices.Concat(doc[:e.from], []byte(e.with), doc[e.to:])...) // never nil: an empty file is one
}

var (
	// errNone: the text has nothing at the path.
	errNone = errors.New("it is not there")
	// errWriting is for a file that could be read, but not changed with certainty.
	errWriting = errors.New("it is written in a way that cannot be changed safely")
)

// Without returns a file without the entry, and the lines that the entry had. A file that has none is returned as
// it is. The table around it stays, if need be empty: some clients want to find it.
func (c Client) Without(doc []byte) (out []byte, lines string, err error) {
	before, err := c.form.decode(doc)
	if err != nil {
		return nil, "", c.leave(err)
	}
	value, there, err := lookup(before, c.path)
	if err != nil {
		return nil, "", c.leave(err)
	}
	if there && !servesPalyra(value) {
		return nil, "", palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the entry %q of %s does not start `palyra mcp serve`",
			entryName, c.path[0]).
			WithRemedy("%s", c.byHand())
	}
	e, err := c.form.cut(doc, c.path)
	none := errors.Is(err, errNone)
	switch {
	case none && !there:
		return doc, "", nil
	case none || err == nil && !there:
		return nil, "", c.leave(errWriting)
	case err != nil:
		return nil, "", c.leave(err)
	}
	out = e.apply(doc)
	after, err := c.form.decode(out)
	delete(before[c.path[0]].(map[string]any), c.path[1])
	if err != nil || !reflect.DeepEqual(bare(after, c.path[0]), bare(before, c.path[0])) {
		return nil, "", c.leave(errWriting)
	}
	return out, e.gone, nil
}

func (c Client) byHand() string {
	return fmt.Sprintf("look at the entry %q of %q, and take it out by hand", entryName, c.path[0])
}

// leave words why a file is left alone.
func (c Client) leave(why error) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the file is left as it is: %v", why).WithRemedy("%s", c.byHand())
}

// lookup returns the entry of a decoded file.
func lookup(m map[string]any, path []string) (value any, there bool, err error) {
	table, ok := m[path[0]].(map[string]any)
	if !ok && m[path[0]] != nil {
		return nil, false, fmt.Errorf("%q is not a table in it", path[0])
	}
	value, there = table[path[1]]
	return value, there, nil
}

// servesPalyra reports whether an entry starts Palyra's server: whatever the program is called,
// it is told "mcp serve".
func servesPalyra(entry any) bool {
	m, _ := entry.(map[string]any)
	command, _ := m["command"].(string)
	if command == "" {
		command, _ = m["cmd"].(string)
	}
	args, _ := m["args"].([]any)
	for i := range len(args) - 1 {
		if args[i] == "mcp" && args[i+1] == "serve" {
			return command != ""
		}
	}
	return false
}

// holds reports of a file whether it has the entry; Codex's has what it was told of hooks in it as well, which is
// taken for Palyra's once the file from before is kept.
func (c Client) holds(path string) holds {
	return func(doc []byte) bool {
		m, err := c.form.decode(doc)
		if err != nil {
			return false
		}
		entry, there, _ := lookup(m, c.path)
		return there && servesPalyra(entry) || c.form == form(tomlForm{}) && tells(path, m)
	}
}

// bare is a decoded file without the named table where that is empty.
func bare(m map[string]any, table string) any {
	if inner, ok := m[table].(map[string]any); ok && len(inner) == 0 {
		delete(m, table)
	}
	return normal(m)
}

// Remove takes the entry out of a file, which need not exist. A project's file that has
// nothing else goes with it: an empty one would stay in the repository.
func (c Client) Remove(path string, project bool) (Result, error) {
	return rewrite(path, private, c.holds(path), c.leave, func(old []byte) ([]byte, error) {
		doc, lines, err := c.Without(old)
		if err != nil || lines == "" || !project {
			return doc, err
		}
		if rest, err := c.form.decode(doc); err == nil && !comments(doc) && reflect.DeepEqual(bare(rest, c.path[0]), map[string]any{}) {
			return nil, nil
		}
		return doc, nil
	})
}

// comments reports whether a text may say something to people that a program does not read.
func comments(doc []byte) bool { return bytes.ContainsRune(doc, '#') }

// Entry returns the lines that Remove would take out of a file; none when there are none.
func (c Client) Entry(path string) (string, error) {
	doc, _, err := read(path, c.leave)
	if err != nil {
		return "", err
	}
	_, lines, err := c.Without(doc)
	return lines, nameFile(path, err)
}
