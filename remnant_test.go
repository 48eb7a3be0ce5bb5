package palyra

import (
	"slices"
	"strings"
	"testing"
)

func TestTextOfRemnants(t *testing.T) {
	got := TextOfRemnants([]Remnant{{RemnantLink, "a\xff", 0}, {RemnantLinked, "node_modules/x", 7}})
	if want := []string{`link_leads_out: "a\xff"`, "multiply_linked_files: node_modules/x and 7 more"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("x", 4_000)
	many := TextOfRemnants(append(slices.Repeat([]Remnant{{RemnantLink, long, 0}}, 100), Remnant{RemnantCommitted, long, 3}))
	if len(many) != 11 || many[10] != "… and 91 more" || !strings.HasPrefix(many[1], "sealed_path_committed: xx") || !strings.HasSuffix(many[1], "x... and 3 more") || TextOfRemnants(nil) != nil {
		t.Errorf("%d: %.80q", len(many), many)
	}
}
