package process

import (
	"strings"
	"testing"

	"palyra"
)

// Who asks for too much learns the flag, the most there is and the setting.
func TestOverTheLimit(t *testing.T) {
	d := driver(t, Config{Tiers: everywhere{}, Limits: palyra.Limits{Processes: 64, MemoryBytes: 1000, CPUMS: 10, OpenFiles: 20}})
	for limit, want := range map[string][2]string{
		"processes":    {"limits.processes (--processes) of 9999999 is over the most that a run may use, 64", "process.processes"},
		"memory_bytes": {"limits.memory_bytes (--memory) of 9999999 is over the most that a run may use, 1000", "process.memory_bytes"},
		"cpu_ms":       {"limits.cpu_ms (--cpu) of", "process.cpu_ms"},
		"open_files":   {"limits.open_files of", "process.open_files"},
	} {
		_, err := filled(t, d, `{"command":"x","limits":{"`+limit+`":9999999}}`)
		wants(t, limit, err, palyra.ReasonMalformedInput, "an operator can raise "+want[1])
		if !strings.HasPrefix(palyra.AsError(err).Text, want[0]) {
			t.Errorf("%s: %v", limit, err)
		}
	}
}

// How a limit is held that is not held well enough is said in plain words.
func TestWeakly(t *testing.T) {
	for _, c := range [][3]string{
		{"memory", "polled", "is only counted now and then (polled)"},
		{"processes", "polled", "are only counted now and then (polled)"},
		{"memory", "none", "is not limited"},
		{"memory", "", "is not limited"},
		{"memory", "rlimit", "is only held by rlimit"},
	} {
		if got := weakly(c[0], palyra.Hold(c[1])); got != c[2] {
			t.Errorf("%q: %q", c, got)
		}
	}
}

// A directory that a profile and the daemon both name stands in PATH once, in its
// first place.
func TestPathHasNoTwins(t *testing.T) {
	if got := strings.Join(uniqueNames([]string{"/a", "/b", "/a", "/c", "/b"}), ":"); got != "/a:/b:/c" {
		t.Error(got)
	}
}
