//go:build linux

package connect

import (
	"testing"
)

func TestClaudeVersions(t *testing.T) {
	for text, want := range map[string]version{
		"2.1.300 (Claude Code)\n": {2, 1, 300}, "2.0.9": {2, 0, 9}, "": {}, "claude 2.1.300": {}, "2.1": {}, "9999999.1.1": {}, "0.0.0": {},
	} {
		if got := readVersion([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, c := range []struct {
		v, w version
		want bool
	}{
		{version{2, 1, 294}, blocksSince, true},
		{version{2, 1, 295}, blocksSince, false},
		{version{3, 0, 0}, blocksSince, false},
		{version{1, 9, 999}, blocksSince, true},
		{version{}, blocksSince, false},
	} {
		if got := c.v.before(c.w); got != c.want {
			t.Errorf("%v before %v: %v", c.v, c.w, got)
		}
	}
}
