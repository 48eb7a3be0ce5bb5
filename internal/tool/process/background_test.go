package process

import (
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/hostport"
)

// openPorts lets every port be published that it does not name.
type openPorts []int

func (taken openPorts) Check(_ palyra.SessionID, ports []hostport.Pair) error {
	for _, p := range ports {
		if slices.Contains(taken, p.Host) {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonPortDenied, "taken")
		}
	}
	return nil
}

// The ports of a plan are in one order and spelling, and only a background process in a room has any.
func TestPublish(t *testing.T) {
	start := palyra.Plan{Tool: palyra.ToolProcessStart, Tier: palyra.TierC}
	d := driver(t, Config{Ports: openPorts{9000}})
	p := start
	err := d.publish("S", arguments{Publish: []string{"8081:80", "8080"}}, &p)
	if err != nil || !slices.Equal(p.Publish, []string{"8080:8080", "8081:80"}) {
		t.Errorf("%v, %v", p.Publish, err)
	}
	run, b := start, start
	run.Tool, b.Tier = palyra.ToolProcessRun, palyra.TierB
	for name, c := range map[string]struct {
		d    *Driver
		plan palyra.Plan
		port string
		want palyra.Reason
	}{
		"no port":     {d, start, "http", palyra.ReasonMalformedInput},
		"taken":       {d, start, "9000:80", palyra.ReasonPortDenied},
		"a plain run": {d, run, "8080", palyra.ReasonMalformedInput},
		"no room":     {d, b, "8080", palyra.ReasonTierUnavailable},
		"nobody":      {driver(t, Config{}), start, "8080", palyra.ReasonPortDenied},
	} {
		err := c.d.publish("S", arguments{Publish: []string{c.port}}, &c.plan)
		if palyra.AsError(err).Reason != c.want || len(c.plan.Publish) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who reads the question is told that a port with another number inside hides that of another process there.
func TestOwnInside(t *testing.T) {
	for publish, want := range map[string]string{
		"8080:8080": "", "5174:5173": "; inside, localhost:5173 is its own, whatever else the session publishes",
	} {
		p := palyra.Plan{Tool: palyra.ToolProcessStart, Tier: palyra.TierC, Publish: []string{publish}}
		driver(t, Config{}).describe(arguments{}, &p, false)
		if i := slices.IndexFunc(p.Detail.Notes, func(n string) bool { return strings.HasPrefix(n, "publishes ports") }); i < 0 ||
			!strings.HasSuffix(p.Detail.Notes[i], "can connect there"+want) {
			t.Errorf("%s: %q", publish, p.Detail.Notes)
		}
	}
}

// A background process has a day, unless less is asked for.
func TestBackgroundLimits(t *testing.T) {
	d := driver(t, Config{Wall: 1000})
	for _, c := range []struct {
		tool       palyra.ToolName
		wall, want int64
		times      int64
	}{
		{palyra.ToolProcessRun, 1000, 1000, 1},
		{palyra.ToolProcessStart, 1000, BackgroundWall.Milliseconds(), 24},
		{palyra.ToolProcessStart, 999, 999, 24},
	} {
		most, own := d.most(palyra.Plan{Tool: c.tool, Limits: palyra.Limits{WallMS: c.wall}})
		if own.WallMS != c.want || most.CPUMS != d.Limits.CPUMS*c.times {
			t.Errorf("%+v: %+v, %+v", c, most, own)
		}
	}
}
