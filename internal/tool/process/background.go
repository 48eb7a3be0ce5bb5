package process

import (
	"slices"
	"time"

	"palyra"
	"palyra/internal/hostport"
	"palyra/internal/show"
)

// BackgroundWall is the most time of a background process. Its processor time is the limit of a run for each hour.
const (
	BackgroundWall  = backgroundHours * time.Hour
	backgroundHours = 24
)

// most is the most that the plan's run may use, and the limits that came with the plan, of which a background process
// has other times.
func (d *Driver) most(p palyra.Plan) (most, own palyra.Limits) {
	most, own = d.Limits, p.Limits
	if p.Background() {
		most.CPUMS *= backgroundHours
		if own.WallMS == d.Wall { // the caller asked for no less
			own.WallMS = BackgroundWall.Milliseconds()
		}
	}
	return most, own
}

// publish puts the ports that a call publishes into its plan, in order.
func (d *Driver) publish(session palyra.SessionID, a arguments, p *palyra.Plan) error {
	if len(a.Publish) == 0 {
		return nil
	}
	switch {
	case !p.Background():
		return malformed("only background processes publish ports").
			WithRemedy("start it with %s (palyra exec --background)", palyra.ToolProcessStart)
	case p.Tier != palyra.TierC:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "tier %s has no network to publish ports of", p.Tier).
			WithRemedy("call with tier c, or without publish")
	case d.Ports == nil:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonPortDenied, "no ports can be published here").WithRemedy("call without publish")
	}
	ports, bad := hostport.ParseAll(a.Publish)
	if bad != "" {
		return malformed("%s is not a port", show.Arg(palyra.Clip(bad, 32))).WithRemedy("give PORT, or HOST:INSIDE, each from 1 to 65535")
	}
	if err := d.Ports.Check(session, ports); err != nil {
		return err
	}
	slices.SortFunc(ports, func(a, b hostport.Pair) int { return a.Host - b.Host })
	for _, at := range ports {
		p.Publish = append(p.Publish, at.String())
	}
	return nil
}
