//go:build linux

package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/client/bundle"
)

// refusal is a way to be refused, and the kind of change that must undo it.
type refusal struct {
	name    string
	env     []string
	preset  string
	rule    string
	known   bool // the workspace is registered
	call    func(*daemon) client.CallRequest
	provoke func(*daemon, client.CallRequest) palyra.Outcome // nil: it is proposed, with a person who says yes
	layer   palyra.Layer
	reason  palyra.Reason
	flip    string
	open    bool                                             // the change cannot be tried without doing it
	again   func(*daemon, client.CallRequest) palyra.Outcome // nil: as at first
}

// refusals are all that can be turned: policy, plan, tier and limits here, people,
// grants and the rest in policy_turn_more_test.go.
var refusals = slices.Concat(byPolicy, byPlan, byLimit, byPeople, byGrant, byEgress, byOthers)

func shellIn(tier string, more map[string]any, line string) func(*daemon) client.CallRequest {
	return func(d *daemon) client.CallRequest {
		all := map[string]any{"command": "/bin/sh", "args": []string{"-c", line}, "tier": tier}
		maps.Copy(all, more)
		raw, _ := json.Marshal(all)
		return client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
	}
}

func limited(name string, value int64) map[string]any {
	return map[string]any{"limits": map[string]any{name: value}}
}

func writes(d *daemon) client.CallRequest { return write(d.work, "a.txt", "x") }

func writesMuch(d *daemon) client.CallRequest {
	return write(d.work, "a.txt", strings.Repeat("x", 2<<20))
}

func echoes(*daemon) client.CallRequest { return echo("x") }

var byPolicy = []refusal{
	{
		name: "nothing permits", preset: "readonly", known: true, call: writes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "policy",
	},
	{
		name: "a new workspace", preset: "ci", call: writes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "workspace",
	},
	{
		name: "a forbid", rule: `@id("no-echo") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo");`,
		call:  echoes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "policy",
	},
	{
		name: "a policy that fails",
		rule: `@id("sum") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo") when { context.input_bytes + 9223372036854775807 > 0 };`, call: echoes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyError, flip: "policy",
	},
	{
		name: "not on the list", env: []string{"PALYRA_TOOLS_ALLOWED=palyra.fs.*"}, call: echoes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "config",
	},
	{
		name: "a caller that may not", env: []string{"PALYRA_TOOLS_TOOL_EXECUTE_PRINCIPALS=user:ann"}, call: echoes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "config",
	},
	{
		name: "a surface that is closed", env: []string{"PALYRA_TOOLS_TOOL_EXECUTE_SURFACES=mcp"}, call: echoes,
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "config",
	},
	{
		name: "a shell", preset: "strict", known: true, call: shellIn("c", nil, "ls -la"),
		layer: palyra.LayerPolicy, reason: palyra.ReasonPolicyDenied, flip: "arguments",
	},
}

var byPlan = []refusal{
	{
		name: "a script in tier b", known: true, layer: palyra.LayerPlan, reason: palyra.ReasonTierUnavailable, flip: "tier",
		call: func(d *daemon) client.CallRequest {
			raw, _ := json.Marshal(map[string]any{"script": "ls", "tier": "b"})
			return client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
		},
	},
	{
		name: "a tier without its program", env: []string{"PALYRA_PROCESS_BWRAP=/nowhere/bwrap"}, known: true, call: shellIn("c", nil, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonTierUnavailable, flip: "tier",
	},
	{
		name: "a tier that was not tried out", env: []string{"PALYRA_PROCESS_POSTURE=require"}, known: true, call: shellIn("b", nil, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonPosture, flip: "config",
	},
	{
		name: "no programs at all", env: []string{"PALYRA_PROCESS_TIER=off"}, known: true, call: shellIn("b", nil, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonDisabled, flip: "config",
	},
	{
		name: "limits that nobody holds", env: []string{"PALYRA_PROCESS_CGROUP=off"}, known: true,
		call:  shellIn("b", map[string]any{"require_limits": true}, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonWeakEnforcement, flip: "limit",
	},
	{
		name: "a variable that meddles", known: true, call: shellIn("b", map[string]any{"env": map[string]string{"LD_PRELOAD": "x"}}, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonEnvDenied, flip: "arguments",
	},
	{
		name: "instructions while it runs", known: true, layer: palyra.LayerPlan, reason: palyra.ReasonStdinDenied, flip: "arguments",
		call: func(d *daemon) client.CallRequest { // with nothing to read the shell ends at once
			raw, _ := json.Marshal(map[string]any{"command": "/bin/sh", "stdin_live": true, "tier": "b"})
			return client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
		},
	},
	{
		name: "a profile that is not there", known: true, call: shellIn("c", map[string]any{"profile": "moon"}, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonBadProfile, flip: "arguments",
	},
	{
		name: "more memory than there is", known: true, call: shellIn("b", limited("memory_bytes", 1<<40), "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonMalformedInput, flip: "limit",
	},
	{
		name: "more time than there is", env: []string{"PALYRA_TOOL_CALL_EXECUTION_TIMEOUT_MS=1000"}, layer: palyra.LayerPlan,
		reason: palyra.ReasonMalformedInput, flip: "limit",
		call: func(*daemon) client.CallRequest {
			r := echo("x")
			r.Timeout = 5 * time.Second
			return r
		},
	},
	{
		name: "more calls than there are", env: []string{"PALYRA_TOOL_CALL_MAX_CALLS_PER_RUN=1"}, call: echoes, provoke: inARun, again: inARun,
		layer: palyra.LayerCatalog, reason: palyra.ReasonBudgetSpent, flip: "limit", open: true,
	},
	{
		name: "a workspace out of reach", known: true, call: writes, provoke: boundElsewhere,
		layer: palyra.LayerPlan, reason: palyra.ReasonScopeDenied, flip: "access",
	},
}

// oneLimit is a run that goes over a limit of its own. No trial shows that it does
// not without.
func oneLimit(kind, name string, value int64, line string) refusal {
	return refusal{
		name: "its own " + kind, known: true, call: shellIn("b", limited(name, value), line),
		layer: palyra.LayerLimit, reason: palyra.ReasonQuotaExceeded, flip: "limit", open: true,
	}
}

var byLimit = []refusal{
	{
		name: "a time limit", known: true, call: shellIn("b", map[string]any{"timeout_ms": 300}, "sleep 1"),
		layer: palyra.LayerLimit, reason: palyra.ReasonTimedOut, flip: "limit", open: true,
	},
	{
		name: "a configured time limit", env: []string{"PALYRA_TOOL_CALL_EXECUTION_TIMEOUT_MS=1500"}, known: true,
		call:  shellIn("b", nil, "sleep 1.6"),
		layer: palyra.LayerLimit, reason: palyra.ReasonTimedOut, flip: "limit", open: true,
	},
	oneLimit("output", "emitted_bytes", 4096, "head -c 100000 /dev/zero"),
	oneLimit("memory", "memory_bytes", 64<<20, `exec python3 -c "import time; x = bytearray(200 << 20); time.sleep(0.6)"`),
	oneLimit("processes", "processes", 8, "for i in $(seq 40); do sleep 0.6 & done; wait"),
	oneLimit("processor", "cpu_ms", 100, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"),
	oneLimit("file", "file_bytes", 4096, "exec head -c 100000 /dev/zero > big"),
	oneLimit("disk", "disk_bytes", 4<<20, "for i in 1 2 3 4 5 6; do head -c 4000000 /dev/zero > big; sleep 0.1; done"),
	{
		name: "a configured limit", env: []string{"PALYRA_PROCESS_EMITTED_BYTES=4096"}, known: true,
		call:  shellIn("b", nil, "head -c 6000 /dev/zero"),
		layer: palyra.LayerLimit, reason: palyra.ReasonQuotaExceeded, flip: "limit", open: true,
	},
}

// Whatever refuses a call: why says so in the words of the refusal, and what it
// says would turn it, done as it says, turns it.
func TestEveryRefusalCanBeTurned(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.turn(t)
		})
	}
}

func (c refusal) prepared(t *testing.T) *daemon {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(c.env...)
	person := d.client(client.OperatorDoor)
	if c.known {
		if _, err := person.AddWorkspace(t.Context(), d.work, ""); err != nil {
			t.Fatal(err)
		}
	}
	if c.preset == "" && c.rule == "" {
		return d
	}
	preset := c.preset
	if preset == "" {
		preset = "ask"
	}
	files, err := bundle.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	if c.rule != "" {
		files["own.cedar"] = c.rule
	}
	if _, _, err := person.ApplyPolicy(t.Context(), files, false); err != nil {
		t.Fatal(err)
	}
	return d
}

func (c refusal) turn(t *testing.T) {
	d := c.prepared(t)
	r := c.call(d)
	propose := (*daemon).willing
	if c.provoke != nil {
		propose = c.provoke
	}
	out := propose(d, r)
	if out.Layer != c.layer || out.ReasonCode != c.reason {
		t.Fatalf("%s %s: %s\n%s", out.Layer, out.ReasonCode, out.Reason, d.log)
	}
	w := d.why(string(out.CallID))
	if w.Layer != out.Layer || w.ReasonCode != out.ReasonCode || w.Reason != out.Reason || w.Remedy != out.Remedy || w.Remedy == "" {
		t.Errorf("refused with %s %s\n%s\n%s\nand explained with %s %s\n%s\n%s",
			out.Layer, out.ReasonCode, out.Reason, out.Remedy, w.Layer, w.ReasonCode, w.Reason, w.Remedy)
	}
	i := slices.IndexFunc(w.Flips, func(f client.Flip) bool { return f.Kind == c.flip })
	if i < 0 {
		t.Fatalf("no change of kind %s: %+v", c.flip, w.Flips)
	}
	f := w.Flips[i]
	if f.Verified == c.open || c.open && !saysWhy(f.Text) {
		t.Errorf("tried: %v, %+v", f.Verified, f)
	}
	again := d.obey(f, r)
	again.NoWait = false
	if propose = (*daemon).willing; c.again != nil {
		propose = c.again
	}
	if out := propose(d, again); out.Outcome != palyra.OutcomeFinished || out.Layer != "" || out.ExitCode != 0 {
		t.Errorf("after %+v: %s %s %s %s %d %s", f, out.Outcome, out.Layer, out.ReasonCode, out.Reason, out.ExitCode, out.Stderr)
	}
}
