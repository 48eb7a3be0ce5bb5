//go:build unix

package stagetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Dig returns the part of a JSON document that a dotted path names.
func Dig(raw []byte, path string) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", err
	}
	for _, part := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[part]
			if !ok {
				return "", fmt.Errorf("no %q in %s", part, raw)
			}
			v = next
		case []any:
			i, err := strconv.Atoi(part)
			if part == "len" {
				v = json.Number(strconv.Itoa(len(x)))
				continue
			}
			if err != nil || i >= len(x) {
				return "", fmt.Errorf("no %q in a list of %d", part, len(x))
			}
			v = x[i]
		default:
			return "", fmt.Errorf("%q of %v", part, v)
		}
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	out, err := json.Marshal(v)
	return string(out), err
}
