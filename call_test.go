package palyra

import "testing"

// A limit that is kept better than was promised is kept.
func TestBetterThanPromised(t *testing.T) {
	for _, c := range []struct {
		held, promised Hold
		want           bool
	}{
		{"cgroup", "polled", true},
		{"rlimit", "polled", true},
		{"polled", "cgroup", false},
		{"none", "polled", false},
		{"", "polled", false},
		{"timer", "timer", true},
		{"cap", "timer", false},
		{"cgroup", "timer", false},
		{"polled", "polled", true},
	} {
		if got := c.held.AtLeast(c.promised); got != c.want {
			t.Errorf("%s for %s: %v", c.held, c.promised, got)
		}
	}
}
