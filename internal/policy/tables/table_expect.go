package tables

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"palyra"
	"palyra/internal/policy"
)

// tableWant is what a test expects. Only the parts of the need that the test writes count.
type tableWant struct {
	effect   palyra.Effect
	need     []tableNeed
	with     []string // policies that decide
	without  []string // policies that do not
	asksLine *yaml.Node
}

// tableNeed is one part of the approval that is needed.
type tableNeed struct {
	name string
	want string
	of   func(palyra.Need) string
}

// tableNeeds are the parts by name, each as text.
var tableNeeds = map[string]func(palyra.Need) string{
	"votes":        func(n palyra.Need) string { return fmt.Sprint(n.Votes) },
	"other_person": func(n palyra.Need) string { return fmt.Sprint(n.OtherPerson) },
	"device":       func(n palyra.Need) string { return fmt.Sprint(n.Device) },
	"fresh":        func(n palyra.Need) string { return fmt.Sprint(n.Fresh) },
	"separation": func(n palyra.Need) string {
		if n.Separation == "" {
			return string(palyra.SeparationNone)
		}
		return string(n.Separation)
	},
}

var tableEffects = map[string]palyra.Effect{"allow": palyra.Allow, "ask": palyra.Ask, "deny": palyra.Deny}

// want reads what a test expects: a verdict, or a mapping.
func (r *tableReader) want(n *yaml.Node) tableWant {
	var w tableWant
	if n.Kind == yaml.ScalarNode {
		w.effect = pick(r, n, tableEffects)
		return w
	}
	r.fields(n, "expect", []string{"verdict"}, map[string]func(*yaml.Node){
		"verdict":      func(n *yaml.Node) { w.effect = pick(r, n, tableEffects) },
		"need":         func(n *yaml.Node) { w.asksLine, w.need = n, r.need(n) },
		"policies":     func(n *yaml.Node) { w.with = r.policies(n) },
		"not_policies": func(n *yaml.Node) { w.without = r.policies(n) },
	})
	if w.need != nil && w.effect != palyra.Ask {
		r.fault(w.asksLine, "only the verdict ask has a need")
	}
	return w
}

// need reads the parts of an approval that are expected to be needed.
func (r *tableReader) need(n *yaml.Node) []tableNeed {
	out := []tableNeed{}
	keep := func(name, want string) { out = append(out, tableNeed{name, want, tableNeeds[name]}) }
	flag := func(name string) func(*yaml.Node) {
		return func(n *yaml.Node) { keep(name, fmt.Sprint(r.flag(n))) }
	}
	r.fields(n, "need", nil, map[string]func(*yaml.Node){
		"votes":        func(n *yaml.Node) { keep("votes", fmt.Sprint(r.number(n, 1, policy.MaxVotes))) },
		"other_person": flag("other_person"), "device": flag("device"), "fresh": flag("fresh"),
		"separation": func(n *yaml.Node) { keep("separation", string(pick(r, n, tableSeparations))) },
	})
	return out
}

// policies reads ids. One that the bundle does not have is a mistake: a test that
// wants it absent would hold for ever.
func (r *tableReader) policies(n *yaml.Node) []string {
	list := r.list(n)
	if n.Kind != yaml.SequenceNode {
		return nil
	}
	for i, id := range list {
		if !r.bundle.Knows(id) {
			r.fault(n.Content[i], "the bundle has no policy %q", palyra.Clip(id, 64))
		}
	}
	return list
}

// mismatch says how a verdict differs from the expected one; "" when it does not. A verdict that a failing
// policy made proves nothing, whatever it says.
func (w tableWant) mismatch(v palyra.Verdict) string {
	var parts []string
	if len(v.Errors) > 0 {
		parts = append(parts, "a policy could not be evaluated: "+strings.Join(v.Errors, "; "))
	}
	if v.Effect != w.effect {
		parts = append(parts, fmt.Sprintf("expected %s, got %s", w.effect, v.Effect))
	}
	if v.Effect == palyra.Ask && w.effect == palyra.Ask {
		for _, n := range w.need {
			if got := n.of(v.Need); got != n.want {
				parts = append(parts, fmt.Sprintf("expected need.%s %s, got %s", n.name, n.want, got))
			}
		}
	}
	decided := make([]string, len(v.Policies))
	for i, p := range v.Policies {
		decided[i] = p.ID
	}
	for _, id := range w.with {
		if !slices.Contains(decided, id) {
			parts = append(parts, "policy "+id+" did not decide")
		}
	}
	for _, id := range w.without {
		if slices.Contains(decided, id) {
			parts = append(parts, "policy "+id+" decided")
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return palyra.Clip(strings.Join(append(parts, tellVerdict(v, decided)), "; "), 1024)
}

// tellVerdict says what decided, for people who look for the reason.
func tellVerdict(v palyra.Verdict, decided []string) string {
	if len(decided) == 0 {
		return "no policy decided: " + v.Reason
	}
	return "decided by " + strings.Join(decided, ", ") + ": " + v.Reason
}
