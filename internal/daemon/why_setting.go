package daemon

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/egress"
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
		return hostSettings(conf.Egress, c.Proposal)
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

// hostSettings let the hosts that a call names be asked for, where the
// configuration does not: the smallest change under which the guard takes them.
func hostSettings(now config.Egress, p palyra.Proposal) []wire.Flip {
	var args struct {
		Egress []string `json:"egress"`
	}
	if err := json.Unmarshal(p.Arguments, &args); err != nil {
		return nil
	}
	refused := slices.DeleteFunc(args.Egress, func(h string) bool { return takes(now, []string{h}) })
	if len(refused) == 0 {
		return nil
	}
	hosts, ranges := now, now
	hosts.AllowedHosts = slices.Concat(now.AllowedHosts, refused)
	ranges.PrivateRanges = slices.Concat(now.PrivateRanges, []string{loopback})
	both := hosts
	both.PrivateRanges = ranges.PrivateRanges
	tries := []config.Egress{ranges, hosts, both}
	if len(now.AllowedHosts) == 0 { // a list would refuse every other host
		tries = tries[:1]
	}
	for _, one := range tries {
		if takes(one, refused) {
			return reached(now, one)
		}
	}
	return nil
}

// loopback is where names of this machine lead.
const loopback = "127.0.0.0/8"

// takes reports whether a guard with these settings lets plans name the hosts.
func takes(c config.Egress, hosts []string) bool {
	conf := egress.Config{Mode: c.Mode, Allowed: c.AllowedHosts, HostNetwork: c.HostNetwork == "on"}
	for _, r := range c.PrivateRanges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			return false
		}
		conf.PrivateRanges = append(conf.PrivateRanges, prefix)
	}
	g, err := egress.New(conf)
	if err != nil {
		return false
	}
	_, err = g.Check(hosts)
	return err == nil
}

// reached is the change from one configuration to another.
func reached(now, then config.Egress) []wire.Flip {
	var texts, uses []string
	for _, one := range []struct {
		key, text string
		had, has  []string
	}{
		{"egress.private_ranges", "let addresses of this machine be reached by name", now.PrivateRanges, then.PrivateRanges},
		{"egress.allowed_hosts", "let the host be asked for", now.AllowedHosts, then.AllowedHosts},
	} {
		if len(one.has) == len(one.had) {
			continue
		}
		raw, err := plainJSON(one.has)
		if err != nil {
			return nil
		}
		texts, uses = append(texts, one.text), append(uses, one.key+" = "+string(raw))
	}
	return []wire.Flip{unproven(flipConfig, strings.Join(texts, ", and "), strings.Join(uses, "\n"))}
}
