package limit

import (
	"fmt"
	"testing"
	"time"
)

// Looking takes nothing and keeps nothing, and says what taking would.
func TestLook(t *testing.T) {
	c := newClock()
	l := New(Config{Decide: 10, Now: c.now})
	for i := range 1000 {
		if _, ok := l.Look(Decide, fmt.Sprint(i)); !ok {
			t.Fatal("a key that never took anything is refused")
		}
	}
	if len(l.buckets) != 0 {
		t.Errorf("%d buckets", len(l.buckets))
	}
	for range 20 {
		if _, ok := l.Look(Decide, "a"); !ok {
			t.Fatal("looking takes")
		}
		l.Take(Decide, "a")
	}
	after, ok := l.Look(Decide, "a")
	if took, let := l.Take(Decide, "a"); ok || let || after != took || after <= 0 {
		t.Errorf("%v %v, and Take says %v %v", after, ok, took, let)
	}
	c.pass(after)
	if _, ok := l.Look(Decide, "a"); !ok {
		t.Error("who waited as long as told is not let in")
	}
	if _, ok := l.Look(Request, "a"); !ok {
		t.Error("there is no limit on that")
	}
	if n := l.Counters()[Decide]; n != 2 {
		t.Errorf("%d were counted", n)
	}
}

// An IPv6 host has a network of addresses and gets the tries of one.
func TestTriesOfANetwork(t *testing.T) {
	c := newClock()
	l := New(Config{Logins: 5, Now: c.now})
	n := 0
	for i := range 50 {
		if _, _, ok := l.Try(fmt.Sprintf("2001:db8::%x", i+1)); ok {
			n++
		}
	}
	if n > 5 {
		t.Errorf("%d tries", n)
	}
	if _, _, ok := l.Try("2001:db8:0:1::1"); !ok {
		t.Error("the next network pays for it")
	}
	if len(l.tries.by) != 2 {
		t.Errorf("%d records", len(l.tries.by))
	}
}

// Addresses that are turned away for everybody's sake take no room: they cannot
// lock out those that come after.
func TestTurnedAwayTakeNoRoom(t *testing.T) {
	c := newClock()
	l := New(Config{Logins: 5, Most: 200, Now: c.now})
	for i := range 5000 {
		l.Try(fmt.Sprint("flood ", i))
	}
	if n := len(l.tries.by); n > 5*everybody {
		t.Errorf("%d records", n)
	}
	c.pass(time.Minute)
	if _, _, ok := l.Try("honest"); !ok {
		t.Error("no room for one more")
	}
}
