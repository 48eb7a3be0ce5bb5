package sandbox

import (
	"maps"
	"slices"
	"testing"

	"palyra"
)

func TestLacks(t *testing.T) {
	base := palyra.Enforcement{
		Mode: "strict", Mechanisms: []string{"a", "b"},
		Limits: map[string]palyra.Hold{"memory": "cgroup", "cpu": "rlimit+polled", "wall": "timer"},
	}
	for _, c := range []struct {
		name  string
		keeps bool
		have  func(*palyra.Enforcement)
	}{
		{"the same", true, func(*palyra.Enforcement) {}},
		{"more mechanisms", true, func(e *palyra.Enforcement) { e.Mechanisms = append(e.Mechanisms, "c") }},
		{"fewer mechanisms", false, func(e *palyra.Enforcement) { e.Mechanisms = e.Mechanisms[:1] }},
		{"polled memory", false, func(e *palyra.Enforcement) { e.Limits["memory"] = "polled" }},
		{"a missing limit", false, func(e *palyra.Enforcement) { delete(e.Limits, "memory") }},
		{"stronger cpu", true, func(e *palyra.Enforcement) { e.Limits["cpu"] = "cgroup" }},
		{"another timer", false, func(e *palyra.Enforcement) { e.Limits["wall"] = "cgroup" }},
		{"another mode", false, func(e *palyra.Enforcement) { e.Mode = "none" }},
	} {
		e := palyra.Enforcement{Mode: base.Mode, Mechanisms: slices.Clone(base.Mechanisms), Limits: maps.Clone(base.Limits)}
		c.have(&e)
		if lacks := Lacks(base, e); (len(lacks) == 0) != c.keeps || (CheckPromise(e, base) == nil) != c.keeps {
			t.Errorf("%s: %q", c.name, lacks)
		}
	}
	if lacks := Lacks(palyra.Enforcement{}, base); len(lacks) > 0 {
		t.Errorf("nothing was promised: %s", lacks)
	}
}
