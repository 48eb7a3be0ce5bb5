package gate

import (
	"slices"
	"strings"
	"testing"

	"palyra"
)

func TestTextOfRemnants(t *testing.T) {
	got := textOfRemnants([]palyra.Remnant{
		{Kind: palyra.RemnantLink, Path: "a\xff"}, {Kind: palyra.RemnantLinked, Path: "node_modules/x", More: 7},
	})
	if want := []string{`link_leads_out: "a\xff"`, "multiply_linked_files: node_modules/x and 7 more"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("x", 4_000)
	list := slices.Repeat([]palyra.Remnant{{Kind: palyra.RemnantLink, Path: long}}, 100)
	many := textOfRemnants(append(list, palyra.Remnant{Kind: palyra.RemnantCommitted, Path: long, More: 3}))
	if len(many) != 11 || many[10] != "… and 91 more" ||
		!strings.HasPrefix(many[1], "sealed_path_committed: xx") || !strings.HasSuffix(many[1], "x... and 3 more") {
		t.Errorf("%d: %.80q", len(many), many)
	}
	if none := textOfRemnants(nil); none != nil {
		t.Errorf("%q", none)
	}
}
