package daemon

import (
	"cmp"
	"context"
	"encoding/json"

	"palyra"
	"palyra/internal/egress"
	"palyra/internal/tool/fetch"
)

// fetchConfig is the guard as the fetch tool knows it. Its hosts are those of the plan: nothing is asked on
// the way.
func fetchConfig(g *egress.Guard) fetch.Config {
	return fetch.Config{
		Hosts: g,
		Open: func(ctx context.Context, p palyra.Plan) (fetch.Gateway, error) {
			s, err := g.Open(ctx, nil, p)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

// askHost has a running call ask for a host that it wants to reach and was not granted.
func (p *path) askHost(ctx context.Context, c *palyra.Call, host string, port int) (egress.Answer, error) {
	args, err := json.Marshal(map[string]any{"host": host, "port": port})
	if err != nil {
		return egress.Answer{}, err
	}
	a, err := p.calls.Ask(ctx, c, fetch.AllowName, args, cmp.Or(c.Detail.Summary, string(c.Proposal.Tool)))
	if palyra.CodeOf(err) == palyra.Denied {
		no := palyra.AsError(err)
		if c.Proposal.NoWait {
			no = no.WithRemedy("name the host in the call's egress")
		}
		err = palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s:%d was not allowed: %s", host, port, no.Text).
			WithRemedy("%s", no.Remedy)
	}
	return egress.Answer(a), err
}
