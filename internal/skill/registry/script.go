package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
)

// Scripts plans and runs the scripts of folders, each held to what its skill was granted.
type Scripts interface {
	// Plan makes the plan of a script. It refuses what could not be held.
	Plan(ctx context.Context, c *palyra.Call, p *palyra.Plan, run skill.Script) error
	// Run runs a planned script.
	Run(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result
}

// The most that a call can hand to a script.
const (
	maxScriptArgs = 64
	maxScriptArg  = 4 << 10
	maxScriptIn   = 512 << 10
)

// runSchema is the input schema of the tool that runs the scripts of a folder.
func runSchema(scripts []string) json.RawMessage {
	names, _ := json.Marshal(scripts) // texts cannot fail
	return fmt.Appendf(nil, `{"type":"object","properties":{"script":{"type":"string","enum":%s,"description":"The script to run, by its path in `+
		`the skill's folder."},"args":{"type":"array","maxItems":%d,"items":{"type":"string","maxLength":%d},"description":"Its arguments, `+
		`passed on exactly as given."},"stdin":{"type":"string","maxLength":%d,"description":"Its standard input. Default: none."}},`+
		`"required":["script"],"additionalProperties":false}`, names, maxScriptArgs, maxScriptArg, maxScriptIn)
}

// runTool is the tool by which agents run the scripts of a folder.
func runTool(s skill.Skill) palyra.Tool {
	about := "Run a script of the skill " + s.ID + " in a sandbox, in the workspace. It reaches what was granted and nothing else"
	if lines := s.Granted.Lines(); len(lines) > 0 {
		about += ": " + palyra.Clip(strings.Join(lines, "; "), 400)
	}
	return palyra.Tool{
		Name: skill.ToolName(s.ID, skill.FolderRun), Source: palyra.SourceSkill, Tier: palyra.TierC, Workspace: true, Description: about + ".",
		InputSchema: runSchema(s.Folder.Scripts), MaxInput: maxArguments,
		Capabilities: slices.Compact(append(capabilities(s.Granted), palyra.ProcessExec)),
	}
}

// runsScript reports whether a tool is the one that runs the scripts of its skill's folder.
func runsScript(s skill.Skill, name palyra.ToolName) bool {
	return s.Folder != nil && len(s.Folder.Scripts) > 0 && name == skill.ToolName(s.ID, skill.FolderRun)
}

const inputScript = "/scripts/"

// planScript binds the package, the script and what was granted, and has the rest planned.
func (r *Registry) planScript(ctx context.Context, s skill.Skill, c *palyra.Call, p *palyra.Plan) error {
	if r.Scripts == nil {
		return palyra.Errorf(palyra.Unavailable, skill.ReasonNoRuntime, "this daemon runs no scripts").WithRemedy("see 'palyra status'")
	}
	var in struct {
		Script string   `json:"script"`
		Args   []string `json:"args"`
		Stdin  string   `json:"stdin"`
	}
	if err := json.Unmarshal(p.Arguments, &in); err != nil || !slices.Contains(s.Folder.Scripts, in.Script) {
		return palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "the skill %s has no script %q", s.ID, palyra.Clip(in.Script, 100)).
			WithRemedy("name one of: %s", palyra.Clip(strings.Join(s.Folder.Scripts, ", "), 400))
	}
	pack, err := r.open(ctx, s)
	if err != nil {
		return err
	}
	text := pack.Files[archive.Folder+in.Script]
	program, options := archive.Interpreter(in.Script, text)
	switch {
	case program == "":
		return palyra.Errorf(palyra.Invalid, skill.ReasonManifest, "nothing says by which program %q is run", palyra.Clip(in.Script, 100)).
			WithRemedy("have its publisher begin it with a #! line")
	case !slices.Contains(s.Granted.Programs, program):
		return palyra.Errorf(palyra.Denied, skill.ReasonDenied, "%q is run by %s, which the skill %s was not granted",
			palyra.Clip(in.Script, 100), show.Arg(program), s.ID).
			WithRemedy("have an operator grant it programs:%s, if the skill asks for it: 'palyra skills show %s'", program, s.ID)
	}
	id := saysSkill + s.ID
	run := skill.Script{
		ID: s.ID, Name: in.Script, Program: program, Options: options, Args: in.Args, Stdin: in.Stdin, Granted: s.Granted, Limits: s.Limits,
		Says: scriptMechanisms(s),
		Bound: []palyra.Input{
			{Path: id + inputPackage, Digest: s.Digest}, {Path: id + inputScript + in.Script, Digest: palyra.SumBytes(text)}, grantedInput(s),
		},
		Describe: "a script of the skill " + s.ID + " " + s.Version + " of " + s.Publisher + ", signed by " + s.KeyID +
			"; it was granted " + show.Middle(strings.Join(s.Granted.Lines(), "; "), 400),
	}
	if err := r.Scripts.Plan(ctx, c, p, run); err != nil {
		return err
	}
	p.Capabilities = slices.Compact(slices.Sorted(slices.Values(append(capabilities(s.Granted), palyra.ProcessExec))))
	return nil
}

// grantedInput is what a skill was granted, as plans bind it.
func grantedInput(s skill.Skill) palyra.Input {
	granted, _ := json.Marshal(s.Granted.Terms()) // texts cannot fail
	return palyra.Input{Path: saysSkill + s.ID + inputGranted, Digest: palyra.SumBytes(granted)}
}

// scriptMechanisms are what a plan says of a skill whose script runs.
func scriptMechanisms(s skill.Skill) []string {
	return slices.DeleteFunc(mechanisms(s), func(m string) bool { return m == "wasm" })
}

// callScript runs a granted call of a script.
func (r *Registry) callScript(ctx context.Context, s skill.Skill, l palyra.Launch, c *palyra.Call) palyra.Result {
	res := r.Scripts.Run(ctx, l, c)
	if res.Refusal != nil {
		return res
	}
	// It may have been taken away meanwhile, and its program with it.
	if err := stopped(ctx, l.Plan(), nil); err != nil && palyra.AsError(err).Reason == skill.ReasonTaken {
		failure := palyra.RefusalOf(palyra.LayerTier, err)
		res.Failure, res.Cancelled = &failure, false
	}
	used := neededBy(s, l.Plan(), res)
	res.Runtime = &palyra.Runtime{
		Name: res.Executor, ABI: "SKILL.md", Skill: s.ID + "@" + s.Version, Package: s.Digest, Granted: s.Granted.Terms(), Used: used.Terms(),
	}
	if lost := r.Used(context.WithoutCancel(ctx), s.Digest, used); lost != nil {
		r.Log.Warn("what a skill used could not be kept", "skill", s.ID, "error", lost)
	}
	return res
}

// neededBy is what a run of a script needed of what it was granted.
func neededBy(s skill.Skill, p palyra.Plan, res palyra.Result) (used skill.Capabilities) {
	for _, f := range res.Egress {
		if at := net.JoinHostPort(f.Host, strconv.Itoa(f.Port)); f.Verdict == palyra.FlowAllowed {
			used = used.Add("hosts", at)
		}
	}
	if res.Runtime == nil { // nobody knows
		used.Programs, used.Read, used.Write, used.Secrets = s.Granted.Programs, s.Granted.Read, s.Granted.Write, s.Granted.Secrets
		return used.Within(s.Granted)
	}
	for _, term := range res.Runtime.Used {
		switch kind, what, _ := strings.Cut(term, ":"); kind {
		case "programs":
			used = used.Add(kind, programsAt(s, p, what)...)
		case "read", "write":
			used = used.Add(kind, granted(s, kind, what)...)
		default:
			used = used.Add(kind, what)
		}
	}
	return used.Within(s.Granted).Least()
}

// programsAt are the names by which a skill was granted the program at a path.
func programsAt(s skill.Skill, p palyra.Plan, at string) (names []string) {
	digests := map[palyra.Digest]bool{}
	if p.Executable.Path == at {
		digests[p.Executable.Digest] = true
	}
	for _, in := range p.Inputs {
		if in.Path == at {
			digests[in.Digest] = true
		}
	}
	for _, name := range s.Granted.Programs {
		if slices.ContainsFunc(p.Inputs, func(in palyra.Input) bool {
			return digests[in.Digest] && in == skill.ProgramInput(s.ID, name, in.Digest)
		}) {
			names = append(names, name)
		}
	}
	return names
}

// granted is a path that was needed as a manifest can name it, or what above it was granted.
func granted(s skill.Skill, kind, rel string) (out []string) {
	for p := rel; p != "."; p = path.Dir(p) {
		if skill.ValidPath(p) {
			return []string{p}
		}
	}
	for _, top := range s.Granted.Of(kind) {
		if top == "." || top == rel {
			out = append(out, top)
		}
	}
	return out
}

// Folder returns the folder of the skill that a plan is of, from the package that the plan binds, verified once more.
func (r *Registry) Folder(ctx context.Context, p palyra.Plan) (skill.Unpacked, error) {
	s, _, err := r.lookup(p.Tool)
	if err != nil {
		return skill.Unpacked{}, err
	}
	if !slices.Contains(p.Inputs, palyra.Input{Path: saysSkill + s.ID + inputPackage, Digest: s.Digest}) {
		return skill.Unpacked{}, palyra.PlanChanged("the skill " + s.ID)
	}
	pack, err := r.open(ctx, s)
	if err != nil {
		return skill.Unpacked{}, err
	}
	out := skill.Unpacked{ID: s.ID, Digest: s.Digest, Scripts: pack.Manifest.Folder.Scripts, Files: map[string][]byte{}}
	for name, data := range pack.Files {
		if rel, ok := strings.CutPrefix(name, archive.Folder); ok {
			out.Files[rel] = data
		}
	}
	return out, nil
}
