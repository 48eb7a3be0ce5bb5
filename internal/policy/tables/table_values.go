package tables

import (
	"path"
	"time"

	"go.yaml.in/yaml/v3"

	"palyra"
	"palyra/internal/policy"
)

// tableRoot is the workspace of tests that name none.
const tableRoot = "/workspace"

// The words of a request that are one of a few.
var (
	tableTiers    = byName(palyra.TierBuiltin, palyra.TierA, palyra.TierB, palyra.TierC, palyra.TierNode, palyra.TierUnsandboxed)
	tableSurfaces = byName(palyra.SurfaceCLI, palyra.SurfaceAPI, palyra.SurfaceMCP, palyra.SurfaceACP, palyra.SurfaceCron,
		palyra.SurfaceHook, palyra.SurfaceRoom)
	tableSources      = byName(palyra.SourceBuiltin, palyra.SourceSkill, palyra.SourceMCP, palyra.SourceAgent)
	tableSeparations  = byName(palyra.SeparationNone, palyra.SeparationPassphrase, palyra.SeparationDevice, palyra.SeparationOtherUID)
	tableCapabilities = byName(palyra.ProcessExec, palyra.Network, palyra.SecretsRead, palyra.FilesystemWrite, palyra.FilesystemRead,
		palyra.ArtifactsRead, palyra.ChannelSend, palyra.Browser, palyra.NodeInvoke, palyra.DevicePair)
	tableRoles      = byName(append(palyra.PeopleRoles(), palyra.RoleAgent, palyra.RoleNode)...)
	tableScopes     = byName(palyra.ScopeOnce, palyra.ScopeSession, palyra.ScopeTimeboxed)
	tableNetworks   = byName(palyra.NetworkStrict, palyra.NetworkPreflight, palyra.NetworkOpen)
	tableWorkspaces = map[string]palyra.WorkspaceRef{
		"known": {Path: tableRoot, Known: true}, "new": {Path: tableRoot}, "none": {},
	}
)

// byName files words under themselves.
func byName[T ~string](words ...T) map[string]T {
	m := make(map[string]T, len(words))
	for _, w := range words {
		m[string(w)] = w
	}
	return m
}

// person reads a principal.
func (r *tableReader) person(n *yaml.Node) palyra.Principal {
	p := palyra.Principal(r.word(n))
	if policy.CheckPrincipal(p) != nil {
		r.fault(n, "must be a principal: user:NAME, agent:NAME, device:NAME or system:NAME")
	}
	return p
}

// standing is what the access registry knows of the caller in a test.
func (d *tableDraft) standing() *palyra.Standing {
	if d.Standing == nil {
		d.Standing = &palyra.Standing{}
	}
	return d.Standing
}

// roles reads the names of roles.
func (r *tableReader) roles(n *yaml.Node) (all []palyra.Role) {
	if r.list(n); n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			all = append(all, pick(r, c, tableRoles))
		}
	}
	return all
}

// moment reads when a call is judged.
func (r *tableReader) moment(n *yaml.Node) time.Time {
	at, err := time.Parse(time.RFC3339, r.word(n))
	if err != nil {
		r.fault(n, "must be a time as 2026-01-31T09:30:00Z, in quotes")
	}
	return at
}

// tool reads a tool: the name of one of Palyra's own, or what another one is.
func (r *tableReader) tool(n *yaml.Node) (t palyra.Tool) {
	if n.Kind == yaml.ScalarNode {
		t, ok := tableTools[palyra.ToolName(n.Value)]
		if !ok {
			r.fault(n, "%q is no tool of Palyra's own; describe it: {name: NAME, source: mcp, capabilities: [...]}", palyra.Clip(n.Value, 64))
		}
		return t
	}
	t.Source, t.Tier = palyra.SourceMCP, palyra.TierBuiltin
	r.fields(n, "tool", []string{"name", "capabilities"}, map[string]func(*yaml.Node){
		"name":   func(n *yaml.Node) { t.Name = palyra.ToolName(r.name(n)) },
		"source": func(n *yaml.Node) { t.Source = pick(r, n, tableSources) },
		"capabilities": func(n *yaml.Node) {
			if r.list(n); n.Kind == yaml.SequenceNode {
				for _, c := range n.Content {
					t.Capabilities = append(t.Capabilities, pick(r, c, tableCapabilities))
				}
			}
		},
		"read_only": func(n *yaml.Node) { t.ReadOnly = r.flag(n) },
		"workspace": func(n *yaml.Node) { t.Workspace = r.flag(n) },
		"tier":      func(n *yaml.Node) { t.Tier = pick(r, n, tableTiers) },
	})
	if _, own := tableTools[t.Name]; own {
		r.fault(n, "%s is Palyra's own tool and cannot be described; write tool: %s", t.Name, t.Name)
	}
	return t
}

// approval reads an answer that was given: by default one vote for this call.
func (r *tableReader) approval(n *yaml.Node) *palyra.ApprovalFacts {
	f := &palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeOnce, Fresh: true}
	r.fields(n, "approval", nil, map[string]func(*yaml.Node){
		"votes":        func(n *yaml.Node) { f.Votes = int(r.number(n, 1, 100)) },
		"other_person": func(n *yaml.Node) { f.OtherPerson = r.flag(n) },
		"device":       func(n *yaml.Node) { f.Device = r.flag(n) },
		"separation":   func(n *yaml.Node) { f.Separation = pick(r, n, tableSeparations) },
		"scope":        func(n *yaml.Node) { f.Scope = pick(r, n, tableScopes) },
		"fresh":        func(n *yaml.Node) { f.Fresh = r.flag(n) },
	})
	return f
}

// effects reads what a run did. What a test leaves out did not happen.
func (r *tableReader) effects(n *yaml.Node) *palyra.EffectFacts {
	f := &palyra.EffectFacts{Share: -1}
	count := func(to *int64) func(*yaml.Node) { return func(n *yaml.Node) { *to = r.number(n, 0, 1<<62) } }
	paths := func(to *[]palyra.PathText) func(*yaml.Node) {
		return func(n *yaml.Node) {
			for _, name := range r.list(n) {
				*to = append(*to, palyra.TextOfPath(name))
			}
		}
	}
	r.fields(n, "effects", nil, map[string]func(*yaml.Node){
		"created": count(&f.Created), "changed": count(&f.Changed), "removed": count(&f.Removed), "mode": count(&f.Mode), "link": count(&f.Link),
		"bytes": count(&f.Bytes), "removed_files": count(&f.RemovedFiles), "executables": count(&f.Executables),
		"never_kept": count(&f.NeverKept),
		"omitted":    count(&f.Omitted), "pushes_out": count(&f.PushesOut), "not_undoable": func(n *yaml.Node) { f.NotUndoable = r.flag(n) },
		"share":   func(n *yaml.Node) { f.Share = r.number(n, -1, 100) },
		"trusted": paths(&f.Trusted), "outward": paths(&f.Outward), "run_by_tools": paths(&f.RunByTools), "uncommitted": paths(&f.Uncommitted),
		"rewound": func(n *yaml.Node) { f.Rewound = r.list(n) },
	})
	return f
}

// executable reads a program: its path, with the digest where that matters.
func (r *tableReader) executable(n *yaml.Node) (e palyra.Executable) {
	if n.Kind == yaml.ScalarNode {
		e.Path = r.word(n)
	} else {
		r.fields(n, "executable", []string{"path"}, map[string]func(*yaml.Node){
			"path":   func(n *yaml.Node) { e.Path = r.word(n) },
			"digest": func(n *yaml.Node) { e.Digest = palyra.Digest(r.word(n)) },
		})
	}
	if !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path {
		r.fault(n, "the path of a program is absolute and clean")
	}
	if e.Digest != "" && !e.Digest.Valid() {
		r.fault(n, "a digest is sha256: and 64 hex digits")
	}
	return e
}

// workspace reads where a call works.
func (r *tableReader) workspace(n *yaml.Node) (w palyra.WorkspaceRef) {
	if n.Kind == yaml.ScalarNode {
		return pick(r, n, tableWorkspaces)
	}
	w.Known = true
	r.fields(n, "workspace", []string{"path"}, map[string]func(*yaml.Node){
		"path":  func(n *yaml.Node) { w.Path = r.word(n) },
		"known": func(n *yaml.Node) { w.Known = r.flag(n) },
	})
	if !path.IsAbs(w.Path) || path.Clean(w.Path) != w.Path {
		r.fault(n, "the path of a workspace is absolute and clean")
	}
	return w
}

// hosts reads host:port entries.
func (r *tableReader) hosts(n *yaml.Node) []string {
	list := r.list(n)
	for i, s := range list {
		if _, err := policy.HostsOf([]string{s}); err != nil {
			r.fault(n.Content[i], "must be host:port")
		}
	}
	return list
}
