package process

import (
	"context"
	"strings"
	"testing"

	"palyra"
)

// stages is a host that says why there can be no stage; nothing: there can be.
type stages string

func (s stages) Stageable(context.Context, palyra.Plan) string { return string(s) }

// Every plan says where its run writes: to a layer of its own, unless that cannot be or is not
// wanted, and then why.
func TestWhereARunWrites(t *testing.T) {
	for _, c := range []struct {
		what   string
		args   arguments
		plan   palyra.Plan
		host   stages
		few    bool // only runs with inputs in their workspace are staged
		writes string
		why    string
	}{
		{what: "a plain run", plan: palyra.Plan{Tier: palyra.TierC}, writes: palyra.WritesStaged},
		{what: "asked for", args: arguments{Live: true}, plan: palyra.Plan{Tier: palyra.TierC}, writes: palyra.WritesLive, why: "asked for"},
		{what: "tier B", plan: palyra.Plan{Tier: palyra.TierB}, writes: palyra.WritesLive, why: "no file system of its own"},
		{what: "an agent", plan: palyra.Plan{Tier: palyra.TierC, AgentSocket: true}, writes: palyra.WritesLive, why: "it is an agent"},
		{what: "a terminal", plan: palyra.Plan{Tier: palyra.TierC, Terminal: true}, writes: palyra.WritesLive, why: "terminal"},
		{what: "live input", plan: palyra.Plan{Tier: palyra.TierC, Stdin: palyra.StdinLive}, writes: palyra.WritesLive, why: "input"},
		{what: "unix sockets", plan: palyra.Plan{Tier: palyra.TierC, UnixSockets: true}, writes: palyra.WritesLive, why: "unix sockets"},
		{what: "a host that cannot", plan: palyra.Plan{Tier: palyra.TierC}, host: "its file system", writes: palyra.WritesLive, why: "its file system"},
		{what: "a plain run among few", plan: palyra.Plan{Tier: palyra.TierC}, few: true},
		{
			what: "inputs among few", plan: palyra.Plan{Tier: palyra.TierC, Inputs: []palyra.Input{{Path: "Makefile"}}}, few: true,
			writes: palyra.WritesStaged,
		},
	} {
		p, d := c.plan, driver(t, Config{Stages: c.host, StageAll: !c.few})
		d.staging(t.Context(), c.args, &p)
		if p.Staging.Writes != c.writes || !strings.Contains(p.Staging.Why, c.why) || (p.Staging.Why == "") != (c.why == "") {
			t.Errorf("%s: %+v", c.what, p.Staging)
		}
		if said := strings.Join(inWorkspace(&p), "\n"); !strings.Contains(said, c.why) || (said == "") != (c.writes == "") {
			t.Errorf("%s: people are told %q", c.what, said)
		}
	}
}
