package tables

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"palyra"
	"palyra/internal/subpath"
)

// tableDraft is a request while its keys are read.
type tableDraft struct {
	*tableReader
	palyra.Request
	script                       *yaml.Node
	argv                         *yaml.Node
	cwd                          *yaml.Node
	placed, networked, ownerless bool
	probed                       *bool
	staged, live                 bool
}

// request reads the call that a test is about. Parts that the test leaves out are as on an ordinary day: the
// local agent at the command line, in a registered workspace, in the tool's own tier, which was tried out and
// guards its network.
func (r *tableReader) request(n *yaml.Node) (palyra.Request, bool) {
	d := &tableDraft{tableReader: r}
	d.Principal, d.Surface, d.Session, d.ownerless = "agent:local", palyra.SurfaceCLI, "test", true
	keys := d.callKeys()
	for name, read := range d.planKeys() {
		keys[name] = read
	}
	before := len(r.faults)
	r.fields(n, "a request", nil, keys)
	if len(r.faults) > before {
		return palyra.Request{}, false
	}
	d.finish(n)
	return d.Request, d.probed == nil || *d.probed
}

// callKeys are the keys about who calls what, and how.
func (d *tableDraft) callKeys() map[string]func(*yaml.Node) {
	return map[string]func(*yaml.Node){
		"principal":   func(n *yaml.Node) { d.Principal = d.person(n) },
		"owner":       func(n *yaml.Node) { d.Owner, d.ownerless = d.person(n), false },
		"tool":        func(n *yaml.Node) { d.Tool = d.tool(n) },
		"surface":     func(n *yaml.Node) { d.Surface = pick(d.tableReader, n, tableSurfaces) },
		"door":        func(n *yaml.Node) { d.Surface = pick(d.tableReader, n, tableSurfaces) },
		"labels":      func(n *yaml.Node) { d.Labels = d.list(n) },
		"roles":       func(n *yaml.Node) { d.standing().Roles = d.roles(n) },
		"owner_roles": func(n *yaml.Node) { d.standing().Owner = d.roles(n) },
		"device_id":   func(n *yaml.Node) { d.standing().Device = d.word(n) },
		"time":        func(n *yaml.Node) { d.At = d.moment(n) },
		"approval":    func(n *yaml.Node) { d.Approval = d.approval(n) },
		"effects":     func(n *yaml.Node) { d.Effects = d.effects(n) },
		"calls_used":  func(n *yaml.Node) { d.CallsUsed = d.number(n, 0, 1<<31) },
		"probed": func(n *yaml.Node) {
			yes := d.flag(n)
			d.probed = &yes
		},
	}
}

// planKeys are the keys about what the call would do.
func (d *tableDraft) planKeys() map[string]func(*yaml.Node) {
	p := &d.Plan
	return map[string]func(*yaml.Node){
		"argv":       func(n *yaml.Node) { d.argv, p.Argv = n, d.list(n) },
		"script":     func(n *yaml.Node) { d.script, p.Argv = n, tableScript(d.word(n)) },
		"executable": func(n *yaml.Node) { p.Executable = d.executable(n) },
		"workspace":  func(n *yaml.Node) { d.placed, p.Workspace = true, d.workspace(n) },
		"cwd":        func(n *yaml.Node) { d.cwd, p.Cwd = n, d.word(n) },
		"env": func(n *yaml.Node) {
			for _, name := range d.list(n) {
				p.Env = append(p.Env, palyra.EnvVar{Name: name})
			}
		},
		"reads":   func(n *yaml.Node) { p.Reads = d.list(n) },
		"writes":  func(n *yaml.Node) { p.Writes = d.list(n) },
		"egress":  func(n *yaml.Node) { p.Egress = d.hosts(n) },
		"secrets": func(n *yaml.Node) { p.Bindings = d.list(n) },
		"tier":    func(n *yaml.Node) { p.Tier = pick(d.tableReader, n, tableTiers) },
		"profile": func(n *yaml.Node) { p.Profile = d.word(n) },
		"asks":    func(n *yaml.Node) { p.Asks = d.flag(n) },
		"network": func(n *yaml.Node) {
			d.networked, p.Enforcement.Mode = true, palyra.NetworkMode(pick(d.tableReader, n, tableNetworks))
		},
		"mechanisms":   func(n *yaml.Node) { p.Enforcement.Mechanisms = d.list(n) },
		"unix_sockets": func(n *yaml.Node) { p.UnixSockets = d.flag(n) },
		"removes":      func(n *yaml.Node) { p.Removes = d.list(n) },
		"staged":       func(n *yaml.Node) { d.staged = d.flag(n) },
		"live_asked":   func(n *yaml.Node) { d.live = d.flag(n) },
		"stdin_live": func(n *yaml.Node) {
			if d.flag(n) {
				p.Stdin = palyra.StdinLive
			}
		},
	}
}

// tableScript is how the tool gives a script to the shell: it cannot pass for an option.
func tableScript(text string) []string {
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		text = "\n" + text
	}
	return []string{"/bin/sh", "-c", text}
}

// promise says of each secret what its binding would: where the test does not, it is called as the binding, and for everyone.
func (d *tableDraft) promise() {
	for _, name := range d.Plan.Bindings {
		said := func(m string) bool { return strings.HasPrefix(m, "binding:"+name+":") }
		if !slices.ContainsFunc(d.Plan.Enforcement.Mechanisms, said) {
			d.Plan.Enforcement.Mechanisms = append(d.Plan.Enforcement.Mechanisms, "binding:"+name+":header:::global/"+name+"::")
		}
	}
}

// finish works out the parts that the keys leave open, as planning would.
func (d *tableDraft) finish(n *yaml.Node) {
	p := &d.Plan
	switch {
	case d.argv != nil && d.script != nil:
		d.fault(d.script, "give argv or script, not both")
	case d.argv != nil && len(p.Argv) == 0:
		d.fault(d.argv, "argv needs at least the program")
	case d.script != nil && strings.HasPrefix(p.Argv[2], "#!"):
		d.fault(d.script, "a script is for sh; give another interpreter as argv")
	}
	d.promise()
	if d.Tool.Name == "" && len(p.Argv) > 0 {
		d.Tool = tableTools[processTool]
	}
	if d.Tool.Name == "" {
		d.fault(n, "a request needs a tool, argv or script")
		return
	}
	if len(p.Argv) > 0 && !slices.Contains(d.Tool.Capabilities, palyra.ProcessExec) {
		d.fault(n, "%s runs no program, so it has no argv", d.Tool.Name)
	}
	if d.ownerless && (d.Principal.Kind() == "agent" || d.Principal.Kind() == "device") {
		d.Owner = "user:owner"
	}
	d.place()
	d.room()
	d.program()
}

// place fills in where the call works.
func (d *tableDraft) place() {
	p := &d.Plan
	if !d.placed && d.Tool.Workspace {
		p.Workspace = tableWorkspaces["known"]
	}
	root := p.Workspace.Path
	if d.cwd == nil {
		p.Cwd = root
		return
	}
	if !path.IsAbs(p.Cwd) {
		p.Cwd = path.Join(root, p.Cwd)
	}
	if p.Cwd = path.Clean(p.Cwd); !subpath.Within(root, p.Cwd) {
		d.fault(d.cwd, "a call works below its workspace, and nowhere else")
	}
}

// room fills in what the tool and its tier bring with them.
func (d *tableDraft) room() {
	p := &d.Plan
	p.Tool, p.Source, p.ReadOnly = d.Tool.Name, d.Tool.Source, d.Tool.ReadOnly
	p.Capabilities = slices.Clone(d.Tool.Capabilities)
	if len(p.Egress) > 0 && !slices.Contains(p.Capabilities, palyra.Network) {
		p.Capabilities = append(p.Capabilities, palyra.Network)
	}
	if p.Tier == "" {
		p.Tier = d.Tool.Tier
	}
	confined := p.Tier == palyra.TierB || p.Tier == palyra.TierC
	if confined && !d.networked {
		p.Enforcement.Mode = palyra.NetworkStrict
	}
	if d.probed == nil {
		d.probed = &confined
	}
	d.stage()
}

// stage has a program write to a layer of its own where the test says so, or says what such a run did, or directly
// because its caller wants that. Only programs in
// tier C can have one.
func (d *tableDraft) stage() {
	p := &d.Plan
	can := p.Tier == palyra.TierC && slices.Contains(p.Capabilities, palyra.ProcessExec)
	switch {
	case p.Background():
		p.Staging = palyra.Staging{Writes: palyra.WritesLive, Why: palyra.LiveBackground}
	case can && (d.staged || d.Effects != nil):
		p.Staging = palyra.Staging{Writes: palyra.WritesStaged}
	case can && d.live:
		p.Staging = palyra.Staging{Writes: palyra.WritesLive, Why: palyra.LiveAsked}
	}
}

// program fills in the program that argv calls.
func (d *tableDraft) program() {
	p := &d.Plan
	name := p.Executable.Path
	if name == "" && len(p.Argv) > 0 {
		name = p.Argv[0]
	}
	switch {
	case name == "":
		return
	case path.IsAbs(name):
		name = path.Clean(name)
	case strings.Contains(name, "/"):
		name = path.Join(p.Cwd, name)
	default:
		name = path.Join("/usr/bin", name)
	}
	if p.Executable.Path = name; p.Executable.Digest == "" {
		p.Executable.Digest = palyra.SumBytes([]byte(name))
	}
}
