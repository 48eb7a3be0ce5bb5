package palyra_test

import (
	"encoding/json"
	"testing"

	"palyra"
)

func TestTheZeroEffectDenies(t *testing.T) {
	var e palyra.Effect
	if e != palyra.Deny || e.String() != "deny" {
		t.Errorf("the zero effect is %s", e)
	}
	var v palyra.Verdict
	if v.Effect != palyra.Deny {
		t.Error("an empty verdict does not deny")
	}
	for _, odd := range []palyra.Effect{-1, 3, 99} {
		if odd.String() != "deny" {
			t.Errorf("effect %d reads %s", int(odd), odd)
		}
	}
}

func TestEffectText(t *testing.T) {
	for _, e := range []palyra.Effect{palyra.Deny, palyra.Ask, palyra.Allow} {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		back := palyra.Effect(-1)
		if err := json.Unmarshal(b, &back); err != nil || back != e {
			t.Errorf("%s came back as %s, %v", e, back, err)
		}
	}
	for _, odd := range []string{`"ALLOW"`, `"permit"`, `""`, `"allow "`} {
		e := palyra.Allow
		if err := json.Unmarshal([]byte(odd), &e); err != nil || e != palyra.Deny {
			t.Errorf("%s reads as %s, %v", odd, e, err)
		}
	}
}

// The lesser effect is the stricter one: policy takes the least.
func TestStricter(t *testing.T) {
	all := []palyra.Effect{palyra.Deny, palyra.Ask, palyra.Allow}
	for i, a := range all {
		for j, b := range all {
			if got, want := min(a, b), all[min(i, j)]; got != want {
				t.Errorf("of %s and %s the stricter is %s, not %s", a, b, want, got)
			}
		}
	}
}
