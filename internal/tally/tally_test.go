package tally

import "testing"

// The largest gives way, never one that cannot, and a late report counts nobody again.
func TestTally(t *testing.T) {
	all := New(100)
	all.Add("a")
	all.Add("b")
	all.Fix("held", 50)
	if all.Report("a", 20) || all.Report("b", 30) || !all.Full() {
		t.Error("all fit, and nothing more")
	}
	if all.Report("a", 21) {
		t.Error("the smaller one gives way")
	}
	if !all.Report("b", 30) {
		t.Error("the larger one does not give way")
	}
	all.Remove("b")
	if all.Report("b", 90) || all.Full() || all.Report("a", 50) || all.Report("held", 1) || all.Fixed() != 50 {
		t.Error("one that is gone counts, or one that is fixed changes")
	}
	if !all.Report("a", 51) {
		t.Error("nobody gives way to what is fixed")
	}
	all.Remove("held")
	if all.Report("a", 51) {
		t.Error("what was fixed is counted on")
	}
}
