package cli

import (
	"strings"
	"testing"
)

func TestBounded(t *testing.T) {
	if bounded("x") != "x" {
		t.Error("short")
	}
	if got := bounded(strings.Repeat("x", shownOutput+1)); len(got) > shownOutput+60 ||
		!strings.Contains(got, "\n(of 4097 bytes; --json has it whole)") {
		t.Errorf("%d %q", len(got), got[max(len(got)-80, 0):])
	}
}
