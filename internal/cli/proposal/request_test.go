package proposal

import (
	"strings"
	"testing"
)

func TestTextOr64(t *testing.T) {
	for _, in := range []string{"", "x", "\n\n\n", "é", strings.Repeat("a", MaxStdin)} {
		if text, b64 := textOr64([]byte(in)); text != in || b64 != "" {
			t.Errorf("%.10q became base64", in)
		}
	}
	for _, in := range []string{"\xff", strings.Repeat("\x00", MaxStdin)} {
		if text, b64 := textOr64([]byte(in)); text != "" || b64 == "" {
			t.Errorf("%.10q stayed text", in)
		}
	}
}
