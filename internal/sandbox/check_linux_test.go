package sandbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
)

func TestBadGrants(t *testing.T) {
	for name, spoil := range map[string]func(palyra.Grant, *palyra.Call) (palyra.Grant, *palyra.Call){
		"none": func(_ palyra.Grant, c *palyra.Call) (palyra.Grant, *palyra.Call) { return palyra.Grant{}, c },
		"for another call": func(g palyra.Grant, c *palyra.Call) (palyra.Grant, *palyra.Call) {
			other := *c
			other.ID = "01JOTHER"
			return g, &other
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.grant = spoil
			b.refused(palyra.Denied, palyra.ReasonInternal, "no grant for this call")
		})
	}
}

func TestPlansThatCannotRun(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(*palyra.Plan)
		code   palyra.Code
		reason palyra.Reason
		layer  palyra.Layer
		text   string
	}{
		"another tier":      {func(p *palyra.Plan) { p.Tier = palyra.TierC }, palyra.Unavailable, palyra.ReasonTierUnavailable, palyra.LayerTier, "no tier C"},
		"in process":        {func(p *palyra.Plan) { p.Tier = palyra.TierBuiltin }, palyra.Unavailable, palyra.ReasonTierUnavailable, palyra.LayerTier, "no tier builtin"},
		"no executable":     {func(p *palyra.Plan) { p.Executable.Path = "" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "no executable"},
		"relative":          {func(p *palyra.Plan) { p.Executable.Path = "bin/sh" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "no executable"},
		"no digest":         {func(p *palyra.Plan) { p.Executable.Digest = "" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "no executable"},
		"no argv":           {func(p *palyra.Plan) { p.Argv = nil }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "no argv"},
		"a NUL":             {func(p *palyra.Plan) { p.Argv = []string{"sh", "a\x00b"} }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "NUL"},
		"no workspace":      {func(p *palyra.Plan) { p.Workspace.Path = "" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "no workspace"},
		"cwd outside":       {func(p *palyra.Plan) { p.Cwd = "/etc" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "working directory"},
		"cwd beside":        {func(p *palyra.Plan) { p.Cwd += "2" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "working directory"},
		"cwd back out":      {func(p *palyra.Plan) { p.Cwd += "/.." }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "working directory"},
		"no promise":        {func(p *palyra.Plan) { p.Enforcement = palyra.Enforcement{} }, palyra.Unavailable, palyra.ReasonWeakEnforcement, palyra.LayerTier, "nothing about"},
		"network":           {func(p *palyra.Plan) { p.Egress = []string{"example.org:443"} }, palyra.Denied, palyra.ReasonEgressDenied, palyra.LayerEgress, "no network"},
		"bindings":          {func(p *palyra.Plan) { p.Bindings = []string{"github"} }, palyra.Unavailable, palyra.ReasonEnvDenied, palyra.LayerTier, "no vault"},
		"mounts":            {func(p *palyra.Plan) { p.Mounts = []palyra.Mount{{Source: "/x", Target: "/x"}} }, palyra.Unavailable, palyra.ReasonTierUnavailable, palyra.LayerTier, "no mounts"},
		"a profile":         {func(p *palyra.Plan) { p.Profile = "git" }, palyra.Unavailable, palyra.ReasonTierUnavailable, palyra.LayerTier, "no profiles"},
		"a secret":          {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "TOKEN", Secret: true}} }, palyra.Unavailable, palyra.ReasonEnvDenied, palyra.LayerTier, "TOKEN is a secret"},
		"its own PATH":      {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "PATH", Value: "."}} }, palyra.Denied, palyra.ReasonEnvDenied, palyra.LayerTier, "PATH is set by the sandbox"},
		"its own HOME":      {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "HOME", Value: "/root"}} }, palyra.Denied, palyra.ReasonEnvDenied, palyra.LayerTier, "HOME"},
		"its own TMPDIR":    {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "TMPDIR", Value: "/tmp"}} }, palyra.Denied, palyra.ReasonEnvDenied, palyra.LayerTier, "TMPDIR"},
		"no name":           {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Value: "x"}} }, palyra.Invalid, palyra.ReasonEnvDenied, palyra.LayerTier, "cannot be a variable"},
		"a name with =":     {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "PATH=.:"}} }, palyra.Invalid, palyra.ReasonEnvDenied, palyra.LayerTier, "cannot be a variable"},
		"a value with NUL":  {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "A", Value: "\x00PATH=."}} }, palyra.Invalid, palyra.ReasonEnvDenied, palyra.LayerTier, "cannot be a variable"},
		"a variable twice":  {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "A"}, {Name: "A", Value: "1"}} }, palyra.Invalid, palyra.ReasonEnvDenied, palyra.LayerTier, "cannot be a variable"},
		"an impossible uid": {func(p *palyra.Plan) { p.Workspace.Owner = 1<<32 - 1 }, palyra.Invalid, palyra.ReasonWorkspaceDenied, palyra.LayerTier, "cannot own"},
		"a negative uid":    {func(p *palyra.Plan) { p.Workspace.Owner = -1 }, palyra.Invalid, palyra.ReasonWorkspaceDenied, palyra.LayerTier, "cannot own"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			c.spoil(&b.plan)
			want(t, "layer", b.refused(c.code, c.reason, c.text).Layer, c.layer)
		})
	}
}

func TestPlanChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*palyra.Plan)
		text   string
	}{
		"executable":        {func(p *palyra.Plan) { p.Executable.Digest = palyra.SumBytes([]byte("x")) }, ": the executable /"},
		"another file":      {func(p *palyra.Plan) { p.Executable.Path = "/usr/local/bin/sh" }, ": the executable /usr/local/bin/sh"},
		"sealed":            {func(p *palyra.Plan) { p.Executable.Sealed = true }, ": who may write the executable /"},
		"input":             {func(p *palyra.Plan) { p.Inputs = []palyra.Input{{Path: "a", Digest: palyra.SumBytes(nil)}} }, ": a"},
		"input gone":        {func(p *palyra.Plan) { p.Inputs = []palyra.Input{{Path: "a"}} }, ": a"},
		"input not read":    {func(p *palyra.Plan) { p.Inputs = nil }, ": a"},
		"input odd":         {func(p *palyra.Plan) { p.Inputs = []palyra.Input{{Path: "a"}, {Path: "b\nc"}} }, `: a, "b\nc"`},
		"argv":              {func(p *palyra.Plan) { p.Argv = []string{"sh"} }, ": the program's arguments"},
		"cwd":               {func(p *palyra.Plan) { p.Cwd += "/sub" }, ": the working directory"},
		"env value":         {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "A", Value: "2"}} }, ": the environment (A)"},
		"env more and less": {func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "B"}} }, ": the environment (B, A)"},
		"stdin":             {func(p *palyra.Plan) { p.Stdin = palyra.StdinLive }, ": stdin"},
		"terminal":          {func(p *palyra.Plan) { p.Terminal = true }, ": the terminal"},
		"workspace":         {func(p *palyra.Plan) { p.Workspace.Known = false }, ": the workspace"},
		"tier":              {func(p *palyra.Plan) { p.Tier = palyra.TierC }, ": the tier"},
		"limits":            {func(p *palyra.Plan) { p.Limits.MemoryBytes = 1 }, ": the limits"},
		"enforcement":       {func(p *palyra.Plan) { p.Enforcement.Mechanisms = []string{"cell"} }, ": what the tier enforces"},
		"a limit's way":     {func(p *palyra.Plan) { p.Enforcement.Limits = map[string]string{"memory": "cgroup"} }, ": what the tier enforces"},
		"egress":            {func(p *palyra.Plan) { p.Egress = []string{"a:1"} }, ": the hosts it may reach"},
		"bindings":          {func(p *palyra.Plan) { p.Bindings = []string{"a"} }, ": the secrets it gets"},
		"mounts":            {func(p *palyra.Plan) { p.Mounts = []palyra.Mount{{Source: "/a"}} }, ": the directories it sees"},
		"writes":            {func(p *palyra.Plan) { p.Writes = []string{"a"} }, ": the files it names"},
		"arguments":         {func(p *palyra.Plan) { p.Arguments = []byte(`{"a":1}`) }, "another plan than the one that was judged"},
		"many": {func(p *palyra.Plan) {
			p.Argv, p.Inputs, p.Cwd, p.Stdin, p.Terminal = nil, nil, p.Cwd+"/a", palyra.StdinLive, true
		}, ": a, the program's arguments, the working directory, stdin and 1 more"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.plan.Inputs = []palyra.Input{{Path: "a", Digest: palyra.SumBytes([]byte("1"))}}
			b.plan.Env = []palyra.EnvVar{{Name: "A", Value: "1"}}
			b.resolve = func(p palyra.Plan) (palyra.Plan, error) { c.change(&p); return p, nil }
			r := b.refused(palyra.Conflict, palyra.ReasonPlanChanged, c.text)
			if r.Layer != palyra.LayerTier || r.Remedy == "" || (c.text[0] == ':' && !strings.HasPrefix(r.Text, "changed since the plan was judged: ")) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestPlanNoLongerResolves(t *testing.T) {
	gone := palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "there is no such program")
	b := newBox(t)
	b.resolve = func(palyra.Plan) (palyra.Plan, error) { return palyra.Plan{}, gone }
	b.refused(palyra.Conflict, palyra.ReasonPlanChanged, "no longer holds: there is no such program")

	full := palyra.Errorf(palyra.Exhausted, palyra.ReasonDiskFull, "no room")
	b.resolve = func(palyra.Plan) (palyra.Plan, error) { return palyra.Plan{}, full }
	b.refused(palyra.Exhausted, palyra.ReasonDiskFull, "no room")

	b.resolve = func(palyra.Plan) (palyra.Plan, error) { return palyra.Plan{}, errors.New("secret detail") }
	if r := b.refused(palyra.Internal, palyra.ReasonInternal, "internal error"); strings.Contains(r.Text, "secret") {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(b.log.String(), "secret detail") {
		t.Error("nobody is told what went wrong")
	}

	b.resolve = func(p palyra.Plan) (palyra.Plan, error) { p.Arguments = []byte("{"); return p, nil }
	b.refused(palyra.Internal, palyra.ReasonInternal, "")
}

func TestLessThanPromised(t *testing.T) {
	for name, c := range map[string]struct {
		weaken func(*palyra.Enforcement)
		text   string
	}{
		"a mechanism":     {func(e *palyra.Enforcement) { e.Mechanisms = []string{"cell"} }, "promises: seccomp"},
		"a limit's way":   {func(e *palyra.Enforcement) { e.Limits["memory"] = "none" }, "memory by polled"},
		"a limit":         {func(e *palyra.Enforcement) { delete(e.Limits, "output") }, "output by cap"},
		"another network": {func(e *palyra.Enforcement) { e.Mode = "none" }, "network strict"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			now := b.back.probe
			now.Limits = maps.Clone(now.Limits)
			c.weaken(&now)
			b.back.probe = now
			b.refused(palyra.Unavailable, palyra.ReasonWeakEnforcement, c.text)
		})
	}
	b := newBox(t)
	b.back.probeErr = palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "landlock is off")
	b.refused(palyra.Unavailable, palyra.ReasonTierUnavailable, "landlock is off")
}

func TestMoreThanPromisedIsFine(t *testing.T) {
	b := newBox(t)
	b.back.probe.Mechanisms = append(slices.Clone(b.back.probe.Mechanisms), "cgroup_v2")
	want(t, "held", b.finished().Enforcement.Mechanisms, []string{"cell", "cgroup_v2", "seccomp"})
}

func TestABackendThatBrokeItsWord(t *testing.T) {
	b := newBox(t)
	b.back.less = true
	res := b.run()
	if f := res.Failure; f == nil || f.Reason != palyra.ReasonWeakEnforcement || !strings.Contains(f.Text, "seccomp") {
		t.Errorf("failure %+v", f)
	}
	want(t, "attested", res.Enforcement, palyra.Enforcement{Mode: "strict", Mechanisms: []string{"cell"}, Limits: map[string]string{}})
}

func TestNothingStartsAfterTheEndOfTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		ctx    func() (context.Context, context.CancelFunc)
		reason palyra.Reason
	}{
		"cancelled": {func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, palyra.ReasonCancelled},
		"timed out": {func() (context.Context, context.CancelFunc) {
			return context.WithDeadline(t.Context(), time.Unix(0, 0))
		}, palyra.ReasonTimedOut},
	} {
		for when, set := range map[string]func(*box, func()){
			"at resolving": func(_ *box, cancel func()) { cancel() },
			"after it": func(b *box, cancel func()) {
				b.resolve = func(p palyra.Plan) (palyra.Plan, error) { return p, nil }
				cancel()
			},
			"at preparing": func(b *box, cancel func()) {
				b.r.Stdin = func(palyra.Plan) ([]byte, error) { cancel(); return nil, nil }
			},
			"at the last moment": func(b *box, cancel func()) {
				b.plan.Terminal, b.size = true, func(palyra.Plan) (int, int) { cancel(); return 0, 0 }
			},
			"at starting": func(b *box, cancel func()) { b.back.onStart = func(Job) { cancel() } },
		} {
			if name == "timed out" && strings.HasPrefix(when, "at ") && when != "at resolving" {
				continue // its context is over from the beginning
			}
			t.Run(name+" "+when, func(t *testing.T) {
				b := newBox(t)
				ctx, cancel := c.ctx()
				defer cancel()
				set(b, cancel)
				res := b.runIn(ctx)
				if res.Refusal == nil || res.Refusal.Reason != c.reason || res.Refusal.Code != palyra.Expired {
					t.Errorf("%+v", res.Refusal)
				}
				want(t, "started", len(b.back.started()), 0)
			})
		}
	}
}

func TestABackendThatCannotStart(t *testing.T) {
	b := newBox(t)
	b.back.startErr = palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "no cgroup")
	b.refused(palyra.Unavailable, palyra.ReasonWeakEnforcement, "no cgroup")
	b.back.startErr = palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "too many runs")
	want(t, "layer", b.refused(palyra.Exhausted, palyra.ReasonQuotaExceeded, "too many").Layer, palyra.LayerLimit)
	b.back.startErr = errors.New("fork: detail")
	if r := b.refused(palyra.Unavailable, palyra.ReasonSpawnFailed, "could not be started"); strings.Contains(r.Text, "detail") {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(b.log.String(), "fork: detail") {
		t.Error("nobody is told what went wrong")
	}
}
