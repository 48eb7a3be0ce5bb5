package daemon

import (
	"encoding/json"
	"fmt"
	"slices"

	"palyra"
	"palyra/internal/rpc/wire"
)

// settings are changes of the configuration, or of the limits that a call gives
// itself. Whether a program then gets by can only be tried by running it, so none of
// them is verified.
func (p policyPart) settings(c *palyra.Call, reason palyra.Reason, killed string) []wire.Flip {
	conf := p.d.Config.Config
	raise := func(key string, now int64) wire.Flip {
		return unproven(flipLimit, fmt.Sprintf("raise %s in the configuration", key), fmt.Sprintf("%s = %d", key, 2*now))
	}
	switch reason {
	case palyra.ReasonTimedOut:
		return append(p.own(c, "timeout_ms", "its own time limit (--timeout)"), raise("tool_call.execution_timeout_ms", max(conf.ToolCall.ExecutionTimeoutMS, c.Plan.Limits.WallMS)))
	case palyra.ReasonBudgetSpent:
		return []wire.Flip{raise("tool_call.max_calls_per_run", conf.ToolCall.MaxCallsPerRun)}
	case palyra.ReasonTooManyPending:
		return []wire.Flip{raise("approvals.max_pending", conf.Approvals.MaxPending)}
	case palyra.ReasonApprovalExpired:
		return []wire.Flip{raise("approvals.wait_ms", conf.Approvals.WaitMS)}
	case palyra.ReasonRecentlyDenied, palyra.ReasonApprovalDenied:
		return []wire.Flip{unproven(flipConfig, "let a denied plan be asked for again sooner", "approvals.deny_hold_ms = 0")}
	case palyra.ReasonPosture:
		return []wire.Flip{
			unproven(flipMachine, "try the tier out, and mend what that finds", "palyra sandbox doctor"),
			unproven(flipConfig, "do without the proof that the tier holds", `process.posture = "off"`),
		}
	case palyra.ReasonQuotaExceeded:
		return p.quota(c, killed)
	case palyra.ReasonEgressDenied:
		return p.allowed(c)
	}
	return nil
}

func unproven(kind, text, change string) wire.Flip {
	return wire.Flip{Kind: kind, Text: text, Change: change, Becomes: palyra.Allow}
}

// quota raises the limit that ended a run: the call's own where it has one, and the
// configured one.
func (p policyPart) quota(c *palyra.Call, killed string) []wire.Flip {
	l, conf := c.Plan.Limits, p.d.Config.Config.Process
	limit, ok := map[string]struct {
		name      string
		had, most int64
	}{
		"memory":    {"memory_bytes", l.MemoryBytes, conf.MemoryBytes},
		"processes": {"processes", l.Processes, conf.Processes},
		"cpu":       {"cpu_ms", l.CPUMS, conf.CPUMS},
		"file_size": {"file_bytes", l.FileBytes, conf.FileBytes},
		"output":    {"emitted_bytes", l.EmittedBytes, conf.EmittedBytes},
	}[killed]
	if !ok {
		return nil
	}
	out := p.own(c, limit.name, "its own limit limits."+limit.name)
	key := "process." + limit.name
	return append(out, unproven(flipLimit, fmt.Sprintf("raise %s in the configuration", key), fmt.Sprintf("%s = %d", key, 2*max(limit.had, limit.most))))
}

// own leaves out a limit that a call gave itself.
func (p policyPart) own(c *palyra.Call, name, text string) []wire.Flip {
	args, ok := object(c.Proposal.Arguments)
	if !ok {
		return nil
	}
	_, direct := args[name]
	delete(args, name)
	limits, _ := args["limits"].(map[string]any)
	_, nested := limits[name]
	if delete(limits, name); len(limits) == 0 {
		delete(args, "limits")
	}
	if !direct && !nested && (name != "timeout_ms" || c.Proposal.TimeoutMS == 0) {
		return nil
	}
	raw, err := plainJSON(args)
	if err != nil {
		return nil
	}
	return []wire.Flip{unproven(flipLimit, "leave out "+text, string(raw))}
}

// allowed lets the hosts that a call names be asked for, where the configuration
// does not.
func (p policyPart) allowed(c *palyra.Call) []wire.Flip {
	var args struct {
		Egress []string `json:"egress"`
	}
	if err := json.Unmarshal(c.Proposal.Arguments, &args); err != nil {
		return nil
	}
	list := slices.Clone(p.d.Config.Config.Egress.AllowedHosts)
	for _, h := range args.Egress {
		if _, err := p.d.path.native.guard.Check([]string{h}); err != nil && !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	if len(list) == len(p.d.Config.Config.Egress.AllowedHosts) {
		return nil
	}
	raw, err := plainJSON(list)
	if err != nil {
		return nil
	}
	return []wire.Flip{unproven(flipConfig, "let the host be asked for", "egress.allowed_hosts = "+string(raw))}
}
