package question

import (
	"encoding/json"
	"os"
	"testing"
)

// Hosts of plans, and whether they are said to be no public addresses. The console is held against the same file.
func TestHostsThatAreNotPublic(t *testing.T) {
	raw, err := os.ReadFile("testdata/hosts.json")
	if err != nil {
		t.Fatal(err)
	}
	var hosts map[string]bool
	if err := json.Unmarshal(raw, &hosts); err != nil || len(hosts) < 10 {
		t.Fatalf("%d hosts, %v", len(hosts), err)
	}
	for host, want := range hosts {
		if private(host) != want {
			t.Errorf("%q is not public: %v", host, !want)
		}
	}
}
