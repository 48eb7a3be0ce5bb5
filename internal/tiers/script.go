package tiers

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"palyra"
	"palyra/internal/sandbox/cage"
	"palyra/internal/show"
	"palyra/internal/skill"
	"palyra/internal/subpath"
	"palyra/internal/tool/process"
)

// Scripts plans and runs the scripts of skills: as programs in rooms of tier C, each in a cage of what its skill was granted.
type Scripts struct{ *Tiers }

// Plan makes the plan of a script: that of its program, with the cage as its promise. What cannot be held is refused.
func (s Scripts) Plan(ctx context.Context, c *palyra.Call, p *palyra.Plan, run skill.Script) error {
	if c.Proposal.Check {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "scripts of skills are run by Palyra, and not by agents themselves").
			WithRemedy("call the tool %s", p.Tool)
	}
	hosts, refused, err := s.hosts(run.Granted.Hosts)
	if err != nil {
		return err
	}
	plan, err := s.program(ctx, c, *p, map[string]any{
		"command": run.Program, "tier": "c", "profile": palyra.NoProfile, "egress": hosts,
		"bindings": append([]string{}, run.Granted.Secrets...), "stdin": run.Stdin,
	})
	if err != nil {
		return err
	}
	if plan.Enforcement.Mode != palyra.NetworkStrict {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement,
			"hosts are not held by their names here (egress.mode is not strict), so nothing would keep the script from others").
			WithRemedy("set egress.mode = \"strict\"")
	}
	plan.Tool, plan.Arguments = p.Tool, p.Arguments
	plan.Egress = hosts // and none that only a binding is for
	if plan.Detail.Notes, err = s.paths(plan, run.Granted); err != nil {
		return err
	}
	for _, h := range refused {
		plan.Detail.Notes = append(plan.Detail.Notes, "was granted "+show.Line(h)+", which this system does not allow")
	}
	if err := s.programs(ctx, c, *p, run, &plan); err != nil {
		return err
	}
	at := cage.At(run.ID)
	plan.Argv = slices.Concat([]string{run.Program}, run.Options, []string{at + "/" + run.Name}, run.Args)
	plan.Env = append(plan.Env, palyra.EnvVar{Name: "SKILL_DIR", Digest: palyra.SumBytes([]byte(at)), Value: at})
	slices.SortFunc(plan.Env, func(a, b palyra.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	plan.Inputs = append(plan.Inputs, run.Bound...)
	plan.Enforcement.Mechanisms = slices.Sorted(slices.Values(slices.Concat(plan.Enforcement.Mechanisms, run.Says, []string{cage.Mechanism})))
	lower(&plan.Limits, run.Limits)
	plan.Detail.Summary = show.Middle(run.ID+": "+show.Argv(append([]string{run.Name}, run.Args...)), 240)
	plan.Detail.Notes = append(plan.Detail.Notes, run.Describe)
	*p = plan
	return nil
}

// lower holds limits to those of a manifest.
func lower(l *palyra.Limits, of skill.Limits) {
	if of.TimeoutMS > 0 {
		l.WallMS = min(l.WallMS, of.TimeoutMS)
	}
	if of.MemoryMiB > 0 {
		l.MemoryBytes = min(l.MemoryBytes, of.MemoryMiB<<20)
	}
}

// program is the plan of a program in a room of tier C, as the process tool makes it.
func (s Scripts) program(ctx context.Context, c *palyra.Call, p palyra.Plan, args map[string]any) (palyra.Plan, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return p, err
	}
	p.Tool, p.Arguments, p.Inputs, p.Links, p.Detail = process.Name, raw, nil, nil, palyra.Detail{}
	return p, s.Tool.Plan(ctx, c, &p)
}

// hosts are those of the granted hosts that this system allows, in their one form, and those that it does not.
func (s Scripts) hosts(granted []string) (hosts, refused []string, err error) {
	hosts = []string{}
	for _, h := range granted {
		got, err := s.Guard.Check([]string{h})
		switch {
		case err == nil:
			hosts = append(hosts, got...)
		case palyra.AsError(err).Reason == palyra.ReasonEgressDenied:
			refused = append(refused, h)
		default:
			return nil, nil, err
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), refused, nil
}

// programs binds the programs that the script was granted, with the interpreters that lead to them. One that is not there
// cannot be started, and people are told so.
func (s Scripts) programs(ctx context.Context, c *palyra.Call, p palyra.Plan, run skill.Script, plan *palyra.Plan) error {
	keep := func(all []palyra.Input) {
		for _, in := range all {
			if filepath.IsAbs(in.Path) && in.Digest != "" && !slices.Contains(plan.Inputs, in) {
				plan.Inputs = append(plan.Inputs, in)
			}
		}
	}
	own := plan.Inputs
	plan.Inputs, plan.Links = []palyra.Input{skill.ProgramInput(run.ID, run.Program, plan.Executable.Digest)}, nil
	keep(own)
	for _, name := range run.Granted.Programs {
		if name == run.Program {
			continue
		}
		other, err := s.program(ctx, c, p, map[string]any{"command": name, "tier": "c", "profile": palyra.NoProfile, "egress": []string{}})
		switch e := palyra.AsError(err); {
		case err == nil:
			plan.Inputs = append(plan.Inputs, skill.ProgramInput(run.ID, name, other.Executable.Digest))
			keep(append([]palyra.Input{{Path: other.Executable.Path, Digest: other.Executable.Digest}}, other.Inputs...))
		case e.Reason == palyra.ReasonFileNotFound || e.Reason == palyra.ReasonPathInvalid:
			plan.Detail.Notes = append(plan.Detail.Notes, "may start "+show.Line(name)+", which is not there")
		default:
			return err
		}
	}
	return nil
}

// closed are names in a workspace that no script is shown: what people keep their keys in.
var closed = strings.Fields(`.ssh .gnupg .aws .kube .azure .gcloud .docker .netrc .git-credentials .pgpass .pypirc .npmrc .config/gcloud
	.config/gh .local/share/keyrings`)

// paths refuses paths of the workspace that cannot be held, and says of the others what people should know.
func (s Scripts) paths(p palyra.Plan, granted skill.Capabilities) ([]string, error) {
	notes := p.Detail.Notes
	if p.Staging.Of != "" { // the workspace is another one there, and a way through a link fails when the room is built
		return notes, nil
	}
	for _, rel := range slices.Concat(granted.Read, granted.Write) {
		there, err := straight(p.Workspace.Path, rel)
		switch {
		case err != nil:
			return nil, err
		case !there && slices.Contains(granted.Write, rel):
			return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "the skill may write to %s, which is not there", show.Arg(rel)).
				WithRemedy("make it first: mkdir %s", show.Arg(rel))
		case !there:
			notes = append(notes, "may read "+show.Line(rel)+", which is not there")
			continue
		}
		for _, name := range closed {
			if _, err := os.Lstat(filepath.Join(p.Workspace.Path, rel, name)); !errors.Is(err, fs.ErrNotExist) && !notDir(err) {
				return nil, palyra.Errorf(palyra.Denied, palyra.ReasonSealDenied, "the skill may read %s, in which %s lies: no script is shown that",
					show.Arg(rel), name).
					WithRemedy("grant it directories in which there is nothing of that kind, or work in another workspace")
			}
		}
	}
	return notes, nil
}

// straight reports whether there is something at a path of a workspace, and refuses one that leads through a link.
func straight(workspace, rel string) (there bool, err error) {
	at := workspace
	for part := range strings.SplitSeq(rel, "/") {
		at = filepath.Join(at, part)
		st, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) || notDir(err):
			return false, nil
		case err != nil || !subpath.Within(workspace, at):
			return false, palyra.Errorf(palyra.Denied, palyra.ReasonPathOutside, "the path %s of the workspace cannot be looked at", show.Arg(rel)).
				WithCause(err)
		case st.Mode()&fs.ModeSymlink != 0:
			return false, palyra.Errorf(palyra.Denied, palyra.ReasonPathOutside, "the path %s of the workspace is a link, or leads through one",
				show.Arg(rel)).
				WithRemedy("have the skill granted the path that it leads to")
		}
	}
	return true, nil
}

// notDir reports whether something on the way is no directory.
func notDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// Run runs a planned script. What it needed is in the result: programs, paths and secrets.
func (s Scripts) Run(ctx context.Context, l palyra.Launch, c *palyra.Call) palyra.Result {
	used := &lent{}
	s.lent.Store(c.ID, used)
	defer s.lent.Delete(c.ID)
	res := s.Tiers.Run(ctx, l, c)
	if res.Runtime == nil || slices.Contains(res.Runtime.Used, cage.Unknown) {
		res.Runtime = nil
		return res
	}
	for _, b := range append(used.all(), l.Plan().Signers...) { // each use of a key is a call of its own
		res.Runtime.Used = append(res.Runtime.Used, "secrets:"+b)
	}
	return res
}

// lent is what a script used of what was lent to it.
type lent struct {
	mu       sync.Mutex
	bindings []string
}

func (u *lent) add(binding string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.bindings, binding) {
		u.bindings = append(u.bindings, binding)
	}
}

func (u *lent) all() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.bindings)
}

// cage draws the cage of a plan, with the package as it is verified now.
func (t *Tiers) cage(ctx context.Context, p palyra.Plan) (*cage.Cage, error) {
	from, err := t.Packs(ctx, p)
	if err != nil {
		return nil, err
	}
	pack := cage.Layout{Digest: from.Digest, At: cage.At(from.ID)}
	for _, name := range slices.Sorted(maps.Keys(from.Files)) {
		pack.Files = append(pack.Files, cage.File{
			Path: pack.At + "/" + name, Data: from.Files[name], Script: slices.Contains(from.Scripts, name),
		})
	}
	granted, err := skill.Said(p.Enforcement.Mechanisms)
	if err != nil {
		return nil, err
	}
	return cage.Of(p, pack, granted.Read, granted.Write), nil
}

// stdin is the input that a plan binds.
func (t *Tiers) stdin(p palyra.Plan) ([]byte, error) {
	if p.Source != palyra.SourceSkill {
		return t.Tool.Stdin(p)
	}
	var in struct {
		Stdin string `json:"stdin"`
	}
	if err := json.Unmarshal(p.Arguments, &in); err != nil || in.Stdin == "" {
		return nil, err
	}
	return []byte(in.Stdin), nil // the runner holds it against the plan's digest
}

// size is that of a plan's terminal; scripts have none.
func (t *Tiers) size(p palyra.Plan) (rows, cols int) {
	if p.Source == palyra.SourceSkill {
		return 0, 0
	}
	return t.Tool.Size(p)
}
