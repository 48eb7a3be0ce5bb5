package mcp

import (
	"slices"
	"testing"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// What is said of a tool must be said of one that is approved.
func TestPinsOf(t *testing.T) {
	pins, err := pinsOf(&v1.ApproveUpstreamRequest{Digests: []string{"a", "b"}, ReadOnly: []string{"b"}})
	if want := []palyra.UpstreamPin{{Digest: "a"}, {Digest: "b", ReadOnly: true}}; err != nil || !slices.Equal(pins, want) {
		t.Errorf("%+v %v", pins, err)
	}
	for _, bad := range [][]string{{"c"}, {"b", "c"}, {""}} {
		if pins, err := pinsOf(&v1.ApproveUpstreamRequest{Digests: []string{"a", "b"}, ReadOnly: bad}); palyra.CodeOf(err) != palyra.Invalid ||
			pins != nil {
			t.Errorf("%q: %+v %v", bad, pins, err)
		}
	}
}
