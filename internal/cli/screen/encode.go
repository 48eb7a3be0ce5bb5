package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"palyra/internal/show"
)

// Encode is the JSON form of results: one line, HTML characters unescaped, invisible and misleading
// characters escaped.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("cli: encode: %w", err)
	}
	return show.JSON(b.Bytes()), nil
}

// Block prints a heading and below it outside text behind a gutter.
func Block(w io.Writer, heading, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(w, "%s\n%s", heading, show.Frame{Prefix: "  ", Width: Width(w)}.Block(strings.TrimSuffix(text, "\n")))
}

// PlainJSON writes <, > and & of a JSON text as themselves. Encoders that write for web pages escape them.
func PlainJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			continue
		}
		if i+6 <= len(text) {
			switch strings.ToLower(string(text[i : i+6])) {
			case `\u003c`:
				out, i = append(out, '<'), i+5
				continue
			case `\u003e`:
				out, i = append(out, '>'), i+5
				continue
			case `\u0026`:
				out, i = append(out, '&'), i+5
				continue
			}
		}
		out = append(out, text[i], text[i+1])
		i++
	}
	return out
}
