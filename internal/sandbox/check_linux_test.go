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

func TestBadLaunches(t *testing.T) {
	for name, spoil := range map[string]func(palyra.Launch, *palyra.Call) (palyra.Launch, *palyra.Call){
		"none": func(_ palyra.Launch, c *palyra.Call) (palyra.Launch, *palyra.Call) { return palyra.Launch{}, c },
		"for another call": func(l palyra.Launch, c *palyra.Call) (palyra.Launch, *palyra.Call) {
			other := *c
			other.ID = "01JOTHER"
			return l, &other
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.launch = spoil
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
		"another tier": {
			func(p *palyra.Plan) { p.Tier = palyra.TierC }, palyra.Unavailable, palyra.ReasonTierUnavailable,
			palyra.LayerTier, "no tier C",
		},
		"in process": {
			func(p *palyra.Plan) { p.Tier = palyra.TierBuiltin }, palyra.Unavailable, palyra.ReasonTierUnavailable,
			palyra.LayerTier, "no tier builtin",
		},
		"no executable": {
			func(p *palyra.Plan) { p.Executable.Path = "" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier,
			"no executable",
		},
		"relative": {
			func(p *palyra.Plan) { p.Executable.Path = "bin/sh" }, palyra.Invalid, palyra.ReasonMalformedInput,
			palyra.LayerTier, "no executable",
		},
		"no digest": {
			func(p *palyra.Plan) { p.Executable.Digest = "" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier,
			"no executable",
		},
		"no argv": {func(p *palyra.Plan) { p.Argv = nil }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier, "no argv"},
		"a NUL": {
			func(p *palyra.Plan) { p.Argv = []string{"sh", "a\x00b"} }, palyra.Invalid, palyra.ReasonMalformedInput,
			palyra.LayerTier, "NUL",
		},
		"no workspace": {
			func(p *palyra.Plan) { p.Workspace.Path = "" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier,
			"no workspace",
		},
		"cwd outside": {
			func(p *palyra.Plan) { p.Cwd = "/etc" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier,
			"working directory",
		},
		"cwd beside": {
			func(p *palyra.Plan) { p.Cwd += "2" }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier,
			"working directory",
		},
		"cwd back out": {
			func(p *palyra.Plan) { p.Cwd += "/.." }, palyra.Invalid, palyra.ReasonMalformedInput, palyra.LayerTier,
			"working directory",
		},
		"no promise": {
			func(p *palyra.Plan) { p.Enforcement = palyra.Enforcement{} }, palyra.Unavailable, palyra.ReasonWeakEnforcement,
			palyra.LayerTier, "does not name",
		},
		"network": {
			func(p *palyra.Plan) { p.Egress = []string{"example.org:443"} }, palyra.Denied, palyra.ReasonEgressDenied,
			palyra.LayerEgress, "no network",
		},
		"bindings": {
			func(p *palyra.Plan) { p.Bindings = []string{"github"} }, palyra.Unavailable, palyra.ReasonEnvDenied,
			palyra.LayerTier, "no secret can be lent",
		},
		"mounts": {
			func(p *palyra.Plan) { p.Mounts = []palyra.Mount{{Source: "/x", Target: "/x"}} }, palyra.Unavailable,
			palyra.ReasonTierUnavailable, palyra.LayerTier, "no mounts",
		},
		"a profile": {
			func(p *palyra.Plan) { p.Profile = "git" }, palyra.Unavailable, palyra.ReasonTierUnavailable, palyra.LayerTier,
			"no profiles",
		},
		"a secret": {
			func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "TOKEN", Secret: true}} }, palyra.Unavailable,
			palyra.ReasonEnvDenied, palyra.LayerTier, "TOKEN is a secret",
		},
		"its own PATH": {
			func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "PATH", Value: "."}} }, palyra.Denied,
			palyra.ReasonEnvDenied, palyra.LayerTier, "PATH is set by the sandbox",
		},
		"its own HOME": {
			func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "HOME", Value: "/root"}} }, palyra.Denied,
			palyra.ReasonEnvDenied, palyra.LayerTier, "HOME",
		},
		"its own TMPDIR": {
			func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "TMPDIR", Value: "/tmp"}} }, palyra.Denied,
			palyra.ReasonEnvDenied, palyra.LayerTier, "TMPDIR",
		},
		"no name": {
			func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Value: "x"}} }, palyra.Invalid, palyra.ReasonEnvDenied,
			palyra.LayerTier, "cannot be a variable",
		},
		"a name with =": {
			func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "PATH=.:"}} }, palyra.Invalid, palyra.ReasonEnvDenied,
			palyra.LayerTier, "cannot be a variable",
		},
		"a value with NUL": {
			func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "A", Value: "\x00PATH=."}} }, palyra.Invalid,
			palyra.ReasonEnvDenied, palyra.LayerTier, "cannot be a variable",
		},
		"a variable twice": {
			func(p *palyra.Plan) { p.Env = []palyra.EnvVar{{Name: "A"}, {Name: "A", Value: "1"}} }, palyra.Invalid,
			palyra.ReasonEnvDenied, palyra.LayerTier, "cannot be a variable",
		},
		"an impossible uid": {
			func(p *palyra.Plan) { p.Workspace.Owner = 1<<32 - 1 }, palyra.Invalid, palyra.ReasonWorkspaceDenied,
			palyra.LayerTier, "cannot own",
		},
		"a negative uid": {
			func(p *palyra.Plan) { p.Workspace.Owner = -1 }, palyra.Invalid, palyra.ReasonWorkspaceDenied, palyra.LayerTier,
			"cannot own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			c.spoil(&b.plan)
			want(t, "layer", b.refused(c.code, c.reason, c.text).Layer, c.layer)
		})
	}
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
	want(t, "attested", res.Enforcement, palyra.Enforcement{Mode: "strict", Mechanisms: []string{"cell"}, Limits: map[string]palyra.Hold{}})
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
			"before": func(_ *box, cancel func()) { cancel() },
			"at preparing": func(b *box, cancel func()) {
				b.r.Stdin = func(palyra.Plan) ([]byte, error) { cancel(); return nil, nil }
			},
			"at the last moment": func(b *box, cancel func()) {
				b.plan.Terminal, b.size = true, func(palyra.Plan) (int, int) { cancel(); return 0, 0 }
			},
			"at starting": func(b *box, cancel func()) { b.back.onStart = func(Job) { cancel() } },
		} {
			if name == "timed out" && when != "before" {
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
