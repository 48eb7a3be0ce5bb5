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
