package config

import (
	"fmt"
	"net/netip"

	"palyra"
)

// Snapshot is the security configuration as it is kept with every call.
func (c Config) Snapshot() palyra.Snapshot {
	return palyra.Snapshot{
		AllowedTools: c.Tools.Allowed, Principals: c.Tools.Principals, Channels: c.Tools.Surfaces,
		MaxCallsPerRun: c.ToolCall.MaxCallsPerRun, TimeoutMS: c.ToolCall.ExecutionTimeoutMS, OutputBytes: c.ToolCall.OutputBytes,
		ApprovalWaitMS: c.Approvals.WaitMS, MaxPending: c.Approvals.MaxPending, DenyHoldMS: c.Approvals.DenyHoldMS,
		RunTimeoutMS: c.ToolCall.RunTimeoutMS, RunOutputBytes: c.ToolCall.RunOutputBytes, ParallelCalls: c.ToolCall.ParallelCalls,
		ProcessRunner: c.Process.snapshot(c.Egress, c.Groups, c.Dotenv), WasmRuntime: map[string]any{"enabled": false},
	}
}

// snapshot is the part about programs.
func (p Process) snapshot(e Egress, groups map[string]*[]string, files Dotenv) map[string]any {
	out := map[string]any{
		"enabled": p.Tier != "off", "tier": p.Tier, "egress_mode": e.Mode, "allowed_egress_hosts": e.AllowedHosts, "egress": e.snapshot(),
		"cpu_ms": p.CPUMS, "memory_bytes": p.MemoryBytes, "processes": p.Processes, "open_files": p.OpenFiles,
		"file_bytes": p.FileBytes, "emitted_bytes": p.EmittedBytes, "disk_bytes": p.DiskBytes,
		"stage_bytes": p.StageBytes, "stage_names": p.StageNames, "grace_ms": p.GraceMS, "cgroup": p.Cgroup,
		"bwrap": p.Bwrap, "tmp_bytes": p.TmpBytes, "posture": p.Posture,
	}
	if len(groups) > 0 { // as below
		lists := map[string]any{}
		for name, hosts := range groups {
			lists[name] = *hosts
		}
		out["host_groups"] = lists
	}
	if files.Mask == "off" || len(files.Unmasked)+len(files.Names) > 0 { // left out otherwise: as below
		out["dotenv"] = map[string]any{"mask": files.Mask, "unmasked": files.Unmasked, "names": files.Names}
	}
	if p.Stage == "all" { // left out otherwise: snapshots from before it have the same digest
		out["stage"] = p.Stage
	}
	if p.Unproven != "" && p.Unproven != "off" { // left out otherwise: snapshots from before it have the same digest
		out["unproven"] = p.Unproven
	}
	return out
}

// snapshot is the part about the way out.
func (e Egress) snapshot() map[string]any {
	return map[string]any{
		"mode": e.Mode, "allowed_hosts": e.AllowedHosts, "private_ranges": e.PrivateRanges, "host_network": e.HostNetwork, "ask": e.Ask,
		"wildcard_names": e.WildcardNames, "resolver": e.Resolver, "upstream": e.Upstream,
	}
}

// Prefixes are the private ranges that may be reached by name.
func (e Egress) Prefixes() (out []netip.Prefix, _ error) {
	for _, r := range e.PrivateRanges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			return nil, fmt.Errorf("config: egress.private_ranges: %w", err)
		}
		out = append(out, prefix)
	}
	return out, nil
}
