package palyra_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"palyra"
)

// granted is a grant for a plan with something of everything.
func granted(t *testing.T) palyra.Grant {
	t.Helper()
	c := judgedCall(t)
	c.Plan.Inputs = []palyra.Input{{Path: "a", Digest: palyra.SumBytes([]byte("1"))}}
	c.Plan.Env = []palyra.EnvVar{{Name: "A", Value: "1"}}
	c.Plan.Executable = palyra.Executable{Path: "/bin/sh", Digest: palyra.SumBytes([]byte("sh"))}
	c.Plan.Argv, c.Plan.Cwd = []string{"sh", "-c", "true"}, "/work"
	c.Plan.Workspace = palyra.WorkspaceRef{Path: "/work", Known: true}
	c.Plan.Tier = palyra.TierB
	c.Plan.Enforcement = palyra.Enforcement{
		Mode: "strict", Mechanisms: []string{"cell", "seccomp"},
		Limits: map[string]palyra.Hold{"memory": "polled"},
	}
	var err error
	if c.Digest, err = c.Plan.Digest(); err != nil {
		t.Fatal(err)
	}
	g, err := palyra.NewGrant("G1", c, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestConfirm(t *testing.T) {
	g := granted(t)
	l, err := g.Confirm(g.Plan())
	if err != nil || !l.Valid() || l.Digest() != g.Digest() || l.Call() != g.Call() || l.Grant() != g.ID() ||
		!reflect.DeepEqual(l.Plan(), g.Plan()) {
		t.Errorf("%+v, %v", l, err)
	}
	if err := l.For(&palyra.Call{ID: g.Call()}); err != nil {
		t.Error(err)
	}
	if err := l.For(&palyra.Call{ID: "another"}); palyra.CodeOf(err) != palyra.Denied {
		t.Errorf("for another call: %v", err)
	}
	if err := (palyra.Launch{}).For(&palyra.Call{}); palyra.CodeOf(err) != palyra.Denied {
		t.Errorf("none at all: %v", err)
	}
	if l, err := (palyra.Grant{}).Confirm(g.Plan()); err == nil || l.Valid() {
		t.Error("a launch without a grant")
	}
	bad := g.Plan()
	bad.Arguments = []byte("{")
	if l, err := g.Confirm(bad); err == nil || l.Valid() {
		t.Error("a launch of a plan without a digest")
	}
	typ := reflect.TypeFor[palyra.Launch]()
	for i := range typ.NumField() {
		if typ.Field(i).IsExported() {
			t.Errorf("anyone can set Launch.%s", typ.Field(i).Name)
		}
	}
}

func TestConfirmRefusesAnotherPlan(t *testing.T) {
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
		"a limit's way": {
			func(p *palyra.Plan) { p.Enforcement.Limits = map[string]palyra.Hold{"memory": "cgroup"} },
			": what the tier enforces",
		},
		"egress":    {func(p *palyra.Plan) { p.Egress = []string{"a:1"} }, ": the hosts it may reach"},
		"bindings":  {func(p *palyra.Plan) { p.Bindings = []string{"a"} }, ": the secrets it gets"},
		"mounts":    {func(p *palyra.Plan) { p.Mounts = []palyra.Mount{{Source: "/a"}} }, ": the directories it sees"},
		"writes":    {func(p *palyra.Plan) { p.Writes = []string{"another"} }, ": the files it names"},
		"arguments": {func(p *palyra.Plan) { p.Arguments = []byte(`{"a":1}`) }, "another plan than the one that was judged"},
		"many": {func(p *palyra.Plan) {
			p.Argv, p.Inputs, p.Cwd, p.Stdin, p.Terminal = nil, nil, p.Cwd+"/a", palyra.StdinLive, true
		}, ": a, the program's arguments, the working directory, stdin and 1 more"},
	} {
		t.Run(name, func(t *testing.T) {
			g := granted(t)
			now := g.Plan()
			c.change(&now)
			l, err := g.Confirm(now)
			e := palyra.AsError(err)
			if l.Valid() || e.Code != palyra.Conflict || e.Reason != palyra.ReasonPlanChanged || e.Remedy == "" ||
				!strings.Contains(e.Text, c.text) {
				t.Errorf("%v, %+v", l.Valid(), e)
			}
			if c.text[0] == ':' && !strings.HasPrefix(e.Text, "changed since the plan was judged: ") {
				t.Errorf("%q", e.Text)
			}
		})
	}
}

// Only what the end of the context brought about is said to be its doing.
func TestStopped(t *testing.T) {
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	own := errors.New("disk")
	p := palyra.Plan{Limits: palyra.Limits{WallMS: 7}}
	for name, c := range map[string]struct {
		ctx    context.Context
		err    error
		reason palyra.Reason
	}{
		"running":                {t.Context(), own, palyra.ReasonInternal},
		"failed":                 {over, own, palyra.ReasonInternal},
		"timed out":              {over, fmt.Errorf("read: %w", over.Err()), palyra.ReasonTimedOut},
		"cancelled":              {gone, fmt.Errorf("read: %w", gone.Err()), palyra.ReasonCancelled},
		"failed after a cancel":  {gone, own, palyra.ReasonInternal},
		"another's time is over": {gone, context.DeadlineExceeded, palyra.ReasonInternal},
	} {
		e := palyra.AsError(p.Stopped(c.ctx, c.err))
		if e.Reason != c.reason || c.reason != palyra.ReasonInternal && (e.Code != palyra.Expired || e.Remedy == "") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// A run that others wait for on its layer is told why they do not see its files.
func TestTimedOutOnAStage(t *testing.T) {
	p := palyra.Plan{Limits: palyra.Limits{WallMS: 5}}
	if e := p.TimedOut(); e.Reason != palyra.ReasonTimedOut || strings.Contains(e.Remedy, "--live") {
		t.Errorf("%+v", e)
	}
	p.Staging.Writes = palyra.WritesStaged
	if e := p.TimedOut(); e.Reason != palyra.ReasonTimedOut || !strings.Contains(e.Remedy, "--live") {
		t.Errorf("%+v", e)
	}
}
