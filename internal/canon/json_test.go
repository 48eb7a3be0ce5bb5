package canon

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	got, err := JSON(map[string]any{"b": "<a & b>", "a": json.Number("1.50")})
	if want := `{"a":1.50,"b":"<a & b>"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	if got, err := JSON(func() {}); err == nil || got != nil {
		t.Errorf("a function: %q, %v", got, err)
	}
}

func TestStrict(t *testing.T) {
	type word struct {
		A int `json:"a"`
		B any `json:"b"`
	}
	var w word
	if err := Strict([]byte(`{"a":1,"b":1.50}`), &w); err != nil || w.B != json.Number("1.50") {
		t.Errorf("%v, %v", w, err)
	}
	for _, bad := range []string{``, `{"a":1,"c":2}`, `{"a":1} {}`, `{"a":1}x`, `{"a":"1"}`, `[`} {
		if Strict([]byte(bad), &w) == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestBase64(t *testing.T) {
	for text, size := range map[string]int{"": 0, "QQ==": 1, "QUI=": 2, "QUJD": 0} {
		if _, err := Base64(text, size); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, size := range map[string]int{"QR==": 0, "QQ": 0, "QQ==\n": 0, "QUJD": 2, "": 1, strings.Repeat("*", 4): 0} {
		if b, err := Base64(text, size); err == nil {
			t.Errorf("%q of %d bytes: %q", text, size, b)
		}
	}
}
