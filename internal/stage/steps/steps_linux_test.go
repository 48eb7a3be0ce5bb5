package steps

import "testing"

// A name that is used for a moment is another one for every list and for every step.
func TestTemporaryNamesDiffer(t *testing.T) {
	one, two := &Worker{Token: "x", Name: "s"}, &Worker{Token: "y", Name: "s"}
	if one.temp(1, "tmp") == two.temp(1, "tmp") || one.temp(1, "tmp") == one.temp(2, "tmp") {
		t.Error("the names that are used for a moment")
	}
}
