package process

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/hostgroup"
)

// stages is a host that says why there can be no stage; nothing: there can be.
type stages string

func (s stages) Stageable(context.Context, palyra.Plan) string { return string(s) }

func (stages) Layer(palyra.Proposal, string) (palyra.CallID, *os.File, error) { return "", nil, nil }

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
		{
			what: "a host that cannot", plan: palyra.Plan{Tier: palyra.TierC}, host: "its file system", writes: palyra.WritesLive,
			why: "its file system",
		},
		{
			what: "in the background", plan: palyra.Plan{Tool: palyra.ToolProcessStart, Tier: palyra.TierC}, few: true, writes: palyra.WritesLive,
			why: palyra.LiveBackground,
		},
		{
			what: "in the background in tier B", plan: palyra.Plan{Tool: palyra.ToolProcessStart, Tier: palyra.TierB}, writes: palyra.WritesLive,
			why: palyra.LiveBackground,
		},
		{what: "a plain run among few", plan: palyra.Plan{Tier: palyra.TierC}, few: true},
		{
			what: "inputs among few", plan: palyra.Plan{Tier: palyra.TierC, Inputs: []palyra.Input{{Path: "Makefile"}}}, few: true,
			writes: palyra.WritesStaged,
		},
	} {
		p, d := c.plan, driver(t, Config{Stages: c.host, StageAll: !c.few})
		d.staging(d.whyLive(t.Context(), c.args, &p), &p)
		if p.Staging.Writes != c.writes || !strings.Contains(p.Staging.Why, c.why) || (p.Staging.Why == "") != (c.why == "") {
			t.Errorf("%s: %+v", c.what, p.Staging)
		}
		if said := strings.Join(inWorkspace(&p), "\n"); !strings.Contains(said, c.why) || (said == "") != (c.writes == "") {
			t.Errorf("%s: people are told %q", c.what, said)
		}
	}
}

// A staged run has none of the usual names sealed, and its plan says so. An operator's own names stay sealed, and
// everything beside what a profile opens that asks before the run; and so it is for a run that writes directly.
func TestWhatStaysSealed(t *testing.T) {
	usual := []string{".envrc", ".git/hooks"}
	for _, c := range []struct {
		what  string
		live  bool
		asks  bool
		seals []string
		want  []string
	}{
		{what: "staged", seals: usual},
		{what: "staged, with an operator's own", seals: []string{".envrc", ".git/hooks", "deploy.sh"}, want: []string{"deploy.sh"}},
		{what: "staged, asked about before", asks: true, seals: usual[1:], want: usual[1:]},
		{what: "live", live: true, seals: usual, want: usual},
		{what: "live, opened", live: true},
	} {
		p := palyra.Plan{Tier: palyra.TierC, Asks: c.asks, Seals: slices.Clone(c.seals)}
		p.Enforcement.Mechanisms = []string{"seccomp", cell.SealedPaths}
		d := driver(t, Config{Stages: stages(""), StageAll: true, Seals: usual})
		d.staging(d.whyLive(t.Context(), arguments{Live: c.live}, &p), &p)
		unpromise(&p)
		if !slices.Equal(p.Seals, c.want) {
			t.Errorf("%s: sealed are %q, not %q", c.what, p.Seals, c.want)
		}
		if sealed := slices.Contains(p.Enforcement.Mechanisms, cell.SealedPaths); sealed == (len(c.want) == 0) {
			t.Errorf("%s: promised: %v", c.what, p.Enforcement.Mechanisms)
		}
		said := strings.Join(surroundings(&p), "\n")
		if strings.Contains(said, "is sealed") != (c.live || c.want != nil) ||
			strings.Contains(said, "may leave hooks") != (c.live && c.seals == nil) {
			t.Errorf("%s: people are told %q", c.what, said)
		}
	}
}

// A run that nobody may be asked about has caches of its own, also where there can be no stage for it. One with a
// network, one that asks, and one that was to write to the workspace directly have others; and so has one whose hosts
// are all of one group, which an answer for the group may cover.
func TestCachesAreApart(t *testing.T) {
	const asked, unasked, grouped = "/c/0123/go", "/c/0123-unasked/go", "/c/0123-group/go"
	groups := hostgroup.Set{
		{Name: "m", Hosts: []hostgroup.Host{{At: "m.example:443"}, {At: "files.m.example:443"}}},
		{Name: "n", Hosts: []hostgroup.Host{{At: "n.example:443"}}},
	}
	reaches := func(hosts ...string) Fittings { return Fittings{Egress: hosts} }
	room := func(more Fittings) profiles {
		more.Mounts = []palyra.Mount{{Source: asked, Target: "/home/agent/.cache/go", Writable: true}, {Source: "/srv/z", Target: "/srv/z"}}
		return profiles{"x": more}
	}
	for what, c := range map[string]struct {
		args string
		room Fittings
		host stages
		want string
	}{
		"a plain run": {args: `{"command":"/bin/true","profile":"x"}`, want: unasked},
		"live":        {args: `{"command":"/bin/true","profile":"x","live":true}`, want: asked},
		"a network":   {args: `{"command":"/bin/true","profile":"x"}`, room: Fittings{Egress: []string{"a.example:443"}}, want: asked},
		"it asks":     {args: `{"command":"/bin/true","profile":"x"}`, room: Fittings{Asks: true}, want: asked},
		"no stage":    {args: `{"command":"/bin/true","profile":"x"}`, host: "its file system", want: unasked},

		"a host of a group":     {args: `{"command":"/bin/true","profile":"x"}`, room: reaches("m.example:443"), want: grouped},
		"named in the call":     {args: `{"command":"/bin/true","profile":"x","egress":["n.example:443"]}`, want: grouped},
		"all hosts of a group":  {args: `{"command":"/bin/true","profile":"x"}`, room: reaches("m.example:443", "files.m.example:443"), want: grouped},
		"a group, and no stage": {args: `{"command":"/bin/true","profile":"x"}`, room: reaches("m.example:443"), host: "its file system", want: grouped},
		"two groups":            {args: `{"command":"/bin/true","profile":"x"}`, room: reaches("m.example:443", "n.example:443"), want: asked},
		"a host beside a group": {args: `{"command":"/bin/true","profile":"x"}`, room: reaches("m.example:443", "a.example:443"), want: asked},
		"a group, and live":     {args: `{"command":"/bin/true","profile":"x","live":true}`, room: reaches("m.example:443"), want: asked},
		"a group, and it asks":  {args: `{"command":"/bin/true","profile":"x"}`, room: Fittings{Asks: true, Egress: []string{"m.example:443"}}, want: asked},
	} {
		d := driver(t, Config{
			Tiers: everywhere{}, Tier: palyra.TierC, Profiles: room(c.room), Groups: groups,
			Hosts:  allowed{"a.example:443", "m.example:443", "files.m.example:443", "n.example:443"},
			Stages: c.host, StageAll: true, Enabled: true,
		})
		p := palyra.Plan{Tool: Name, Workspace: palyra.WorkspaceRef{Path: t.TempDir(), Owner: int64(os.Geteuid())}, Arguments: []byte(c.args)}
		if err := d.Plan(t.Context(), &palyra.Call{}, &p); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if p.Mounts[0].Source != c.want || p.Mounts[1].Source != "/srv/z" {
			t.Errorf("%s: %+v", what, p.Mounts)
		}
	}
}

// A run with secrets has the caches of runs that people are asked about, whatever it reaches.
func TestSecretsHaveNoCacheOfAGroup(t *testing.T) {
	d := driver(t, Config{Tiers: everywhere{}, Groups: hostgroup.Set{{Name: "m", Hosts: []hostgroup.Host{{At: "m.example:443"}}}}})
	for what, p := range map[string]palyra.Plan{
		"bound":       {Bindings: []string{"token"}},
		"a variable":  {Env: []palyra.EnvVar{{Name: "TOKEN", Secret: true}}},
		"and a group": {Egress: []string{"m.example:443"}, Bindings: []string{"token"}},
	} {
		p.Mounts = []palyra.Mount{{Source: "/c/0123/go", Writable: true}}
		if d.apart(&p); p.Mounts[0].Source != "/c/0123/go" {
			t.Errorf("%s: %s", what, p.Mounts[0].Source)
		}
	}
}
