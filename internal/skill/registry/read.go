package registry

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
)

// readSchema is the input schema of the tool that reads a folder.
const readSchema = `{"type":"object","properties":{"path":{"type":"string","maxLength":240,` +
	`"description":"A file of the skill's folder; default SKILL.md."}},"additionalProperties":false}`

// maxRead is the most of a file that is answered.
const maxRead = 256 << 10

// readTool is the tool by which agents read the folder of a skill. It hands out what was signed, and touches nothing.
func readTool(s skill.Skill) palyra.Tool {
	return palyra.Tool{
		Name: skill.ToolName(s.ID, skill.FolderRead), Source: palyra.SourceSkill, Tier: palyra.TierBuiltin, ReadOnly: true,
		Description:  "Read the skill " + s.ID + ", or a file of its folder: " + palyra.Clip(s.Description, 1000),
		InputSchema:  json.RawMessage(readSchema),
		MaxInput:     maxArguments,
		Capabilities: []palyra.Capability{},
	}
}

// readsFolder reports whether a tool is the one that reads the folder of its skill.
func readsFolder(s skill.Skill, name palyra.ToolName) bool {
	return s.Folder != nil && name == skill.ToolName(s.ID, skill.FolderRead)
}

// planRead binds the package that is read.
func planRead(s skill.Skill, p *palyra.Plan) {
	p.Inputs = append(p.Inputs, palyra.Input{Path: saysSkill + s.ID + inputPackage, Digest: s.Digest})
	p.Enforcement.Mechanisms = mechanisms(s)
	p.Detail.Summary = show.Middle(s.ID+": read "+string(p.Arguments), 240)
	p.Detail.Notes = append(p.Detail.Notes, "it hands out a file of the skill "+s.ID+" "+s.Version+" of "+s.Publisher+"; nothing runs")
}

// readFile answers with a file of a skill's folder, from the package, which is verified again.
func (r *Registry) readFile(ctx context.Context, s skill.Skill, arguments json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Path string `json:"path"`
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput,
			"the arguments cannot be read").WithRemedy("give {\"path\":\"SKILL.md\"}")
	}
	if in.Path == "" {
		in.Path = "SKILL.md"
	}
	p, err := r.open(ctx, s)
	if err != nil {
		return nil, err
	}
	text, ok := p.Files[archive.Folder+in.Path]
	if !ok {
		return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "the skill %s has no file %q", s.ID, palyra.Clip(in.Path, 100)).
			WithRemedy("read SKILL.md, which says what there is")
	}
	if !utf8.Valid(text) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the file %q is not text", palyra.Clip(in.Path, 100)).
			WithRemedy("read another one")
	}
	cut := palyra.Clip(string(text), maxRead)
	return json.Marshal(map[string]any{"path": in.Path, "text": cut, "truncated": len(cut) < len(text)})
}

// callRead runs a granted call of the tool that reads.
func (r *Registry) callRead(ctx context.Context, s skill.Skill, plan palyra.Plan) (res palyra.Result) {
	res.Started = r.Now()
	res.Executor, res.Enforcement = "builtin", plan.Enforcement
	res.Runtime = &palyra.Runtime{
		Name: "builtin", Skill: s.ID + "@" + s.Version, Package: s.Digest, Granted: s.Granted.Terms(), Used: []string{},
	}
	var err error
	if res.Output, err = r.readFile(ctx, s, plan.Arguments); err != nil {
		failure := palyra.RefusalOf(palyra.LayerTier, plan.Stopped(ctx, err))
		res.Failure, res.ExitCode = &failure, 1
	}
	res.Finished = r.Now()
	res.Usage = palyra.Usage{WallMS: res.Finished.Sub(res.Started).Milliseconds(), BytesOut: int64(len(res.Output))}
	return res
}
