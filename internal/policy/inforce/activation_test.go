package inforce

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
)

func TestHistory(t *testing.T) {
	s, j, _ := keep(t)
	first, second := policytest.Defaults(t), policytest.Load(t, policytest.PermitAll)
	changed := policytest.Open()
	changed.TimeoutMS = 1
	sig := &palyra.Signature{Sig: "c2ln"}
	var want []Activation
	for _, c := range []struct {
		b    *policy.Bundle
		snap palyra.Snapshot
		by   Author
	}{
		{first, policytest.Open(), Author{By: "system:daemon"}},
		{second, policytest.Open(), Author{By: "user:ada", Signature: sig}},
		{second, changed, Author{By: "system:daemon"}},
	} {
		a, err := s.Activate(t.Context(), c.b, c.snap, c.by)
		if err != nil || a.Bundle != c.b.Digest() || a.By != c.by.By || !a.At.Equal(time.Unix(1, 0)) {
			t.Fatalf("%+v, %v", a, err)
		}
		want = append([]Activation{a}, want...)
	}
	if again, err := s.Activate(t.Context(), second, changed, Author{By: "user:eve"}); err != nil || again != want[0] {
		t.Errorf("in force already: %+v, %v", again, err)
	}
	if got := j.events[1].(palyra.PolicyActivated); got.Signature != sig {
		t.Errorf("the journal has %+v", got)
	}
	for limit, n := range map[int]int{0: 3, 2: 2, 99: 3} {
		got, err := s.History(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want[:n], got); d != "" {
			t.Errorf("limit %d: %s", limit, d)
		}
	}
	for name, c := range map[string]struct {
		get  func() (Activation, error)
		want Activation
	}{
		"active": {func() (Activation, error) { return s.Active(t.Context()) }, want[0]},
		"chosen": {func() (Activation, error) { return s.Chosen(t.Context(), "system:daemon") }, want[1]},
		"by":     {func() (Activation, error) { return s.By(t.Context(), "system:daemon") }, want[0]},
		"before": {func() (Activation, error) { return s.Before(t.Context()) }, want[2]},
	} {
		if got, err := c.get(); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := s.By(t.Context(), "user:nobody"); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
}

func TestNothingBefore(t *testing.T) {
	s, _, _ := keep(t)
	if _, err := s.Before(t.Context()); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
	if _, err := s.Activate(t.Context(), policytest.Defaults(t), policytest.Open(), Author{By: "user:ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Before(t.Context()); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
	if all, err := s.History(t.Context(), 0); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}
