package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/dotenv"
	"palyra/internal/rpc/wire"
)

// setting is a value of the configuration and another value to try.
type setting struct {
	kind, text string
	uses       []string // as the configuration has it
	set        func(*config.Config)
	open       string // why it cannot be tried without running the call; empty: it can
}

// Why a change could not be tried.
const (
	openRun   = "only a run shows whether that is enough"
	openTime  = "nobody knows how soon somebody answers"
	openProbe = "what the probes find shows only when they run"
	openStart = "how limits are held shows only when the daemon has started with it"
	openArgs  = "the arguments of a call that was never admitted, or that are large, are not kept, so it cannot be planned again"
	openName  = "only a lookup shows where the name leads"
	openReach = "what is there is not for you to see yet"
	openLook  = "a tool that is not offered cannot be planned, and a person looks at it first"
)

// settings are changes of the configuration. Each was tried: the call was planned and judged as a daemon with
// that setting would, and a setting that does not help is not named. Where only a run decides, it is said
// that the change could not be tried.
func (p *Explainer) settings(ctx context.Context, c *palyra.Call, reason palyra.Reason, killed string) []wire.Flip {
	var out []wire.Flip
	for _, s := range p.relevantSettings(ctx, c, reason, killed) {
		if ctx.Err() != nil {
			return out
		}
		if f, ok := p.trySetting(ctx, c, s); ok {
			out = append(out, f)
		}
	}
	return out
}

// trySetting plans and judges a call under another setting.
func (p *Explainer) trySetting(ctx context.Context, c *palyra.Call, s setting) (wire.Flip, bool) {
	conf := p.Settings
	s.set(&conf)
	if !conf.Fits() { // no daemon starts with such a configuration
		return wire.Flip{}, false
	}
	f := wire.Flip{Kind: s.kind, Text: s.text, Change: strings.Join(s.uses, "\n"), Verified: true}
	w, err := p.With(conf)
	if err != nil {
		return f, false
	}
	again := palyra.Call{Proposal: c.Proposal}
	switch err := w.PlanCall(ctx, &again); {
	case err != nil && c.ID != "" && (c.Tool.Name == "" || string(c.Proposal.Arguments) == "null"): // on record without its arguments
		f.Becomes, s.open = palyra.Allow, openArgs
	case err != nil:
		return f, false
	default:
		f.Becomes = w.Policy.Judge(ctx, palyra.RequestOf(&again)).Effect
	}
	return untried(f, s.open), f.Becomes != palyra.Deny
}

// untried adds to a change the reason why it was not tried, if there is one.
func untried(f wire.Flip, why string) wire.Flip {
	if why != "" {
		f.Verified, f.Text = false, f.Text+"; not tried: "+why
	}
	return f
}

// relevantSettings are the settings that may stand behind a refusal.
func (p *Explainer) relevantSettings(ctx context.Context, c *palyra.Call, reason palyra.Reason, killed string) []setting {
	conf := p.Settings
	switch reason {
	case palyra.ReasonTimedOut:
		had := max(conf.ToolCall.ExecutionTimeoutMS, c.Plan.Limits.WallMS)
		return raised(openRun, "tool_call.execution_timeout_ms", 2*had, func(c *config.Config, n int64) { c.ToolCall.ExecutionTimeoutMS = n })
	case palyra.ReasonQuotaExceeded:
		return append(raiseQuota(conf.Process, c.Plan.Limits, killed), raiseStageLimit(conf.Process, killed)...)
	case palyra.ReasonBudgetSpent:
		if c.Proposal.CallsMax != 0 && c.Proposal.CallsMax < conf.ToolCall.MaxCallsPerRun {
			return nil // the run's own limit is lower
		}
		return raised("", "tool_call.max_calls_per_run", 2*conf.ToolCall.MaxCallsPerRun,
			func(c *config.Config, n int64) { c.ToolCall.MaxCallsPerRun = n })
	case palyra.ReasonTooManyPending:
		return p.morePending(ctx, conf)
	case palyra.ReasonQuestionBytes:
		return raised("", "approvals.daily_bytes", 16*conf.Approvals.DailyBytes, func(c *config.Config, n int64) { c.Approvals.DailyBytes = n })
	case palyra.ReasonApprovalExpired:
		return raised(openTime, "approvals.wait_ms", 2*conf.Approvals.WaitMS, func(c *config.Config, n int64) { c.Approvals.WaitMS = n })
	case palyra.ReasonPosture:
		return []setting{{
			kind: flipConfig, text: "do without the proof that the tier holds", uses: []string{`process.posture = "off"`},
			set: func(c *config.Config) { c.Process.Posture = "off" },
		}}
	case palyra.ReasonWeakEnforcement:
		return append(heldLimits(conf.Process), showValues(c.Plan)...)
	case palyra.ReasonDisabled:
		return []setting{{
			kind: flipConfig, text: "let programs be run", uses: []string{`process.tier = "c"`},
			set: func(c *config.Config) { c.Process.Tier = "c" },
		}}
	case palyra.ReasonMalformedInput:
		return raiseDemanded(conf, c.Proposal)
	case palyra.ReasonEgressDenied:
		return hostSettings(conf.Egress, named(c.Proposal))
	}
	return nil
}

// showValues has the values of files like .env shown in a workspace where they cannot be masked for a run.
func showValues(p palyra.Plan) []setting {
	if !slices.Contains(p.Enforcement.Mechanisms, dotenv.Mechanism) {
		return nil
	}
	at := p.Workspace.Path
	return []setting{{
		kind: flipConfig, text: "show the secret values of files like .env to programs and agents in this workspace",
		uses: []string{fmt.Sprintf("dotenv.unmasked = [%q]", at)}, open: openRun,
		set: func(c *config.Config) { c.Dotenv.Unmasked = append(slices.Clone(c.Dotenv.Unmasked), at) },
	}}
}

// raised is a limit with another value.
func raised(open, key string, value int64, set func(*config.Config, int64)) []setting {
	return []setting{{
		kind: flipLimit, text: fmt.Sprintf("raise %s in the configuration", key), uses: []string{fmt.Sprintf("%s = %d", key, value)},
		set: func(c *config.Config) { set(c, value) }, open: open,
	}}
}

// limits are those of programs that a call may lower: their names as the end of a run, in arguments and in
// settings.
var limits = []struct {
	kill, name string
	of         func(*config.Process) *int64
	had        func(palyra.Limits) int64
}{
	{"memory", "memory_bytes", func(c *config.Process) *int64 { return &c.MemoryBytes }, func(l palyra.Limits) int64 { return l.MemoryBytes }},
	{"processes", "processes", func(c *config.Process) *int64 { return &c.Processes }, func(l palyra.Limits) int64 { return l.Processes }},
	{"cpu", "cpu_ms", func(c *config.Process) *int64 { return &c.CPUMS }, func(l palyra.Limits) int64 { return l.CPUMS }},
	{"file_size", "file_bytes", func(c *config.Process) *int64 { return &c.FileBytes }, func(l palyra.Limits) int64 { return l.FileBytes }},
	{
		"output", "emitted_bytes", func(c *config.Process) *int64 { return &c.EmittedBytes },
		func(l palyra.Limits) int64 { return l.EmittedBytes },
	},
	{"disk", "disk_bytes", func(c *config.Process) *int64 { return &c.DiskBytes }, func(l palyra.Limits) int64 { return l.DiskBytes }},
	{"", "open_files", func(c *config.Process) *int64 { return &c.OpenFiles }, func(l palyra.Limits) int64 { return l.OpenFiles }},
}

// raiseQuota raises the configured limit that ended a run.
func raiseQuota(now config.Process, had palyra.Limits, killed string) []setting {
	for _, l := range limits {
		if killed != "" && l.kill == killed {
			value := 2 * max(l.had(had), *l.of(&now))
			return raised(openRun, "process."+l.name, value, func(c *config.Config, n int64) { *l.of(&c.Process) = n })
		}
	}
	return nil
}

// raiseStageLimit raises the limit of a stage that ended a run.
func raiseStageLimit(now config.Process, killed string) []setting {
	switch killed {
	case "stage_bytes":
		return raised(openRun, "process.stage_bytes", 2*now.StageBytes, func(c *config.Config, n int64) { c.Process.StageBytes = n })
	case "stage_names":
		return raised(openRun, "process.stage_names", 2*now.StageNames, func(c *config.Config, n int64) { c.Process.StageNames = n })
	case "all_stages_bytes":
		return raised(openRun, "process.all_stages_bytes", 2*now.AllStages, func(c *config.Config, n int64) { c.Process.AllStages = n })
	}
	return nil
}

// raiseDemanded raises each limit that a call asks more than, to just what it asks for.
func raiseDemanded(conf config.Config, p palyra.Proposal) []setting {
	var args struct {
		Limits  map[string]json.Number `json:"limits"`
		Timeout json.Number            `json:"timeout_ms"`
	}
	if err := json.Unmarshal(p.Arguments, &args); err != nil {
		return nil
	}
	all := setting{kind: flipLimit}
	add := func(key string, n int64, set func(*config.Config)) {
		before := all.set
		all.uses = append(all.uses, fmt.Sprintf("%s = %d", key, n))
		all.set = func(c *config.Config) {
			if set(c); before != nil {
				before(c)
			}
		}
	}
	for _, l := range limits {
		if n, err := args.Limits[l.name].Int64(); err == nil && n > *l.of(&conf.Process) {
			add("process."+l.name, n, func(c *config.Config) { *l.of(&c.Process) = n })
		}
	}
	wall, _ := args.Timeout.Int64()
	if wall = max(wall, p.TimeoutMS); wall > conf.ToolCall.ExecutionTimeoutMS {
		add("tool_call.execution_timeout_ms", wall, func(c *config.Config) { c.ToolCall.ExecutionTimeoutMS = wall })
	}
	if all.set == nil {
		return nil
	}
	all.text = "raise what the call asks more of than there is"
	return []setting{all}
}

// morePending allows one more open question than there are now.
func (p *Explainer) morePending(ctx context.Context, conf config.Config) []setting {
	open, err := p.Desk.CountPending(ctx)
	if err != nil {
		return nil
	}
	return raised("", "approvals.max_pending", 2*max(conf.Approvals.MaxPending, open),
		func(c *config.Config, n int64) { c.Approvals.MaxPending = n })
}

// heldLimits lets the kernel hold limits, where that is switched off.
func heldLimits(now config.Process) []setting {
	if now.Cgroup != "off" {
		return nil
	}
	return []setting{{
		kind: flipConfig, text: "let the kernel hold the limits of programs", uses: []string{`process.cgroup = "auto"`},
		set: func(c *config.Config) { c.Process.Cgroup = "auto" }, open: openStart,
	}}
}
