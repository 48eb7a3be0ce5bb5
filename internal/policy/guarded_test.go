package policy

import (
	"testing"

	"palyra"
)

// A write to what something sealed leads to is as one to the sealed name itself: no
// lease covers it.
func TestWritesThatSealsFollowAreAskedEachTime(t *testing.T) {
	e := engine(t, defaults(t))
	plain, named, led := write("c/config.toml"), write(".cargo/config.toml"), write("c/config.toml")
	led.Plan.Guarded = led.Plan.Writes
	if v := e.Judge(t.Context(), plain); v.Need.Fresh || v.Risk.Level != palyra.RiskMedium {
		t.Errorf("plain: %+v %+v", v.Need, v.Risk)
	}
	a, b := e.Judge(t.Context(), named), e.Judge(t.Context(), led)
	if a.Effect != b.Effect || a.Need.Fresh != b.Need.Fresh || !b.Need.Fresh || a.Risk.Level != b.Risk.Level {
		t.Errorf("by name: %v %+v %+v\nled to: %v %+v %+v", a.Effect, a.Need, a.Risk, b.Effect, b.Need, b.Risk)
	}
}
