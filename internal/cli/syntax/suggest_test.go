package syntax

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"call.granted", "grant.created", "grant.ended"}
	for typed, want := range map[string]string{
		"call.grantd": "call.granted", "grant.x": "call.granted grant.created grant.ended",
		"zebra": "", "": "",
	} {
		if got := strings.Join(Nearest(typed, words), " "); got != want {
			t.Errorf("%q: %q", typed, got)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"kitten", "sitting", 3}, {"abc", "abc", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s %s: %d", c.a, c.b, got)
		}
	}
}
