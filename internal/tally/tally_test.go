package tally

import "testing"

// The largest gives way, never one that cannot, and a late report counts nobody again.
func TestTally(t *testing.T) {
	all := New(100)
	all.Add("a")
	all.Add("b")
	all.Fix("held", "", 50)
	if all.Report("a", 20) || all.Report("b", 30) || all.Charge("c", "") {
		t.Error("all fit, and nothing more")
	}
	if all.Report("a", 21) {
		t.Error("the smaller one gives way")
	}
	if !all.Report("b", 30) {
		t.Error("the larger one does not give way")
	}
	all.Remove("b")
	if all.Report("b", 90) || !all.Charge("a", "") || all.Report("a", 50) || all.Report("held", 1) {
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

// One payer cannot take the place of another: not with what is fixed, and not with many users that are small.
func TestPayers(t *testing.T) {
	all := New(100)
	fits := func(payer string, n int64) bool {
		defer all.Remove("try")
		return all.Hold("try", payer, n)
	}
	if !fits("many", 80) || !fits("many", 25) {
		t.Error("nobody has anything, and one may not")
	}
	if !all.Hold("held", "many", 20) || all.Hold("beside", "many", 20) {
		t.Error("of two at once not one alone is held")
	}
	if fits("many", 6) || !fits("many", 5) || !fits("one", 25) {
		t.Error("a payer has more than its share, or another cannot have its own")
	}
	for _, name := range []string{"a", "b", "c"} {
		all.Add(name)
		if !all.Charge(name, "many") {
			t.Error("there is no room")
		}
		all.Report(name, 25)
	}
	all.Add("d")
	if all.Charge("d", "many") { // 95: there is room, but
		all.Report("d", 5)
	}
	if all.Charge("e", "many") {
		t.Error("a payer that has more than its share begins where there is no room")
	}
	all.Add("mine")
	if !all.Charge("mine", "one") {
		t.Error("a payer that has nothing may not begin")
	}
	if all.Report("mine", 24) {
		t.Error("the largest of a small payer gives way to many of another")
	}
	if !all.Report("a", 25) || all.Report("d", 5) {
		t.Error("of the payer with the most, another than the largest gives way")
	}
	all.Fix("more", "two", 60)
	if fits("one", 21) {
		t.Error("more is fixed than all may have")
	}
}
