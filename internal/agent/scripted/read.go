package scripted

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"palyra"
	"palyra/internal/canon"
)

// fields reads a mapping by a table of its keys; a key that is not in it is refused.
func fields(n *yaml.Node, what string, known map[string]func(*yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return badScript(n.Line, "%s must be a mapping", what)
	}
	for i := 0; i < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		read, ok := known[k.Value]
		if !ok {
			return badScript(k.Line, "%s has no key %q", what, palyra.Clip(k.Value, 64))
		}
		if err := read(v); err != nil {
			return err
		}
	}
	return nil
}

// list reads a sequence of 1 to most items.
func list(what string, most int, read func(*yaml.Node) error) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		switch {
		case n.Kind != yaml.SequenceNode:
			return badScript(n.Line, "%s must be a list", what)
		case len(n.Content) == 0:
			return badScript(n.Line, "%s is empty", what)
		case len(n.Content) > most:
			return badScript(n.Line, "%s has %d items, at most %d", what, len(n.Content), most)
		}
		for _, item := range n.Content {
			if err := read(item); err != nil {
				return err
			}
		}
		return nil
	}
}

// text reads a text of at most so many bytes.
func text(to *string, what string, most int) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		switch {
		case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str":
			return badScript(n.Line, "%s must be a text", what)
		case n.Value == "":
			return badScript(n.Line, "%s is empty", what)
		case len(n.Value) > most:
			return badScript(n.Line, "%s has %d bytes, at most %d", what, len(n.Value), most)
		}
		*to = n.Value
		return nil
	}
}

// line reads a text of one line.
func line(to *string, what string, most int) func(*yaml.Node) error {
	read := text(to, what, most)
	return func(n *yaml.Node) error {
		if strings.ContainsAny(n.Value, "\n\r") {
			return badScript(n.Line, "%s must be one line", what)
		}
		return read(n)
	}
}

var kinds = []palyra.OutcomeKind{
	palyra.OutcomeFinished, palyra.OutcomeRefused, palyra.OutcomeCancelled, palyra.OutcomeTimedOut, palyra.OutcomeUnknown,
}

// kind reads the name of an outcome.
func kind(to *palyra.OutcomeKind, what string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || !slices.Contains(kinds, palyra.OutcomeKind(n.Value)) {
			return badScript(n.Line, "%s must be one of %v", what, kinds)
		}
		*to = palyra.OutcomeKind(n.Value)
		return nil
	}
}

func readScript(n *yaml.Node) (*script, error) {
	s := &script{}
	err := fields(n, "the script", map[string]func(*yaml.Node) error{
		"title":     line(&s.title, "title", maxLine),
		"workspace": line(&s.workspace, "workspace", maxPath),
		"turns": list("turns", maxTurns, func(n *yaml.Node) error {
			t, err := readTurn(n)
			s.turns = append(s.turns, t)
			return err
		}),
	})
	if err == nil && len(s.turns) == 0 {
		err = badScript(n.Line, "turns is missing")
	}
	return s, err
}

func readTurn(n *yaml.Node) (turn, error) {
	var t turn
	err := fields(n, "a turn", map[string]func(*yaml.Node) error{
		"say": text(&t.say, "say", maxScript),
		"calls": list("calls", maxCalls, func(n *yaml.Node) error {
			c, err := readCall(n)
			t.calls = append(t.calls, c)
			return err
		}),
	})
	if err == nil && t.say == "" && len(t.calls) == 0 {
		err = badScript(n.Line, "a turn says or calls something")
	}
	return t, err
}

func readCall(n *yaml.Node) (scriptCall, error) {
	c := scriptCall{with: json.RawMessage("{}")}
	err := fields(n, "a call", map[string]func(*yaml.Node) error{
		"tool":    line(&c.tool, "tool", maxLine),
		"expect":  kind(&c.expect, "expect"),
		"stop_on": kind(&c.stopOn, "stop_on"),
		"with": func(n *yaml.Node) (err error) {
			if n.Kind != yaml.MappingNode {
				return badScript(n.Line, "with must be a mapping")
			}
			c.with, err = jsonOf(n)
			return err
		},
	})
	if err == nil && c.tool == "" {
		err = badScript(n.Line, "a call names its tool")
	}
	return c, err
}

// jsonOf turns a node into JSON, keys in their order. It has been cleaned.
func jsonOf(n *yaml.Node) (json.RawMessage, error) {
	var b bytes.Buffer
	err := write(&b, n)
	return b.Bytes(), err
}

func write(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		return writeAll(b, '{', '}', n, func(i int) (sep byte) {
			if i%2 == 1 {
				return ':'
			}
			return ','
		})
	case yaml.SequenceNode:
		return writeAll(b, '[', ']', n, func(int) byte { return ',' })
	}
	return writeScalar(b, n)
}

func writeAll(b *bytes.Buffer, open, end byte, n *yaml.Node, sep func(int) byte) error {
	b.WriteByte(open)
	for i, c := range n.Content {
		if i > 0 {
			b.WriteByte(sep(i))
		}
		if n.Kind == yaml.MappingNode && i%2 == 0 { // a key is a text, whatever it looks like
			c = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: c.Value, Line: c.Line}
		}
		if err := write(b, c); err != nil {
			return err
		}
	}
	b.WriteByte(end)
	return nil
}

// writeScalar writes a text, number, truth or nothing. A date is a text: JSON has none.
func writeScalar(b *bytes.Buffer, n *yaml.Node) error {
	var v any = n.Value
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
	case "!!int", "!!float", "!!bool", "!!null":
		if err := n.Decode(&v); err != nil {
			return badScript(n.Line, "%q cannot be read", palyra.Clip(n.Value, 64))
		}
	default:
		return badScript(n.Line, "%q is of a type that is not used here", palyra.Clip(n.Value, 64))
	}
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return badScript(n.Line, "%q is not a number that JSON knows", n.Value)
	}
	text, err := canon.JSON(v) // people read it
	if err != nil {
		return badScript(n.Line, "%q cannot be said in JSON", palyra.Clip(n.Value, 64))
	}
	b.Write(text)
	return nil
}
