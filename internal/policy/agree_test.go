package policy

import (
	"strings"
	"testing"

	"palyra"
)

// Needs of several pairs are met by one answer, or nobody is asked at all.
func TestNeedsThatContradict(t *testing.T) {
	const (
		run = `@id("run") @reason("run it") permit (principal, action == Action::"tool.execute", resource) when { context.approval.granted && %A };`
		use = `@id("use") @reason("use it") permit (principal, action == Action::"vault.use", resource) when { context.approval.granted && %B };`
	)
	for name, c := range map[string]struct {
		a, b string
		want palyra.Effect
		need palyra.Need
	}{
		"alike":             {"true", "true", palyra.Ask, palyra.Need{Votes: 1}},
		"two and three":     {"context.approval.votes >= 2", "context.approval.votes >= 3", palyra.Ask, palyra.Need{Votes: 3}},
		"one and two":       {"context.approval.votes == 1", "context.approval.votes >= 2", palyra.Deny, palyra.Need{}},
		"a device and none": {"context.approval.device", "!context.approval.device", palyra.Deny, palyra.Need{}},
		"fresh and not":     {"context.approval.fresh", "!context.approval.fresh", palyra.Deny, palyra.Need{}},
		"met further up": {
			"(context.approval.votes == 1 || context.approval.votes == 4)", "context.approval.votes >= 2", palyra.Ask,
			palyra.Need{Votes: 4},
		},
		"only one may lease": {"true", `context.approval.scope == "once"`, palyra.Ask, palyra.Need{Votes: 1, Fresh: true}},
	} {
		t.Run(name, func(t *testing.T) {
			e := engine(t, load(t, strings.NewReplacer("%A", c.a, "%B", c.b).Replace(run+"\n"+use)))
			r := echo()
			useSecrets(&r, "token")
			v := e.Judge(t.Context(), r)
			if v.Effect != c.want || v.Need != c.need {
				t.Fatalf("%s %+v: %s", v.Effect, v.Need, v.Reason)
			}
			if c.want == palyra.Ask {
				r.Approval = meets(v.Need)
				if v := e.Judge(t.Context(), r); v.Effect != palyra.Allow {
					t.Errorf("met, and still %s: %s", v.Effect, v.Reason)
				}
				return
			}
			if name == "fresh and not" {
				return // each rung is fresh: that pair never asks
			}
			if !strings.HasPrefix(v.Reason, "no single answer could satisfy") || !strings.Contains(v.Remedy, "run, use") || len(v.Errors) > 0 {
				t.Errorf("%q %q %v", v.Reason, v.Remedy, v.Errors)
			}
		})
	}
}

// A pair that is allowed as things are, and no more once somebody has answered, is
// part of it.
func TestAnAnswerThatForbidsAnother(t *testing.T) {
	e := engine(t, load(t, `
@id("run") permit (principal, action == Action::"tool.execute", resource) when { context.approval.granted };
@id("use") permit (principal, action == Action::"vault.use", resource) when { !context.approval.granted };`))
	r := echo()
	useSecrets(&r, "token")
	if v := e.Judge(t.Context(), r); v.Effect != palyra.Deny || !strings.HasPrefix(v.Reason, "no single answer could satisfy") {
		t.Errorf("%s: %s", v.Effect, v.Reason)
	}
	if w := e.Why(t.Context(), r); w.Verdict != palyra.Deny || w.Layer != palyra.LayerPolicy {
		t.Errorf("%+v", w)
	}
}
