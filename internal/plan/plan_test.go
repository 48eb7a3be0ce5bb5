package plan

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"palyra"
)

// place is a Workspaces with one directory.
type place struct{ err error }

func (p place) Resolve(_ context.Context, path string, peer int64) (palyra.WorkspaceRef, error) {
	return palyra.WorkspaceRef{Path: "/real" + path, Owner: peer}, p.err
}

// driver knows two tools.
type driver struct {
	tools map[string]palyra.Tool
	plan  func(c *palyra.Call, p *palyra.Plan) error
}

func (d driver) Tool(name palyra.ToolName) (palyra.Tool, bool) {
	t, ok := d.tools[string(name)]
	return t, ok
}

func (d driver) Plan(_ context.Context, c *palyra.Call, p *palyra.Plan) error {
	if d.plan == nil {
		return nil
	}
	return d.plan(c, p)
}

func tools() driver {
	return driver{tools: map[string]palyra.Tool{
		"w": {
			Name: "w", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, Workspace: true,
			Capabilities: []palyra.Capability{palyra.FilesystemWrite, palyra.FilesystemRead},
		},
		"e": {Name: "e", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, ReadOnly: true},
	}}
}

func resolver(t testing.TB, c Config) *Resolver {
	t.Helper()
	if c.Workspaces == nil {
		c.Workspaces = place{}
	}
	if c.Drivers == nil {
		c.Drivers = []Driver{tools()}
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func call(tool, args string) *palyra.Call {
	return &palyra.Call{ID: "C", Proposal: palyra.Proposal{
		Proposer: palyra.Proposer{PeerUID: 7}, Tool: palyra.ToolName(tool), Arguments: json.RawMessage(args), Workspace: "/w",
	}}
}

func TestResolve(t *testing.T) {
	d := tools()
	d.plan = func(c *palyra.Call, p *palyra.Plan) error {
		p.Writes, p.Detail.Summary = []string{"f"}, string(c.ID)
		return nil
	}
	got, err := resolver(t, Config{Drivers: []Driver{driver{}, d}}).Resolve(t.Context(), call("w", ` {"b": "<x>", "a": 1.50} `))
	want := palyra.Plan{
		Tool: "w", Arguments: json.RawMessage(`{"a":15e-1,"b":"<x>"}`), Capabilities: []palyra.Capability{
			palyra.FilesystemRead,
			palyra.FilesystemWrite,
		},
		Source: palyra.SourceBuiltin, Workspace: palyra.WorkspaceRef{Path: "/real/w", Owner: 7}, Writes: []string{"f"}, Tier: palyra.TierBuiltin,
		Limits: palyra.Limits{WallMS: 120_000, OutputBytes: 1 << 20}, Detail: palyra.Detail{Summary: "C"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A tool without a workspace has none in its plan, whatever the caller names.
func TestResolveWithoutWorkspace(t *testing.T) {
	got, err := resolver(t, Config{Workspaces: place{errors.New("never asked")}}).Resolve(t.Context(), call("e", `{}`))
	if err != nil || got.Workspace != (palyra.WorkspaceRef{}) || !got.ReadOnly {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	denied := palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied, "no")
	d := tools()
	d.plan = func(*palyra.Call, *palyra.Plan) error {
		return palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "gone")
	}
	for _, c := range []struct {
		cfg  Config
		call *palyra.Call
		want palyra.Reason
	}{
		{Config{}, call("none", `{}`), palyra.ReasonUnknownTool},
		{Config{}, call("w", `{"a":1,"a":2}`), palyra.ReasonMalformedInput},
		{Config{}, call("w", ``), palyra.ReasonMalformedInput},
		{Config{Workspaces: place{denied}}, call("w", `{}`), palyra.ReasonWorkspaceDenied},
		{Config{Drivers: []Driver{d}}, call("w", `{}`), palyra.ReasonFileNotFound},
		{
			Config{},
			&palyra.Call{Proposal: palyra.Proposal{Tool: "e", Arguments: json.RawMessage(`{}`), TimeoutMS: -1}},
			palyra.ReasonMalformedInput,
		},
	} {
		got, err := resolver(t, c.cfg).Resolve(t.Context(), c.call)
		if palyra.AsError(err).Reason != c.want || err == nil || got.Tool != "" {
			t.Errorf("%s %s: %+v, %v", c.call.Proposal.Tool, c.call.Proposal.Arguments, got, err)
		}
	}
}

func TestTimeoutOnlyLowers(t *testing.T) {
	r := resolver(t, Config{Wall: 10 * time.Second, OutputBytes: 5})
	for asked, want := range map[int64]int64{0: 10_000, 1: 1, 9_999: 9_999, 10_000: 10_000} {
		c := call("e", `{}`)
		c.Proposal.TimeoutMS = asked
		p, err := r.Resolve(t.Context(), c)
		if err != nil || p.Limits != (palyra.Limits{WallMS: want, OutputBytes: 5}) {
			t.Errorf("%d: %+v, %v", asked, p.Limits, err)
		}
	}
}

// A call that asks for more time than it may have is not given less in silence.
func TestTooLongATimeoutIsRefused(t *testing.T) {
	longer := func(p palyra.Proposal) (time.Duration, string) {
		if p.Session == "agent" {
			return 20 * time.Second, "the.other"
		}
		return time.Second, "unused" // which is less than the usual
	}
	r := resolver(t, Config{Wall: 10 * time.Second, Longer: longer})
	for _, c := range []struct {
		session palyra.SessionID
		asked   int64
		remedy  string
	}{
		{"", 10_001, "at most 10000 ms, or none; an operator can raise tool_call.execution_timeout_ms"},
		{"", 1 << 62, "tool_call.execution_timeout_ms"},
		{"agent", 20_001, "at most 20000 ms, or none; an operator can raise the.other"},
	} {
		call := call("e", `{}`)
		call.Proposal.TimeoutMS, call.Proposal.Session = c.asked, c.session
		_, err := r.Resolve(t.Context(), call)
		if e := palyra.AsError(err); e.Reason != palyra.ReasonMalformedInput || !strings.Contains(e.Remedy, c.remedy) {
			t.Errorf("%s %d: %v, %q", c.session, c.asked, err, e.Remedy)
		}
	}
	agent := call("e", `{}`)
	agent.Proposal.TimeoutMS, agent.Proposal.Session = 20_000, "agent"
	if p, err := r.Resolve(t.Context(), agent); err != nil || p.Limits.WallMS != 20_000 {
		t.Errorf("%+v, %v", p.Limits, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{
		{},
		{Workspaces: place{}},
		{Workspaces: place{}, Drivers: []Driver{driver{}}, Wall: -1},
		{Workspaces: place{}, Drivers: []Driver{driver{}}, Wall: time.Microsecond},
		{Workspaces: place{}, Drivers: []Driver{driver{}}, OutputBytes: -1},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
}

// Property: two spellings of one value give one digest; different values differ.
func TestDigestIsOfTheValue(t *testing.T) {
	r := resolver(t, Config{})
	digest := func(args string) palyra.Digest {
		p, err := r.Resolve(context.Background(), call("e", args))
		if err != nil {
			t.Fatal(args, err)
		}
		d, err := p.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, same := range [][]string{
		{`{"a":1,"b":[true,null]}`, "{ \"b\":[true , null],\n\"a\":1.0}"}, {`{"a":"é"}`, `{"a":"\u00e9"}`}, {`{"a":100}`, `{"a":1e2}`},
	} {
		if digest(same[0]) != digest(same[1]) {
			t.Errorf("%q differ", same)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.MapOf(rapid.StringMatching(`[a-c]`), rapid.OneOf(
			rapid.Map(rapid.Int64(), func(i int64) any { return i }), rapid.Map(rapid.String(), func(s string) any { return s })))
		one, _ := json.Marshal(gen.Draw(t, "one"))
		two, _ := json.Marshal(gen.Draw(t, "two"))
		if same := digest(string(one)) == digest(string(two)); same != slices.Equal(one, two) {
			t.Fatalf("%s and %s: one digest %v", one, two, same)
		}
	})
}

// A credential that is bound to workspaces reaches no other, however the path is
// spelled; what works in none is not bound.
func TestWithin(t *testing.T) {
	r := resolver(t, Config{})
	for _, c := range []struct {
		tool   string
		within []string
		want   palyra.Reason
	}{
		{"w", nil, ""},
		{"w", []string{"/real/w"}, ""},
		{"w", []string{"/other", "/real/w"}, ""},
		{"w", []string{"/other"}, palyra.ReasonScopeDenied},
		{"w", []string{"/w"}, palyra.ReasonScopeDenied}, // as the caller spells it, not as it is
		{"w", []string{"/real"}, ""},                    // a directory of it
		{"w", []string{"/rea"}, palyra.ReasonScopeDenied},
		{"e", []string{"/other"}, ""},
	} {
		x := call(c.tool, `{}`)
		x.Proposal.Within = c.within
		_, err := r.Resolve(t.Context(), x)
		if got := reasonOf(err); got != c.want {
			t.Errorf("%s within %v: %v", c.tool, c.within, err)
		}
	}
}

func reasonOf(err error) palyra.Reason {
	if err == nil {
		return ""
	}
	return palyra.AsError(err).Reason
}
