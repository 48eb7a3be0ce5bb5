package question

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"palyra"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// process prints the command, argument by argument, in full.
func (v *View) process() {
	p := v.Approval.Plan
	switch {
	case p.Executable.Path != "" && v.Short && !p.Executable.Sealed:
		v.programShort()
	case p.Executable.Path != "":
		v.put("Program", show.Arg(p.Executable.Path)+Readable(p.Executable.Path))
		if !v.Short {
			v.digest("", p.Executable.Digest)
		}
		if p.Executable.Sealed {
			v.put("", "sealed copy: the command could change this file, so a copy that nothing can change is run")
		}
	}
	if v.Short {
		v.command()
	} else {
		for i, arg := range p.Argv {
			v.put("Argument "+strconv.Itoa(i), show.Arg(arg)+Readable(arg))
		}
		v.script()
	}
	if !v.Short || p.Cwd != p.Workspace.Path {
		v.list("Directory", nonEmpty(p.Cwd))
	}
	if v.Short {
		v.variablesShort()
	} else {
		v.variables(p.Env)
	}
	v.stdin()
	if p.Terminal {
		v.put("Terminal", "one of its own")
	}
	v.inputs()
}

// inputs prints the files that a plan binds, with their digests.
func (v *View) inputs() {
	if v.Short {
		v.inputsShort()
		return
	}
	label := "Input file"
	for _, in := range v.Approval.Plan.Inputs {
		digest := string(in.Digest)
		digest = cmp.Or(digest, "does not exist")
		v.put(label, show.Arg(in.Path)+Readable(in.Path)+"  "+show.Line(digest))
		label = ""
	}
}

// variables prints the environment; of a secret only its name.
func (v *View) variables(env []palyra.EnvVar) {
	label := "Environment"
	if v.Short {
		env = gravestFirst(env, variableKind)
	}
	for _, e := range env {
		name := pinched(show.Arg(e.Name), briefValue)
		value, brief := show.Arg(e.Name)+"="+show.Arg(e.Value)+Readable(e.Value), name+"="+pinched(show.Arg(e.Value), briefValue)
		if e.Secret {
			value, brief = show.Arg(e.Name)+" (secret, "+show.Line(string(e.Digest))+")", name+" (secret)"
		}
		v.emit(part{label: label, texts: []string{value}, briefs: []string{brief}})
		label = ""
	}
}

// environment lists every text of a plan's environment.
func environment(p palyra.Plan) []string {
	var out []string
	for _, e := range p.Env {
		out = append(out, e.Name, e.Value)
	}
	return out
}

// inputs lists the paths of a plan's input files.
func inputs(p palyra.Plan) []string {
	var out []string
	for _, in := range p.Inputs {
		out = append(out, in.Path)
	}
	return out
}

// stdin describes the program's stdin. Live input is not part of the plan, and the approver must know that.
func (v *View) stdin() {
	p := v.Approval.Plan
	switch {
	case p.Stdin == palyra.StdinLive:
		v.shout("Stdin", "LIVE: fed while it runs; nobody has seen it, and no digest binds it", liveInput)
	case p.Stdin != "":
		text := show.Line(p.Stdin)
		if n, ok := stdinSize(p.Arguments); ok {
			text = screen.Size(n) + ", " + text
		}
		v.put("Stdin", text)
	case p.Executable.Path != "" && !v.Short:
		v.put("Stdin", "none")
	}
}

// stdinSize is the size of the stdin in the arguments.
func stdinSize(raw json.RawMessage) (int64, bool) {
	var args struct {
		Stdin    *string `json:"stdin"`
		StdinB64 *string `json:"stdin_b64"`
	}
	if json.Unmarshal(raw, &args) != nil {
		return 0, false
	}
	if args.Stdin != nil {
		return int64(len(*args.Stdin)), true
	}
	if args.StdinB64 != nil {
		b, err := base64.StdEncoding.DecodeString(*args.StdinB64)
		return int64(len(b)), err == nil
	}
	return 0, false
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// reach prints what the call can touch and how it is confined.
func (v *View) reach() {
	p := v.Approval.Plan
	v.list("Reads", v.ranked(p.Reads, "secret_place"))
	if !v.Short || !v.written() {
		v.list("Writes", v.ranked(p.Writes, "outside_workspace", "guarded_path"))
	}
	v.hosts()
	v.list("Secrets", p.Bindings)
	v.list("Keys", p.Signers)
	v.room()
	if !v.Short {
		v.printPlace()
	}
	if p.Asks {
		v.shout("", "the profile opens what is sealed otherwise: an answer is for this run only", opensSeals)
	}
	if !v.Short { // otherwise they are counted with the mechanisms
		v.put("Limits", Limits(p.Limits))
	}
	v.enforcement()
}

// printPlace says where the call runs. One that the agent runs itself is not confined at all, and
// the approver must see that first.
func (v *View) printPlace() {
	p := v.Approval.Plan
	if p.Tier == palyra.TierUnsandboxed {
		v.shout("Runs in", "NO SANDBOX: the agent does it itself, with all its rights; Palyra neither holds it nor sees what it does", noSandbox)
		return
	}
	text := TierText(p.Tier) + inProfile(p.Profile)
	if v.Short && p.Enforcement.Mode == palyra.NetworkStrict && len(p.Egress) == 0 {
		text += "; network: " + v.strictNetwork("none")
	}
	if v.Short && p.Staging.Staged() {
		text += "; staged: what it changes is judged when it has ended"
	}
	v.put("Runs in", text)
}

// enforcement prints what the tier enforces, and what it does not.
func (v *View) enforcement() {
	p := v.Approval.Plan
	e := p.Enforcement
	if p.Tier == palyra.TierUnsandboxed && v.Short {
		return // the place says it
	}
	if p.Tier == palyra.TierUnsandboxed {
		v.shout("NOT enforced", "anything: files, network, time and memory are what the agent itself may use", unenforced)
		return
	}
	if e.Mode == "" && len(e.Mechanisms) == 0 && len(e.Limits) == 0 {
		if p.Executable.Path != "" {
			v.shout("NOT enforced", "anything: the plan promises nothing about how it is held", unenforced)
		}
		return
	}
	if !v.Short || e.Mode != palyra.NetworkStrict || len(p.Egress) > 0 { // otherwise the place says it
		v.network(e.Mode, p)
	}
	if v.Short {
		v.mechanisms(e.Mechanisms)
	} else {
		v.line("Held by", screen.Joined(e.Mechanisms))
	}
	var held, polled, loose []string
	for _, name := range slices.Sorted(maps.Keys(e.Limits)) {
		switch how := e.Limits[name]; how {
		case palyra.HoldNone, "":
			loose = append(loose, show.Line(name))
		case palyra.HoldPolled:
			polled = append(polled, show.Line(name))
		default:
			held = append(held, show.Line(name)+" by "+show.Line(string(how)))
		}
	}
	if v.Short {
		v.leave(len(held), "held limit", "held limits")
	} else {
		v.put("Limits held", orNone(held))
	}
	if v.Short && slices.Equal(polled, []string{"disk"}) { // as everywhere
		v.leave(1, "polled limit (disk)", "")
	} else if polled != nil {
		v.shout("Polled", strings.Join(polled, ", ")+": only looked at from time to time, not held by the kernel", "limits only polled")
	}
	if loose != nil {
		v.shout("NOT enforced", strings.Join(loose, ", "), unenforced+": limits")
	}
}

// network says how the network is confined.
func (v *View) network(mode palyra.NetworkMode, p palyra.Plan) {
	switch {
	case mode == "" && p.Tool == palyra.ToolSign: // the daemon itself signs, and connects nowhere
	case mode == palyra.NetworkStrict && len(p.Egress) == 0:
		v.put("Network", v.strictNetwork("none"))
	case mode == palyra.NetworkStrict:
		v.put("Network", v.strictNetwork("the hosts above"))
	case mode == palyra.NetworkPreflight:
		v.shout("Network", "checked before it runs, NOT enforced while it runs (preflight)", unenforced+": network")
	case mode == palyra.NetworkOpen && p.Tier == palyra.TierC:
		v.shout("Network", "NOT enforced: it may reach any public host; what it reaches is on record (none)", unenforced+": network")
	case mode == palyra.NetworkOpen || mode == "":
		v.shout("Network", "NOT enforced", unenforced+": network")
	default:
		v.shout("Network", show.Line(string(mode)), unenforced+": network")
	}
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func inProfile(name string) string {
	if name == "" {
		return ""
	}
	return ", profile " + show.Arg(name)
}

// TierText describes a tier, for people.
func TierText(t palyra.Tier) string {
	switch t {
	case palyra.TierBuiltin:
		return "the daemon itself (trusted code of Palyra)"
	case palyra.TierA:
		return "tier A: WASM"
	case palyra.TierB:
		return "tier B: native, OS limits and kernel filters"
	case palyra.TierC:
		return "tier C: native, full OS sandbox"
	case palyra.TierNode:
		return "another machine"
	}
	return "tier " + show.Arg(string(t))
}

// Limits puts the bounds of a run on one line.
func Limits(l palyra.Limits) string {
	var out []string
	add := func(name string, n int64, text string) {
		if n != 0 {
			out = append(out, name+" "+text)
		}
	}
	add("time", l.WallMS, screen.Span(time.Duration(l.WallMS)*time.Millisecond))
	add("CPU", l.CPUMS, screen.Span(time.Duration(l.CPUMS)*time.Millisecond))
	add("memory", l.MemoryBytes, screen.Size(l.MemoryBytes))
	add("processes", l.Processes, strconv.FormatInt(l.Processes, 10))
	add("open files", l.OpenFiles, strconv.FormatInt(l.OpenFiles, 10))
	add("file size", l.FileBytes, screen.Size(l.FileBytes))
	add("output", l.OutputBytes, screen.Size(l.OutputBytes))
	add("printed in all", l.EmittedBytes, screen.Size(l.EmittedBytes))
	add("written to disk", l.DiskBytes, screen.Size(l.DiskBytes))
	if out == nil {
		return "those of the tier"
	}
	return strings.Join(out, ", ")
}

// strictNetwork says what a run can reach beyond the hosts of its plan: in tier C a host may be
// asked about during the run, and an answer for the session holds for it.
func (v *View) strictNetwork(named string) string {
	switch {
	case v.Approval.Plan.Tier != palyra.TierC:
		return named + " (strict)"
	case v.Short:
		return named + ", and hosts that an answer of their own allows (strict)"
	}
	return named + ", and others only by an answer of their own: asked on the way, or given for this session before (strict)"
}
