package policy

import (
	"testing"

	"github.com/cedar-policy/cedar-go"
	"pgregory.net/rapid"
)

// What a premise leaves out of a preset's policies neither matches nor fails in Cedar's own words, with the whole
// context and under every approval.
func TestPremisesOfPresets(t *testing.T) {
	left, said := 0, 0
	for _, b := range []*Bundle{defaults(t), bundleOf(t, "ask"), bundleOf(t, "readonly"), bundleOf(t, "strict"), bundleOf(t, "ci")} {
		e := engine(t, b)
		rapid.Check(t, func(t *rapid.T) {
			c, err := e.live.Load().newCall(everyCall(t))
			if err != nil {
				return
			}
			for _, p := range c.pairs {
				for _, a := range []answer{{}, ladder[0], ladder[0].leased(), ladder[len(ladder)-1]} {
					full := cedar.Request{Principal: c.principal, Action: p.action, Resource: p.resource, Context: c.context(a)}
					for _, r := range b.index.all {
						_, diag := cedar.Authorize(rules{r}, &c.world, full)
						speaks := len(diag.Reasons)+len(diag.Errors) > 0
						for _, under := range []cedar.Value{nil, approvalRecord(a)} {
							if len(c.speaking(nil, rules{r}, p, under)) == 0 {
								left++
								if speaks {
									t.Fatalf("%s was left out and says %+v", r.id, diag)
								}
							}
						}
						if speaks {
							said++
						}
					}
				}
			}
		})
	}
	if left < 1000 || said < 1000 {
		t.Errorf("%d were left out, %d spoke: that shows nothing", left, said)
	}
}
