package inforce

import (
	"testing"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
)

// under judges with a bundle and lets everybody ask.
func under(b *policy.Bundle) policy.Config {
	return policy.Config{Bundle: b, Snapshot: policytest.Open()}
}

func TestLost(t *testing.T) {
	people := []palyra.Principal{"user:ada", "user:bob"}
	for _, c := range []struct {
		text string
		want int
	}{
		{`@id("x") permit (principal, action, resource);`, 0},
		{`@id("x") permit (principal == User::"bob", action, resource);`, 0}, // one owner is enough
		{`@id("x") permit (principal == User::"eve", action, resource);`, 2},
		{`@id("x") permit (principal, action == Action::"approval.decide", resource);`, 1},
		{`@id("x") permit (principal, action, resource); @id("y") forbid (principal, action in Action::"operate", resource);`, 2},
		{`@id("x") permit (principal, action, resource); @id("y") forbid (principal, action in Action::"operate", resource) unless { context.approval.granted };`, 2},
	} {
		lost, err := Lost(t.Context(), under(policytest.Load(t, c.text)), people)
		if err != nil || len(lost) != c.want {
			t.Errorf("%s: %v, %v", c.text, lost, err)
		}
	}
	if lost, err := Lost(t.Context(), under(policytest.Defaults(t)), nil); err != nil || len(lost) != 2 {
		t.Errorf("without an owner: %v, %v", lost, err)
	}
	if _, err := Lost(t.Context(), policy.Config{}, people); err == nil {
		t.Error("without a bundle")
	}
}

// What is lost is told with what took it.
func TestLostNamesItsCause(t *testing.T) {
	owners := []palyra.Principal{"user:a", "user:b"}
	for name, c := range map[string]struct{ policies, text, remedy string }{
		"forbidden": {
			policytest.PermitAll + `@id("mine") forbid (principal, action == Action::"policy.write", resource);`,
			"no owner could change policy any more, because of mine (a.cedar:2)", "let owners out of mine (a.cedar:2)",
		},
		"not permitted": {
			`@id("a") permit (principal, action == Action::"approval.decide", resource);`,
			"no owner could change policy any more, since nothing permits it", "keep the rule 'policy-writers' or one like it",
		},
	} {
		lost, err := Lost(t.Context(), under(policytest.Load(t, c.policies)), owners)
		if err != nil || len(lost) != 1 || lost[0].Text != c.text || lost[0].Remedy != c.remedy {
			t.Errorf("%s: %+v, %v", name, lost, err)
		}
	}
}

// What is asked for is what really happens: a rule that names the thing itself is not
// missed, and one for a thing that there is not does not help.
func TestLostOfTheRealThings(t *testing.T) {
	const all = `@id("a") permit (principal, action, resource);`
	for text, want := range map[string]int{
		all: 0,
		all + "\n" + `@id("b") forbid (principal, action == Action::"policy.write", resource == Policy::"bundle");`:                         1,
		`@id("a") permit (principal, action, resource == Policy::"any");`:                                                                   2,
		`@id("a") permit (principal, action, resource == Policy::"any"); @id("b") permit (principal, action, resource == Approval::"any");`: 2,
	} {
		lost, err := Lost(t.Context(), under(policytest.Load(t, text)), []palyra.Principal{"user:ada"})
		if err != nil || len(lost) != want {
			t.Errorf("%s: %+v, %v", text, lost, err)
		}
	}
}

// No preset takes from owners what they need to change it.
func TestPresetsLoseNothing(t *testing.T) {
	for _, name := range policy.Presets() {
		files, err := policy.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		b, report := policy.Check(files)
		if b == nil {
			t.Fatal(report.Problems)
		}
		if lost, err := Lost(t.Context(), under(b), []palyra.Principal{"user:ada"}); err != nil || lost != nil {
			t.Errorf("%s: %v, %v", name, lost, err)
		}
	}
}
