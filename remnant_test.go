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
	many := TextOfRemnants(slices.Repeat([]Remnant{{RemnantLink, strings.Repeat("x", 4_000), 0}}, 100))
	if len(many) != 3 || many[2] != "… and 98 more" || TextOfRemnants(nil) != nil {
		t.Errorf("%d: %.80q", len(many), many[len(many)-1])
	}
}
