package terminal

import (
	"strings"
	"testing"
)

func TestReadSecretLimits(t *testing.T) {
	if _, err := readSecret(strings.NewReader(strings.Repeat("x", maxAnswer+1) + "\r")); err == nil {
		t.Error("a line without end was taken")
	}
	if line, err := readSecret(strings.NewReader("\x7f\x7f\x15ok\r")); err != nil || string(line) != "ok" {
		t.Errorf("%q %v", line, err)
	}
	if _, err := readSecret(strings.NewReader("cut off")); err == nil {
		t.Error("the end of input counts as Enter")
	}
}
