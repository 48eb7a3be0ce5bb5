package process

import (
	"context"
	"os"
	"testing"

	"palyra"
)

// able is a host that can stage every run.
type able struct{}

func (able) Stageable(context.Context, palyra.Plan) string { return "" }

func (able) Layer(palyra.Proposal, string) (palyra.CallID, *os.File, error) { return "", nil, nil }

// That a run writes directly is its caller's wish only where it could have had a layer of its own: policy asks about
// the wish, and about the rest as it would without it.
func TestLiveIsAskedForOnlyByChoice(t *testing.T) {
	d := driver(t, Config{Stages: able{}, StageAll: true})
	for what, c := range map[string]struct {
		live  bool
		plan  palyra.Plan
		asked bool
	}{
		"by choice":            {true, palyra.Plan{Tier: palyra.TierC}, true},
		"with inputs of its":   {true, palyra.Plan{Tier: palyra.TierC, Inputs: []palyra.Input{{Path: "Makefile"}}}, true},
		"a terminal as well":   {true, palyra.Plan{Tier: palyra.TierC, Terminal: true}, false},
		"in tier B as well":    {true, palyra.Plan{Tier: palyra.TierB}, false},
		"a terminal":           {false, palyra.Plan{Tier: palyra.TierC, Terminal: true}, false},
		"staged":               {false, palyra.Plan{Tier: palyra.TierC}, false},
		"an agent, by choice":  {true, palyra.Plan{Tier: palyra.TierC, AgentSocket: true}, false},
		"live input, likewise": {true, palyra.Plan{Tier: palyra.TierC, Stdin: palyra.StdinLive}, false},
	} {
		p := c.plan
		d.staging(d.whyLive(t.Context(), arguments{Live: c.live}, &p), &p)
		if got := p.Staging.LiveAsked(); got != c.asked {
			t.Errorf("%s: %v, %+v", what, got, p.Staging)
		}
	}
}
