package palyra

import (
	"slices"
	"testing"
)

func TestJoinLabels(t *testing.T) {
	if got := JoinLabels([]string{"b", "a"}, []string{"a", "c"}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
	if JoinLabels(nil, nil) != nil {
		t.Error("no labels are some")
	}
}
