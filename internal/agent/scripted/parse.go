package scripted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"palyra"
)

// Bounds of a script.
const (
	maxScript = 1 << 20
	maxTurns  = 1000
	maxCalls  = 64 // of a turn
	maxDepth  = 32
	maxLine   = 200  // bytes of a title or a tool's name
	maxPath   = 4096 // bytes of a workspace
)

// badScript refuses a script.
func badScript(line int, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if line > 0 {
		text = fmt.Sprintf("line %d: %s", line, text)
	}
	return palyra.Errorf(palyra.Invalid, palyra.ReasonBadScript, "bad script: %s", palyra.Clip(text, 512)).
		WithRemedy("see 'palyra run --help' for the form of a script")
}

// parse reads one YAML document. The library's own errors name the line.
func parse(input []byte) (s *script, err error) {
	switch {
	case len(input) > maxScript:
		return nil, badScript(0, "it has %d bytes, at most %d", len(input), maxScript)
	case !utf8.Valid(input):
		return nil, badScript(1, "it is not UTF-8")
	}
	defer func() {
		if p := recover(); p != nil { // the library gave up on hostile text
			s, err = nil, badScript(0, "it cannot be read as YAML")
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(input))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, unreadable(err)
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		return nil, badScript(more.Line, "there is a second document")
	} else if !errors.Is(err, io.EOF) {
		return nil, unreadable(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, badScript(1, "it is empty")
	}
	if err := clean(doc.Content[0], 0); err != nil {
		return nil, err
	}
	return readScript(doc.Content[0])
}

func unreadable(err error) error {
	if errors.Is(err, io.EOF) {
		return badScript(1, "it is empty")
	}
	return badScript(0, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
}

// clean refuses what makes a document mean more than it shows: anchors, aliases,
// merges and tags; and what is nested beyond reason.
func clean(n *yaml.Node, depth int) error {
	switch {
	case depth > maxDepth:
		return badScript(n.Line, "it is nested more than %d deep", maxDepth)
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return badScript(n.Line, "anchors and aliases are not used here")
	case n.Style&yaml.TaggedStyle != 0:
		return badScript(n.Line, "tags are not used here")
	case strings.Contains(n.Value, "\x00"):
		return badScript(n.Line, "it contains a NUL")
	}
	if n.Kind == yaml.MappingNode {
		if err := cleanKeys(n); err != nil {
			return err
		}
	}
	for _, c := range n.Content {
		if err := clean(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// cleanKeys: every key is a text and stands once.
func cleanKeys(n *yaml.Node) error {
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case k.Kind == yaml.AliasNode || k.Anchor != "":
			return badScript(k.Line, "anchors and aliases are not used here")
		case k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge":
			return badScript(k.Line, "a key must be a text")
		case seen[k.Value]:
			return badScript(k.Line, "the key %q is there twice", palyra.Clip(k.Value, 64))
		}
		seen[k.Value] = true
	}
	return nil
}
